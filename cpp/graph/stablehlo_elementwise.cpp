#include "graph/stablehlo_statement.h"

namespace torch_pjrt::graph {

using Statement = StableHloBuilder::Statement;

namespace {

// Classes of element types that an operation takes.
enum Kinds : unsigned {
  kPredicate = 1,
  kSigned = 2,
  kUnsigned = 4,
  kFloating = 8,
  kComplex = 16,
  kIntegral = kSigned | kUnsigned,
  kReal = kIntegral | kFloating,
  kArithmetic = kReal | kComplex,
  kInexact = kFloating | kComplex,
  kAny = kArithmetic | kPredicate,
};

unsigned kind_of(ElementType element) {
  if (element == ElementType::kPred) return kPredicate;
  if (pjrt::is_floating(element)) return kFloating;
  if (pjrt::is_complex(element)) return kComplex;
  if (pjrt::is_signed_integer(element)) return kSigned;
  if (pjrt::is_unsigned_integer(element)) return kUnsigned;
  return 0;
}

std::string describe(unsigned kinds) {
  std::string text;
  const auto say = [&](unsigned kind, const char* name) {
    if ((kinds & kind) == kind) text.append(text.empty() ? "" : ", ").append(name);
  };
  say(kPredicate, "i1");
  say(kSigned, "signed integer");
  say(kUnsigned, "unsigned integer");
  say(kFloating, "floating");
  say(kComplex, "complex");
  return text;
}

void require(std::string_view what, const Type& type, unsigned kinds) {
  if (kind_of(type.element) & kinds) return;
  fail(what, "the operation does not take this element type", to_string(type), describe(kinds),
       "convert the operand first");
}

void require_equal(std::string_view what, const Type& a, const Type& b) {
  if (a == b) return;
  fail(what, "operand types differ", to_string(a) + " and " + to_string(b), "equal types",
       a.element == b.element ? "broadcast one of them first" : "convert one of them first");
}

// `%3 = stablehlo.add %1, %2 : tensor<f32>`
Operand same_type(StableHloBuilder& builder, std::string_view name, OperandList operands) {
  Statement s(builder, name, builder.type_of(operands[0]));
  s.text(" ").operands(operands).text(" : ").type(builder.type_of(operands[0]));
  return s.end();
}

// `%3 = stablehlo.is_finite %1 : (tensor<f32>) -> tensor<i1>`
Operand other_type(StableHloBuilder& builder, std::string_view name, OperandList operands,
                   ElementType result) {
  Statement s(builder, name, Type{result, builder.type_of(operands[0]).dimensions});
  s.text(" ").operands(operands).signature(operands);
  return s.end();
}

// `%3 = chlo.erf %1 : tensor<f32> -> tensor<f32>`
Operand chlo(StableHloBuilder& builder, std::string_view name, OperandList operands,
             ElementType result) {
  const Type type{result, builder.type_of(operands[0]).dimensions};
  Statement s(builder, name, type);
  s.text(" ").operands(operands).text(" : ").types(operands).text(" -> ").type(type);
  return s.end();
}

std::pair<Operand, Operand> resolve(StableHloBuilder& builder, std::string_view what, const Term& a,
                                    const Term& b) {
  if (a.is_operand()) Statement::check(builder, what, a.operand());
  if (b.is_operand()) Statement::check(builder, what, b.operand());
  if (a.is_operand() && b.is_operand()) {
    require_equal(what, builder.type_of(a.operand()), builder.type_of(b.operand()));
    return {a.operand(), b.operand()};
  }
  if (a.is_operand()) return {a.operand(), builder.filled_like(a.operand(), b.number())};
  if (b.is_operand()) return {builder.filled_like(b.operand(), a.number()), b.operand()};
  fail(what, "both operands are numbers", {}, "at least one value of the program");
}

Operand binary(StableHloBuilder& builder, std::string_view name, const Term& left,
               const Term& right, unsigned kinds) {
  const auto [a, b] = resolve(builder, name, left, right);
  require(name, builder.type_of(a), kinds);
  return same_type(builder, name, {a, b});
}

Operand unary(StableHloBuilder& builder, std::string_view name, Operand x, unsigned kinds) {
  Statement::check(builder, name, x);
  require(name, builder.type_of(x), kinds);
  return same_type(builder, name, {x});
}

Operand chlo_unary(StableHloBuilder& builder, std::string_view name, Operand x, unsigned kinds) {
  Statement::check(builder, name, x);
  require(name, builder.type_of(x), kinds);
  return chlo(builder, name, {x}, x.element());
}

Operand chlo_binary(StableHloBuilder& builder, std::string_view name, const Term& left,
                    const Term& right) {
  const auto [a, b] = resolve(builder, name, left, right);
  require(name, builder.type_of(a), kFloating);
  return chlo(builder, name, {a, b}, a.element());
}

}  // namespace

#define BINARY(method, name, kinds) \
  Operand StableHloBuilder::method(Term a, Term b) { return binary(*this, name, a, b, kinds); }
#define UNARY(method, name, kinds) \
  Operand StableHloBuilder::method(Operand x) { return unary(*this, name, x, kinds); }
#define CHLO(method, name, kinds) \
  Operand StableHloBuilder::method(Operand x) { return chlo_unary(*this, name, x, kinds); }

BINARY(add, "stablehlo.add", kAny)
BINARY(subtract, "stablehlo.subtract", kArithmetic)
BINARY(multiply, "stablehlo.multiply", kAny)
BINARY(remainder, "stablehlo.remainder", kReal)
BINARY(maximum, "stablehlo.maximum", kReal | kPredicate)
BINARY(minimum, "stablehlo.minimum", kReal | kPredicate)
BINARY(atan2, "stablehlo.atan2", kInexact)
BINARY(bit_xor, "stablehlo.xor", kIntegral | kPredicate)
BINARY(shift_left, "stablehlo.shift_left", kIntegral)
BINARY(shift_right_logical, "stablehlo.shift_right_logical", kIntegral)

// XLA makes a / b / c into a / (b * c), where b * c may be out of range though no quotient is, and
// log(a ^ b) into b * log(a), though a may be negative.
Operand StableHloBuilder::divide(Term left, Term right) {
  auto [a, b] = resolve(*this, "stablehlo.divide", left, right);
  a = as_computed(a, Origin::kQuotient);
  b = as_computed(b, Origin::kQuotient);
  const Operand quotient = binary(*this, "stablehlo.divide", a, b, kArithmetic);
  state_->value(quotient.id).origin = Origin::kQuotient;
  return quotient;
}

Operand StableHloBuilder::power(Term base, Term exponent) {
  const Operand power = binary(*this, "stablehlo.power", base, exponent, kArithmetic);
  state_->value(power.id).origin = Origin::kPower;
  return power;
}

Operand StableHloBuilder::log(Operand x) {
  Statement::check(*this, "stablehlo.log", x);
  return unary(*this, "stablehlo.log", as_computed(x, Origin::kPower), kInexact);
}

UNARY(floor, "stablehlo.floor", kFloating)
UNARY(ceil, "stablehlo.ceil", kFloating)
UNARY(round_nearest_even, "stablehlo.round_nearest_even", kFloating)
UNARY(round_nearest_afz, "stablehlo.round_nearest_afz", kFloating)
UNARY(negate, "stablehlo.negate", kArithmetic)
UNARY(sqrt, "stablehlo.sqrt", kInexact)
UNARY(rsqrt, "stablehlo.rsqrt", kInexact)
UNARY(cbrt, "stablehlo.cbrt", kFloating)
UNARY(exponential, "stablehlo.exponential", kInexact)
UNARY(exponential_minus_one, "stablehlo.exponential_minus_one", kInexact)
UNARY(log_plus_one, "stablehlo.log_plus_one", kInexact)
UNARY(logistic, "stablehlo.logistic", kInexact)
UNARY(tanh, "stablehlo.tanh", kInexact)
UNARY(sine, "stablehlo.sine", kInexact)
UNARY(cosine, "stablehlo.cosine", kInexact)
UNARY(tan, "stablehlo.tan", kInexact)
UNARY(bit_not, "stablehlo.not", kIntegral | kPredicate)
UNARY(popcnt, "stablehlo.popcnt", kIntegral)
UNARY(count_leading_zeros, "stablehlo.count_leading_zeros", kIntegral)

CHLO(erf, "chlo.erf", kFloating)
CHLO(erfc, "chlo.erfc", kFloating)
CHLO(erf_inv, "chlo.erf_inv", kFloating)
CHLO(lgamma, "chlo.lgamma", kFloating)
CHLO(digamma, "chlo.digamma", kFloating)
CHLO(asin, "chlo.asin", kInexact)
CHLO(acos, "chlo.acos", kInexact)
CHLO(atan, "chlo.atan", kInexact)
CHLO(sinh, "chlo.sinh", kInexact)
CHLO(cosh, "chlo.cosh", kInexact)
CHLO(asinh, "chlo.asinh", kInexact)
CHLO(acosh, "chlo.acosh", kInexact)
CHLO(atanh, "chlo.atanh", kInexact)
CHLO(bessel_i1e, "chlo.bessel_i1e", kFloating)

#undef BINARY
#undef UNARY
#undef CHLO

namespace {

// The compiler of one plugin (fastatomstruct-xla-cpu 2026.6.23) dies of `and` and `or` of signed
// integers that a conversion has narrowed; of unsigned ones it does not.
Operand bitwise(StableHloBuilder& builder, std::string_view name, const Term& left,
                const Term& right, bool has_narrowed) {
  auto [a, b] = resolve(builder, name, left, right);
  const ElementType element = a.element();
  require(name, builder.type_of(a), kIntegral | kPredicate);
  if (!has_narrowed || !pjrt::is_signed_integer(element) || element == ElementType::kS64) {
    return same_type(builder, name, {a, b});
  }
  const auto twin = [element] {
    switch (element) {
      case ElementType::kS4:
        return ElementType::kU4;
      case ElementType::kS8:
        return ElementType::kU8;
      case ElementType::kS16:
        return ElementType::kU16;
      case ElementType::kS32:
        return ElementType::kU32;
      default:
        return element;
    }
  }();
  a = builder.bitcast_convert(a, twin);
  b = builder.bitcast_convert(b, twin);
  return builder.bitcast_convert(same_type(builder, name, {a, b}), element);
}

}  // namespace

Operand StableHloBuilder::bit_and(Term a, Term b) {
  return bitwise(*this, "stablehlo.and", a, b, has_narrowed_);
}

Operand StableHloBuilder::bit_or(Term a, Term b) {
  return bitwise(*this, "stablehlo.or", a, b, has_narrowed_);
}

Operand StableHloBuilder::shift_right_arithmetic(Term left, Term right) {
  constexpr std::string_view kName = "stablehlo.shift_right_arithmetic";
  const auto [a, b] = resolve(*this, kName, left, right);
  require(kName, type_of(a), kIntegral);
  if (pjrt::is_unsigned_integer(a.element())) return shift_right_logical(a, b);
  return same_type(*this, kName, {a, b});
}

Operand StableHloBuilder::next_after(Term a, Term b) {
  return chlo_binary(*this, "chlo.next_after", a, b);
}

Operand StableHloBuilder::polygamma(Term n, Term x) {
  return chlo_binary(*this, "chlo.polygamma", n, x);
}

Operand StableHloBuilder::zeta(Term x, Term q) { return chlo_binary(*this, "chlo.zeta", x, q); }

Operand StableHloBuilder::complex(Operand real, Operand imaginary) {
  constexpr std::string_view kName = "stablehlo.complex";
  Statement::check(*this, kName, real);
  Statement::check(*this, kName, imaginary);
  require_equal(kName, type_of(real), type_of(imaginary));
  const ElementType part = real.element();
  if (part != ElementType::kF32 && part != ElementType::kF64) {
    fail(kName, "no complex type has these parts", to_string(real.type()), "f32 or f64",
         "convert the operands first");
  }
  return other_type(*this, kName, {real, imaginary},
                    part == ElementType::kF32 ? ElementType::kC64 : ElementType::kC128);
}

namespace {

constexpr std::string_view kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};

Operand write_compare(StableHloBuilder& builder, Comparison direction, Operand a, Operand b,
                      std::string_view order) {
  const Operand operands[] = {a, b};
  Statement s(builder, "stablehlo.compare ",
              Type{ElementType::kPred, builder.type_of(a).dimensions});
  s.text(kDirections[static_cast<size_t>(direction)]).text(", ");
  s.operands(std::span(operands)).text(", ").text(order).signature(std::span(operands));
  return s.end();
}

}  // namespace

