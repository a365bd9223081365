#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "graph/type.h"

namespace torch_pjrt::graph {

class StableHloBuilder;

// One value of the program that `builder` writes: a handle, copied freely, valid while the builder
// lives. A value made inside a region (a reducer's body, a loop) is valid only inside that region.
struct Operand {
  uint32_t id = 0;
  StableHloBuilder* builder = nullptr;

  explicit operator bool() const noexcept { return builder != nullptr; }
  const Type& type() const;  // the reference stays valid while the builder lives
  ElementType element() const;
  const Dimensions& dimensions() const;
  int64_t rank() const;
  int64_t dimension(int64_t index) const;  // a negative index counts from the end
  friend bool operator==(const Operand&, const Operand&) = default;
};

using Operands = std::vector<Operand>;

// A borrowed list as a function argument: takes `{1, 2}`, a vector, an InlineVector or a span.
template <typename T>
class ListRef : public std::span<const T> {
 public:
  ListRef() noexcept = default;
  ListRef(std::initializer_list<T> values) noexcept
      : std::span<const T>(values.begin(), values.size()) {}
  template <typename List>
    requires(!std::same_as<std::remove_cvref_t<List>, ListRef> &&
             std::convertible_to<const List&, std::span<const T>>)
  ListRef(const List& list) noexcept : std::span<const T>(list) {}
};

using Ints = ListRef<int64_t>;
using OperandList = ListRef<Operand>;

// A number of any kind, before it takes an array's element type.
class Number {
 public:
  enum class Kind : uint8_t { kBool, kSigned, kUnsigned, kFloating, kComplex };

  Number(bool value) noexcept : kind_(Kind::kBool), integer_(value) {}
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  Number(I value) noexcept
      : kind_(std::is_signed_v<I> ? Kind::kSigned : Kind::kUnsigned),
        integer_(static_cast<uint64_t>(static_cast<int64_t>(value))) {}
  template <std::floating_point F>
  Number(F value) noexcept : kind_(Kind::kFloating), real_(static_cast<double>(value)) {}
  template <std::floating_point F>
  Number(std::complex<F> value) noexcept
      : kind_(Kind::kComplex), real_(value.real()), imaginary_(value.imag()) {}

  Kind kind() const noexcept { return kind_; }
  bool is_integral() const noexcept { return kind_ <= Kind::kUnsigned; }
  uint64_t integer_bits() const noexcept { return integer_; }  // of the three integral kinds
  double real() const noexcept {
    if (!is_integral()) return real_;
    return kind_ == Kind::kUnsigned ? static_cast<double>(integer_)
                                    : static_cast<double>(static_cast<int64_t>(integer_));
  }
  double imaginary() const noexcept { return imaginary_; }

 private:
  Kind kind_;
  uint64_t integer_ = 0;
  double real_ = 0;
  double imaginary_ = 0;
};

// An argument of an elementwise method: an operand, or a number that becomes a constant of the
// type the other argument has.
class Term {
 public:
  Term(Operand operand) noexcept : operand_(operand), number_(false), is_operand_(true) {}
  template <typename N>
    requires(std::convertible_to<N, Number> && !std::convertible_to<N, Operand>)
  Term(N number) noexcept : number_(number) {}

  bool is_operand() const noexcept { return is_operand_; }
  Operand operand() const noexcept { return operand_; }
  const Number& number() const noexcept { return number_; }

 private:
  Operand operand_;
  Number number_;
  bool is_operand_ = false;
};

}  // namespace torch_pjrt::graph
