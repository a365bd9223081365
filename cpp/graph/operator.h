#pragma once

#include <cstdint>
#include <string_view>

namespace torch_pjrt::graph {

class Emission;

// One operator that a graph can record: its name and how it is written as StableHLO.
// Instances are static; their address is compared, their name is hashed.
struct Operator {
  using Emit = void (*)(Emission&);

  constexpr Operator(std::string_view name, Emit emit) : name(name), emit(emit), id(hash(name)) {}

  std::string_view name;  // for ATen operators "aten::name"
  Emit emit;
  uint64_t id;

 private:
  // FNV-1a, so that an operator's part of a program's identity is the same in every process.
  static constexpr uint64_t hash(std::string_view text) {
    uint64_t h = 0xcbf29ce484222325ull;
    for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    return h;
  }
};

}  // namespace torch_pjrt::graph