Operand StableHloBuilder::compare(Comparison direction, Term left, Term right) {
  constexpr std::string_view kName = "stablehlo.compare";
  const auto [a, b] = resolve(*this, kName, left, right);
  const unsigned kind = kind_of(a.element());
  require(kName, a.type(), direction <= Comparison::kNotEqual ? kAny : kReal | kPredicate);
  return write_compare(*this, direction, a, b,
                       kind & kInexact  ? "FLOAT"
                       : kind & kSigned ? "SIGNED"
                                        : "UNSIGNED");
}

Operand StableHloBuilder::compare_total_order(Comparison direction, Term left, Term right) {
  constexpr std::string_view kName = "stablehlo.compare";
  const auto [a, b] = resolve(*this, kName, left, right);
  require(kName, a.type(), kFloating);
  return write_compare(*this, direction, a, b, "TOTALORDER");
}

Operand StableHloBuilder::select(Operand predicate, Term on_true, Term on_false) {
  constexpr std::string_view kName = "stablehlo.select";
  Statement::check(*this, kName, predicate);
  const auto [a, b] = resolve(*this, kName, on_true, on_false);
  const Type& type = type_of(predicate);
  if (type.element != ElementType::kPred ||
      (type.rank() != 0 && type.dimensions != type_of(a).dimensions)) {
    fail(kName, "the predicate does not fit", to_string(type),
         "tensor<i1>, or i1 of the shape of " + to_string(a.type()),
         "compare or broadcast it first");
  }
  Statement s(*this, kName, type_of(a));
  s.text(" ").operands({predicate, a, b}).text(" : ").type(type).text(", ").type(type_of(a));
  return s.end();
}

