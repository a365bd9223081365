#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "graph/program_key.h"

namespace torch_pjrt::graph {

// A host number's content, for comparison: kind and element type, and its bits.
struct NumberBits {
  uint64_t kind = 0;
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const NumberBits&, const NumberBits&) noexcept = default;
};

// Decides which host numbers of a program are read from one place.
//
// An optimizer passes the same few numbers for each of its parameters. Read from a place each, they
// make kernels that differ in nothing but that place, and XLA compiles every one of them; read
// from shared places the kernels are equal, and XLA compiles one. But numbers that are equal now
// may differ at the next execution, which then needs another program. So programs with few numbers
// share none, and those of one structure share ever less: after kMostPrograms - 1 surprises,
// none. Not thread-safe.
class NumberSharing {
 public:
  static constexpr size_t kFewestNumbers = 32;
  static constexpr int kMostPrograms = 3;

  // The place of each number, counted from 0 in the order of first use. `structure` is what
  // identifies the program but for these places.
  std::vector<uint32_t> places(const ProgramKey& structure, std::span<const NumberBits> numbers);

 private:
  struct Known {
    std::vector<uint32_t> places;
    int programs = 1;
  };
  std::unordered_map<ProgramKey, Known, ProgramKeyHash> known_;
};

}  // namespace torch_pjrt::graph
