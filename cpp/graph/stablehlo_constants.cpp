#include <bit>
#include <cmath>
#include <limits>

#include "graph/stablehlo_statement.h"

namespace torch_pjrt::graph {

namespace {

// Bit patterns of the values that decimal text cannot name. A type without infinity says NaN for
// it, as a conversion would.
struct Specials {
  ElementType element;
  int digits;
  uint64_t infinity, negative_infinity, nan;
  double greatest;  // for types without infinity
};

constexpr Specials kSpecials[] = {
    {ElementType::kF32, 8, 0x7F800000, 0xFF800000, 0x7FC00000, 0},
    {ElementType::kF64, 16, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0},
    {ElementType::kBF16, 4, 0x7F80, 0xFF80, 0x7FC0, 0},
    {ElementType::kF16, 4, 0x7C00, 0xFC00, 0x7E00, 0},
    {ElementType::kF8E5M2, 2, 0x7C, 0xFC, 0x7E, 0},
    {ElementType::kF8E4M3, 2, 0x78, 0xF8, 0x7C, 0},
    {ElementType::kF8E3M4, 2, 0x70, 0xF0, 0x78, 0},
    {ElementType::kF8E4M3FN, 2, 0x7F, 0x7F, 0x7F, 448},
    {ElementType::kF8E4M3FNUZ, 2, 0x80, 0x80, 0x80, 240},
    {ElementType::kF8E4M3B11FNUZ, 2, 0x80, 0x80, 0x80, 30},
    {ElementType::kF8E5M2FNUZ, 2, 0x80, 0x80, 0x80, 57344},
    {ElementType::kF8E8M0FNU, 2, 0xFF, 0xFF, 0xFF, 0x1p127},
};

const Specials* specials(ElementType element) {
  for (const Specials& s : kSpecials) {
    if (s.element == element) return &s;
  }
  return nullptr;
}

void append_floating(std::string& out, ElementType element, double value) {
  if (!std::isfinite(value)) {
    const Specials* s = specials(element);
    if (!s) {
      fail("constant", "the element type has no infinity and no NaN", pjrt::name(element),
           "a finite number");
    }
    const uint64_t bits = std::isnan(value) ? s->nan
                          : value > 0       ? s->infinity
                                            : s->negative_infinity;
    out.append("0x");
    for (int digit = s->digits; digit-- > 0;) {
      out.push_back("0123456789ABCDEF"[(bits >> (4 * digit)) & 15]);
    }
    return;
  }
  char digits[40];
  const char* end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  const std::string_view text(digits, static_cast<size_t>(end - digits));
  const size_t exponent = text.find('e');
  out.append(text.substr(0, exponent));
  // MLIR reads a number without a point as an integer.
  if (text.substr(0, exponent).find('.') == std::string_view::npos) out.append(".0");
  if (exponent != std::string_view::npos) out.append(text.substr(exponent));
}

struct Bits {
  uint64_t low = 0, high = 0;
};

std::string text_of(const Number& number) {
  if (number.kind() == Number::Kind::kUnsigned) return std::to_string(number.integer_bits());
  if (number.is_integral()) return std::to_string(static_cast<int64_t>(number.integer_bits()));
  std::string text = std::to_string(number.real());
  if (number.imaginary() != 0)
    text.append(" + ").append(std::to_string(number.imaginary())).append("i");
  return text;
}

[[noreturn]] void fail_unrepresentable(ElementType element, const Number& number) {
  fail("constant", "the number is no value of the element type", text_of(number),
       pjrt::name(element), "convert the operand, or round the number");
}

Bits integer_bits(ElementType element, const Number& number) {
  const int width = pjrt::bit_width(element);
  const bool is_unsigned = pjrt::is_unsigned_integer(element);
  uint64_t bits = 0;
  bool negative = false;
  if (number.is_integral()) {
    bits = number.integer_bits();
    negative = number.kind() == Number::Kind::kSigned && static_cast<int64_t>(bits) < 0;
  } else {
    const double value = number.real();
    if (!(value >= -0x1p63 && value < 0x1p64) || std::trunc(value) != value) {
      fail_unrepresentable(element, number);
    }
    negative = value < 0;
    bits = negative ? static_cast<uint64_t>(static_cast<int64_t>(value))
                    : static_cast<uint64_t>(value);
  }
  const uint64_t greatest =
      (width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1) >> (is_unsigned ? 0 : 1);
  const bool fits = negative ? !is_unsigned && ~bits <= greatest : bits <= greatest;
  if (!fits) fail_unrepresentable(element, number);
  return {bits, 0};
}

Bits bits_of(ElementType element, const Number& number) {
  if (element == ElementType::kPred) {
    const bool truth = number.is_integral() ? number.integer_bits() != 0
                                            : number.real() != 0 || number.imaginary() != 0;
    return {truth, 0};
  }
  if (pjrt::is_complex(element)) {
    return {std::bit_cast<uint64_t>(number.real()), std::bit_cast<uint64_t>(number.imaginary())};
  }
  if (number.imaginary() != 0) fail_unrepresentable(element, number);
  if (pjrt::is_floating(element)) return {std::bit_cast<uint64_t>(number.real()), 0};
  return integer_bits(element, number);
}

void append_literal(std::string& out, ElementType element, Bits bits) {
  if (element == ElementType::kPred) {
    out.append(bits.low ? "true" : "false");
  } else if (pjrt::is_complex(element)) {
    const ElementType part = element == ElementType::kC64 ? ElementType::kF32 : ElementType::kF64;
    out.push_back('(');
    append_floating(out, part, std::bit_cast<double>(bits.low));
    out.append(", ");
    append_floating(out, part, std::bit_cast<double>(bits.high));
    out.push_back(')');
  } else if (pjrt::is_floating(element)) {
    append_floating(out, element, std::bit_cast<double>(bits.low));
  } else if (pjrt::is_unsigned_integer(element)) {
    out.append(std::to_string(bits.low));
  } else {
    out.append(std::to_string(static_cast<int64_t>(bits.low)));
  }
}

}  // namespace

Operand StableHloBuilder::scalar(ElementType element, Number value) {
  return filled({element, {}}, value);
}

Operand StableHloBuilder::filled(const Type& type, Number value) {
  const Bits bits = bits_of(type.element, value);
  Scope::ConstantKey key{type, -1, bits.low, bits.high};
  auto& constants = state_->scopes.back().constants;
  if (const auto found = constants.find(key); found != constants.end()) return found->second;
  Operand x;
  if (type.rank() == 0) {
    std::string literal;
    append_literal(literal, type.element, bits);
    Statement s(*this, "stablehlo.constant dense<", type);
    s.text(literal).text("> : ").type(type);
    x = s.end();
  } else {
    x = broadcast_in_dim(filled({type.element, {}}, value), type.dimensions, {});
  }
  constants.emplace(std::move(key), x);
  return x;
}

Operand StableHloBuilder::iota(const Type& type, int64_t dim) {
  dim = normalized_dim(dim, type.rank(), "stablehlo.iota");
  if (type.element == ElementType::kPred) {
    fail("stablehlo.iota", "the element type counts nothing", "i1", "an integer or float type");
  }
  Scope::ConstantKey key{type, dim, 0, 0};
  auto& constants = state_->scopes.back().constants;
  if (const auto found = constants.find(key); found != constants.end()) return found->second;
  Statement s(*this, "stablehlo.iota dim = ", type);
  s.number(dim).text(" : ").type(type);
  const Operand x = s.end();
  constants.emplace(std::move(key), x);
  return x;
}

namespace {

template <typename Values>
Operand write_list(StableHloBuilder& builder, ElementType element, const Values& values) {
  const Type type{element, {static_cast<int64_t>(values.size())}};
  std::string literals;
  for (const auto& value : values) {
    literals.append(literals.empty() ? "[" : ", ");
    append_literal(literals, element, bits_of(element, value));
  }
  if (!literals.empty()) literals.push_back(']');
  StableHloBuilder::Statement s(builder, "stablehlo.constant dense<", type);
  s.text(literals).text("> : ").type(type);
  return s.end();
}

}  // namespace

Operand StableHloBuilder::list(ElementType element, Ints values) {
  return write_list(*this, element, values);
}

Operand StableHloBuilder::real_list(ElementType element, ListRef<double> values) {
  return write_list(*this, element, values);
}

Operand StableHloBuilder::highest(ElementType element) {
  if (element == ElementType::kPred) return scalar(element, true);
  if (pjrt::is_floating(element)) {
    if (element == ElementType::kF4E2M1FN) return scalar(element, 6.0);
    const Specials* s = specials(element);
    return scalar(element,
                  s && s->greatest > 0 ? s->greatest : std::numeric_limits<double>::infinity());
  }
  if (!pjrt::is_integral(element)) {
    fail("highest", "the element type has no order", pjrt::name(element), "a real type");
  }
  const uint64_t all = ~uint64_t{0} >> (64 - pjrt::bit_width(element));
  return scalar(element, pjrt::is_unsigned_integer(element) ? all : all >> 1);
}

Operand StableHloBuilder::lowest(ElementType element) {
  if (element == ElementType::kPred) return scalar(element, false);
  if (element == ElementType::kF8E8M0FNU) return scalar(element, 0x1p-127);
  if (element == ElementType::kF4E2M1FN) return scalar(element, -6.0);
  if (pjrt::is_floating(element)) {
    const Specials* s = specials(element);
    return scalar(element,
                  s && s->greatest > 0 ? -s->greatest : -std::numeric_limits<double>::infinity());
  }
  if (!pjrt::is_integral(element)) {
    fail("lowest", "the element type has no order", pjrt::name(element), "a real type");
  }
  if (pjrt::is_unsigned_integer(element)) return scalar(element, 0);
  return scalar(element, std::numeric_limits<int64_t>::min() >> (64 - pjrt::bit_width(element)));
}

Operand StableHloBuilder::identity(Reducer reducer, ElementType element) {
  switch (reducer) {
    case Reducer::kAdd:
    case Reducer::kOr:
      return scalar(element, 0);
    case Reducer::kMultiply:
      return scalar(element, 1);
    case Reducer::kMaximum:
      return lowest(element);
    case Reducer::kMinimum:
      return highest(element);
    case Reducer::kAnd:
      if (pjrt::is_signed_integer(element)) return scalar(element, -1);
      return highest(element);
    case Reducer::kOverwrite:
      break;
  }
  fail("identity", "overwriting has no identity");
}

}  // namespace torch_pjrt::graph