Operand StableHloBuilder::clamp(Term low, Operand x, Term high) {
  constexpr std::string_view kName = "stablehlo.clamp";
  Statement::check(*this, kName, x);
  require(kName, x.type(), kReal | kPredicate);
  const auto bound = [&](const Term& term) {
    if (!term.is_operand()) return scalar(x.element(), term.number());
    Statement::check(*this, kName, term.operand());
    const Type& type = type_of(term.operand());
    if (type.element != x.element() || (type.rank() != 0 && type.dimensions != x.dimensions())) {
      fail(kName, "a bound does not fit", to_string(type),
           "the type or a scalar of the type of " + to_string(x.type()));
    }
    return term.operand();
  };
  Operand least = bound(low), most = bound(high);
  // The operation takes two scalars or two arrays, not one of each.
  if (type_of(least).rank() != type_of(most).rank()) {
    least = broadcast_to(least, x.dimensions());
    most = broadcast_to(most, x.dimensions());
  }
  Statement s(*this, kName, x.type());
  s.text(" ").operands({least, x, most}).signature({least, x, most});
  return s.end();
}

Operand StableHloBuilder::abs(Operand x) {
  constexpr std::string_view kName = "stablehlo.abs";
  Statement::check(*this, kName, x);
  require(kName, x.type(), kAny);
  const unsigned kind = kind_of(x.element());
  if (kind & (kUnsigned | kPredicate)) return x;
  if (kind & kComplex) {
    return other_type(*this, kName, {x},
                      x.element() == ElementType::kC64 ? ElementType::kF32 : ElementType::kF64);
  }
  return same_type(*this, kName, {x});
}

