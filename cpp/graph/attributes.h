#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "base/inline_vector.h"

namespace torch_pjrt::graph {

// The structural constants of one recorded operator (dims, shapes, flags), written in order when
// it is recorded and read in the same order when it is emitted. They are part of a program's
// identity: a number that may change from step to step is an operand instead (see `number`).
class Attributes {
 public:
  Attributes() noexcept = default;

  Attributes& add(int64_t value) {
    words_.push_back(value);
    return *this;
  }
  Attributes& add(int value) { return add(static_cast<int64_t>(value)); }
  Attributes& add(bool value) { return add(static_cast<int64_t>(value)); }
  Attributes& add(double value) { return add(std::bit_cast<int64_t>(value)); }
  Attributes& add(std::span<const int64_t> values) {
    words_.push_back(static_cast<int64_t>(values.size()));
    words_.append(values.data(), values.size());
    return *this;
  }

  template <typename... Parts>
  static Attributes of(const Parts&... parts) {
    Attributes attributes;
    (attributes.add(parts), ...);
    return attributes;
  }

  std::span<const int64_t> words() const noexcept { return words_; }

 private:
  base::InlineVector<int64_t, 8> words_;
};

// Reads attributes back in the order in which they were added.
class AttributeReader {
 public:
  explicit AttributeReader(std::span<const int64_t> words) noexcept : words_(words) {}

  int64_t integer() { return words_[position_++]; }
  bool boolean() { return integer() != 0; }
  double real() { return std::bit_cast<double>(integer()); }
  std::span<const int64_t> list() {
    const size_t size = static_cast<size_t>(integer());
    const auto values = words_.subspan(position_, size);
    position_ += size;
    return values;
  }
  bool at_end() const noexcept { return position_ == words_.size(); }

 private:
  std::span<const int64_t> words_;
  size_t position_ = 0;
};

}  // namespace torch_pjrt::graph
