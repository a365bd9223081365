#include "aten/ops/random_bits.h"

#include "aten/generator.h"
#include "aten/types.h"

namespace torch_pjrt::aten {

using graph::ElementType;

namespace {

graph::Value stream_number(uint64_t bits, graph::HostNumber::Origin origin) {
  graph::HostNumber number;
  number.kind = graph::HostNumber::Kind::kInteger;
  number.origin = origin;
  number.integer = static_cast<int64_t>(bits);
  return {graph::Node::number(number, element_type(at::kLong)), 0};
}

}  // namespace

void take_random(Record& record, const at::Tensor& target,
                 const std::optional<at::Generator>& generator, int64_t count, int words) {
  XlaGenerator& stream = generator_or_default(generator, executor_of(target).index());
  const XlaGenerator::Place place = stream.take(static_cast<uint64_t>(count) * words);
  record.value(stream_number(place.seed, graph::HostNumber::Origin::kSeed));
  record.value(stream_number(place.offset, graph::HostNumber::Origin::kOffset));
}

namespace {

// A bijection of 64 bits that leaves no pattern (the finaliser of splitmix64).
Operand mixed(StableHloBuilder& b, Operand x) {
  x = b.multiply(b.bit_xor(x, b.shift_right_logical(x, 30)), 0xbf58476d1ce4e5b9u);
  x = b.multiply(b.bit_xor(x, b.shift_right_logical(x, 27)), 0x94d049bb133111ebu);
  return b.bit_xor(x, b.shift_right_logical(x, 31));
}

Operand half_turned(StableHloBuilder& b, Operand x) {
  return b.bit_or(b.shift_right_logical(x, 32), b.shift_left(x, 32));
}

}  // namespace

RandomNumbers::RandomNumbers(Emission& e, const graph::Dimensions& sizes, int words,
                             Operand attempt, Operand place)
    : b_(e.builder()), sizes_(sizes), words_(words) {
  Operand seed = b_.bitcast_convert(e.operand(0), ElementType::kU64);
  if (attempt) seed = b_.add(seed, b_.multiply(attempt, 0xd1342543de82ef95u));
  const Operand offset = b_.bitcast_convert(e.operand(1), ElementType::kU64);
  const Operand key = b_.bit_or(mixed(b_, b_.add(seed, 0x9e3779b97f4a7c15u)), 1);
  int64_t count = 1;
  for (int64_t size : sizes_) count *= size;
  place_ = place ? b_.convert(place, ElementType::kU64)
                 : b_.iota({ElementType::kU64, graph::Dimensions{count}}, 0);
  key_ = key;
  first_ = b_.multiply(offset, 4);  // an offset counts blocks of four words
}

Operand RandomNumbers::bits32() {
  const auto spread = [&](Operand number) { return b_.broadcast_to(number, place_.dimensions()); };
  // The word's position times the key, with what is scalar taken together: of an element there is
  // nothing that a loop's compiler would keep an array of.
  const Operand first = b_.multiply(used_ ? b_.add(first_, used_) : first_, key_);
  ++used_;
  const Operand y = b_.add(b_.multiply(place_, spread(b_.multiply(key_, words_))), spread(first));
  const Operand z = b_.add(y, spread(key_));
  Operand x = half_turned(b_, b_.add(b_.multiply(y, y), y));
  x = half_turned(b_, b_.add(b_.multiply(x, x), z));
  x = half_turned(b_, b_.add(b_.multiply(x, x), y));
  x = b_.shift_right_logical(b_.add(b_.multiply(x, x), z), 32);
  return b_.reshape(b_.convert(x, ElementType::kU32), sizes_);
}

Operand RandomNumbers::bits64() {
  const Operand high = b_.convert(bits32(), ElementType::kU64);
  const Operand low = b_.convert(bits32(), ElementType::kU64);
  return b_.bit_or(b_.shift_left(high, 32), low);
}

Operand RandomNumbers::uniform(ElementType element, int bits) {
  const bool wide = bits > 32;
  Operand x = wide ? bits64() : bits32();
  x = b_.shift_right_logical(x, (wide ? 64 : 32) - bits);
  return b_.multiply(b_.convert(x, element), std::ldexp(1.0, -bits));
}

Operand RandomNumbers::open_uniform(ElementType element) {
  if (element == ElementType::kF64) {
    // 52 bits and a half fit the mantissa.
    const Operand x = b_.convert(b_.shift_right_logical(bits64(), 12), element);
    return b_.multiply(b_.add(x, 0.5), 0x1p-52);
  }
  const Operand x = b_.convert(b_.shift_right_logical(bits32(), 9), element);
  return b_.multiply(b_.add(x, 0.5), 0x1p-23);
}

namespace {

// sqrt(2) erf_inv(1 - 2 p) for a tail p in (0, 0.5], with Giles' polynomials in w = -log(4p(1-p)).
// Going from the tail keeps it exact where 1 - 2p would round to 1.
Operand deviation_of_tail(StableHloBuilder& b, Operand p) {
  constexpr double kCentre[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                -0.00417768164,  0.246640727,    1.50140941};
  constexpr double kTail[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                              -0.00367342844,  0.00573950773,  -0.0076224613,
                              0.00943887047,   1.00167406,     2.83297682};
  const Operand w = b.negate(b.log(b.multiply(b.multiply(p, b.subtract(1.0, p)), 4.0)));
  const Operand centre = b.less(w, 5.0);
  const Operand t =
      b.select(centre, b.subtract(w, 2.5), b.subtract(b.sqrt(b.maximum(w, 0.0)), 3.0));
  Operand polynomial = b.select(centre, b.filled_like(p, kCentre[0]), b.filled_like(p, kTail[0]));
  for (size_t i = 1; i < std::size(kCentre); ++i) {
    const Operand term = b.select(centre, b.filled_like(p, kCentre[i]), b.filled_like(p, kTail[i]));
    polynomial = b.add(term, b.multiply(polynomial, t));
  }
  const Operand x = b.subtract(1.0, b.multiply(p, 2.0));
  return b.multiply(b.multiply(polynomial, x), 1.4142135623730951);
}

}  // namespace

Operand RandomNumbers::normal(ElementType element) {
  if (element == ElementType::kF64) {
    const Operand x = b_.subtract(b_.multiply(open_uniform(element), 2.0), 1.0);
    return b_.multiply(b_.erf_inv(x), 1.4142135623730951);
  }
  const Operand bits = bits32();
  // The lowest bit is the sign; the rest, with the highest one cleared, the tail.
  const Operand tail = b_.convert(b_.shift_right_logical(bits, 1), element);
  const Operand p = b_.multiply(b_.add(tail, 0.5), 0x1p-32);
  const Operand z = deviation_of_tail(b_, p);
  return b_.select(b_.equal(b_.bit_and(bits, 1), 0), z, b_.negate(z));
}

Operand RandomNumbers::exponential(ElementType element) {
  Operand u;
  if (element == ElementType::kF64) {
    u = open_uniform(element);
  } else {
    u = b_.multiply(b_.add(b_.convert(bits32(), element), 0.5), 0x1p-32);
  }
  // What rounds to 1 would give 0.
  const double least = element == ElementType::kF64 ? 0x1p-54 : 0x1p-25;
  return b_.maximum(b_.negate(b_.log(u)), least);
}

}  // namespace torch_pjrt::aten