Operand StableHloBuilder::sign(Operand x) {
  constexpr std::string_view kName = "stablehlo.sign";
  Statement::check(*this, kName, x);
  require(kName, x.type(), kAny);
  const unsigned kind = kind_of(x.element());
  if (kind & kPredicate) return x;
  if (kind & kUnsigned) return minimum(x, 1);
  return same_type(*this, kName, {x});
}

Operand StableHloBuilder::trunc(Operand x) { return select(less(x, 0), ceil(x), floor(x)); }

Operand StableHloBuilder::is_finite(Operand x) {
  constexpr std::string_view kName = "stablehlo.is_finite";
  Statement::check(*this, kName, x);
  const unsigned kind = kind_of(x.element());
  if (kind & kComplex) return bit_and(is_finite(real(x)), is_finite(imag(x)));
  if (!(kind & kFloating)) return filled({ElementType::kPred, x.dimensions()}, true);
  return other_type(*this, kName, {x}, ElementType::kPred);
}

Operand StableHloBuilder::is_nan(Operand x) {
  Statement::check(*this, "is_nan", x);
  if (!(kind_of(x.element()) & kInexact)) {
    return filled({ElementType::kPred, x.dimensions()}, false);
  }
  return compare(Comparison::kNotEqual, x, x);
}

Operand StableHloBuilder::is_inf(Operand x) {
  constexpr std::string_view kName = "chlo.is_inf";
  Statement::check(*this, kName, x);
  const unsigned kind = kind_of(x.element());
  if (kind & kComplex) return bit_or(is_inf(real(x)), is_inf(imag(x)));
  if (!(kind & kFloating)) return filled({ElementType::kPred, x.dimensions()}, false);
  return chlo(*this, kName, {x}, ElementType::kPred);
}

namespace {

Operand part_of(StableHloBuilder& builder, std::string_view name, Operand x) {
  return other_type(builder, name, {x},
                    x.element() == ElementType::kC64 ? ElementType::kF32 : ElementType::kF64);
}

}  // namespace

Operand StableHloBuilder::real(Operand x) {
  Statement::check(*this, "stablehlo.real", x);
  return kind_of(x.element()) & kComplex ? part_of(*this, "stablehlo.real", x) : x;
}

Operand StableHloBuilder::imag(Operand x) {
  Statement::check(*this, "stablehlo.imag", x);
  require("stablehlo.imag", x.type(), kArithmetic);
  return kind_of(x.element()) & kComplex ? part_of(*this, "stablehlo.imag", x) : zeros_like(x);
}

Operand StableHloBuilder::conj(Operand x) {
  Statement::check(*this, "chlo.conj", x);
  return kind_of(x.element()) & kComplex ? chlo(*this, "chlo.conj", {x}, x.element()) : x;
}

Operand StableHloBuilder::convert(Operand x, ElementType element) {
  constexpr std::string_view kName = "stablehlo.convert";
  Statement::check(*this, kName, x);
  if (x.element() == element) return x;
  if (element == ElementType::kPred) return not_equal(x, 0);
  const unsigned from = kind_of(x.element()), to = kind_of(element);
  if (!from || !to) {
    fail(kName, "no such conversion",
         to_string(x.type()) + " to " + std::string(pjrt::name(element)));
  }
  if ((from & kComplex) && !(to & kComplex)) return convert(real(x), element);
  if (from == kSigned && to == kSigned && pjrt::bit_width(element) < pjrt::bit_width(x.element())) {
    has_narrowed_ = true;
  }
  if (from == kPredicate && (to & kInexact) && pjrt::bit_width(element) > 8) {
    // XLA makes a selection of y * convert(x), which loses NaN and the sign of zero.
    const Type type{element, x.dimensions()};
    return select(x, ones(type), zeros(type));
  }
  return other_type(*this, kName, {x}, element);
}

Operand StableHloBuilder::bitcast_convert(Operand x, ElementType element) {
  constexpr std::string_view kName = "stablehlo.bitcast_convert";
  Statement::check(*this, kName, x);
  if (x.element() == element) return x;
  const int from = pjrt::bit_width(x.element()), to = pjrt::bit_width(element);
  Type type{element, x.dimensions()};
  const unsigned both = kind_of(x.element()) | kind_of(element);
  bool fits = !(both & (kPredicate | kComplex)) && kind_of(element) && kind_of(x.element());
  if (from > to) {
    type.dimensions.push_back(from / to);
  } else if (from < to) {
    fits = fits && x.rank() && x.dimension(-1) == to / from;
    if (x.rank()) type.dimensions.pop_back();
  }
  if (!fits) {
    fail(kName, "the bits do not fit",
         to_string(x.type()) + " as " + std::string(pjrt::name(element)),
         "real types, the narrower one with a last dimension that makes up the wider one");
  }
  Statement s(*this, kName, type);
  s.text(" ").operand(x).signature({x});
  return s.end();
}

// A rounding to the type itself, which costs nothing, and which XLA does not look through.
Operand StableHloBuilder::as_computed(Operand x, Origin origin) {
  if (state_->value(x.id).origin != origin) return x;
  const auto rounded = [&](Operand part) {
    if (part.element() == ElementType::kF32) return reduce_precision(part, 8, 23);
    if (part.element() == ElementType::kF64) return reduce_precision(part, 11, 52);
    return part;
  };
  return pjrt::is_complex(x.element()) ? complex(rounded(real(x)), rounded(imag(x))) : rounded(x);
}

Operand StableHloBuilder::reduce_precision(Operand x, int exponent_bits, int mantissa_bits) {
  constexpr std::string_view kName = "stablehlo.reduce_precision";
  Statement::check(*this, kName, x);
  require(kName, x.type(), kFloating);
  if (exponent_bits < 1 || mantissa_bits < 0) {
    fail(kName, "no such format",
         "e" + std::to_string(exponent_bits) + "m" + std::to_string(mantissa_bits),
         "at least 1 exponent bit and 0 mantissa bits");
  }
  Statement s(*this, kName, x.type());
  s.text(" ").operand(x).text(", format = e").number(exponent_bits);
  s.text("m").number(mantissa_bits).text(" : ").type(x.type());
  return s.end();
}

}  // namespace torch_pjrt::graph
