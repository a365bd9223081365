#include <algorithm>

#include "graph/stablehlo_statement.h"

namespace torch_pjrt::graph {

using Statement = StableHloBuilder::Statement;

namespace {

Dimensions normalized(std::string_view what, const Dimensions& dims, int64_t rank) {
  Dimensions all;
  for (int64_t d : dims) all.push_back(normalized_dim(d, rank, what));
  return all;
}

bool distinct(Dimensions a, const Dimensions& b) {
  a.append(b.data(), b.size());
  std::sort(a.begin(), a.end());
  return std::adjacent_find(a.begin(), a.end()) == a.end();
}

void require_inexact(std::string_view what, Operand x) {
  if (pjrt::is_floating(x.element()) || pjrt::is_complex(x.element())) return;
  fail(what, "the operation does not take this element type", to_string(x.type()),
       "floating, complex", "convert the operand first");
}

}  // namespace

void StableHloBuilder::write_precision(Statement& s) const {
  if (precision_ == Precision::kDefault) return;
  const std::string_view name = precision_ == Precision::kHighest ? "HIGHEST" : "HIGH";
  s.text(", precision_config = [#stablehlo<precision ").text(name);
  s.text(">, #stablehlo<precision ").text(name).text(">]");
}

Operand StableHloBuilder::dot_general(Operand lhs, Operand rhs, const DotDimensions& dimensions,
                                      ElementType result) {
  constexpr std::string_view kName = "stablehlo.dot_general";
  Statement::check(*this, kName, {lhs, rhs});
  const DotDimensions d{normalized(kName, dimensions.lhs_batching, lhs.rank()),
                        normalized(kName, dimensions.rhs_batching, rhs.rank()),
                        normalized(kName, dimensions.lhs_contracting, lhs.rank()),
                        normalized(kName, dimensions.rhs_contracting, rhs.rank())};
  bool fits = lhs.element() == rhs.element() && d.lhs_batching.size() == d.rhs_batching.size() &&
              d.lhs_contracting.size() == d.rhs_contracting.size() &&
              distinct(d.lhs_batching, d.lhs_contracting) &&
              distinct(d.rhs_batching, d.rhs_contracting);
  const auto same_sizes = [&](const Dimensions& left, const Dimensions& right) {
    for (size_t i = 0; fits && i < left.size(); ++i) {
      fits = lhs.dimension(left[i]) == rhs.dimension(right[i]);
    }
  };
  same_sizes(d.lhs_batching, d.rhs_batching);
  same_sizes(d.lhs_contracting, d.rhs_contracting);
  if (!fits) {
    fail(kName, "the operands do not fit",
         to_string(lhs.type()) + " and " + to_string(rhs.type()) + ", batching " +
             to_string(d.lhs_batching) + " x " + to_string(d.rhs_batching) + ", contracting " +
             to_string(d.lhs_contracting) + " x " + to_string(d.rhs_contracting),
         "one element type, and equal sizes of distinct paired dimensions");
  }
  Type type{result == ElementType::kInvalid ? lhs.element() : result, {}};
  for (int64_t i : d.lhs_batching) type.dimensions.push_back(lhs.dimension(i));
  for (int64_t i = 0; i < lhs.rank(); ++i) {
    if (!contains(d.lhs_batching, i) && !contains(d.lhs_contracting, i)) {
      type.dimensions.push_back(lhs.dimension(i));
    }
  }
  for (int64_t i = 0; i < rhs.rank(); ++i) {
    if (!contains(d.rhs_batching, i) && !contains(d.rhs_contracting, i)) {
      type.dimensions.push_back(rhs.dimension(i));
    }
  }
  Statement s(*this, "\"stablehlo.dot_general\"(", type);
  s.operands({lhs, rhs})
      .text(") <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = ");
  s.list(d.lhs_batching).text(", rhs_batching_dimensions = ").list(d.rhs_batching);
  s.text(", lhs_contracting_dimensions = ").list(d.lhs_contracting);
  s.text(", rhs_contracting_dimensions = ").list(d.rhs_contracting).text(">");
  write_precision(s);
  s.text("}>").signature({lhs, rhs});
  return s.end();
}

Operand StableHloBuilder::matmul(Operand lhs, Operand rhs, ElementType result) {
  constexpr std::string_view kName = "matmul";
  Statement::check(*this, kName, {lhs, rhs});
  if (lhs.rank() == 0 || rhs.rank() == 0) {
    fail(kName, "an operand is a scalar", to_string(lhs.type()) + " and " + to_string(rhs.type()),
         "ranks of at least 1", "multiply instead");
  }
  if (rhs.rank() <= 2) {
    // No batching on the right: all of the left's dimensions but its last are free.
    return dot_general(lhs, rhs, {{}, {}, {-1}, {rhs.rank() == 1 ? 0 : -2}}, result);
  }
  if (lhs.rank() == 1) {
    const Operand row = matmul(unsqueeze(lhs, 0), rhs, result);
    return squeeze(row, -2);
  }
  const auto batch_of = [](Operand x) {
    Dimensions batch = x.dimensions();
    batch.resize(batch.size() - 2);
    return batch;
  };
  Dimensions left = batch_of(lhs), right = batch_of(rhs), common;
  const size_t rank = std::max(left.size(), right.size());
  while (left.size() < rank) left.insert(0, 1);
  while (right.size() < rank) right.insert(0, 1);
  for (size_t i = 0; i < rank; ++i) common.push_back(left[i] == 1 ? right[i] : left[i]);
  const auto spread = [&](Operand x) {
    Dimensions dimensions = common;
    dimensions.push_back(x.dimension(-2));
    dimensions.push_back(x.dimension(-1));
    return broadcast_to(x, dimensions);
  };
  const Operand a = spread(lhs), b = spread(rhs);
  Dimensions batching;
  for (size_t i = 0; i < rank; ++i) batching.push_back(static_cast<int64_t>(i));
  return dot_general(a, b, {batching, batching, {-1}, {-2}}, result);
}

Operand StableHloBuilder::cholesky(Operand x, bool lower) {
  constexpr std::string_view kName = "stablehlo.cholesky";
  Statement::check(*this, kName, x);
  require_inexact(kName, x);
  if (x.rank() < 2 || x.dimension(-1) != x.dimension(-2)) {
    fail(kName, "the last two dimensions are not square", to_string(x.type()));
  }
  Statement s(*this, kName, x.type());
  s.text(" ").operand(x).text(lower ? ", lower = true : " : ", lower = false : ").type(x.type());
  return s.end();
}

Operand StableHloBuilder::triangular_solve(Operand a, Operand b, bool left_side, bool lower,
                                           bool unit_diagonal, TriangularForm form) {
  constexpr std::string_view kName = "stablehlo.triangular_solve";
  Statement::check(*this, kName, {a, b});
  require_inexact(kName, a);
  bool fits = a.element() == b.element() && a.rank() >= 2 && a.rank() == b.rank() &&
              a.dimension(-1) == a.dimension(-2) &&
              a.dimension(-1) == b.dimension(left_side ? -2 : -1);
  for (int64_t i = 0; fits && i + 2 < a.rank(); ++i) fits = a.dimension(i) == b.dimension(i);
  if (!fits) {
    fail(kName, "the operands do not fit", to_string(a.type()) + " and " + to_string(b.type()),
         "a square matrix a, and b with as many rows (left) or columns, of equal batch");
  }
  constexpr std::string_view kForms[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
  Statement s(*this, "\"stablehlo.triangular_solve\"(", b.type());
  s.operands({a, b}).text(") <{left_side = ").text(left_side ? "true" : "false");
  s.text(", lower = ").text(lower ? "true" : "false");
  s.text(", unit_diagonal = ").text(unit_diagonal ? "true" : "false");
  s.text(", transpose_a = #stablehlo<transpose ").text(kForms[static_cast<size_t>(form)]);
  s.text(">}>").signature({a, b});
  return s.end();
}

Operand StableHloBuilder::fft(Operand x, FftType fft_type, Ints lengths) {
  constexpr std::string_view kName = "stablehlo.fft";
  constexpr std::string_view kTypes[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  Statement::check(*this, kName, x);
  const bool from_real = fft_type == FftType::kRealForward;
  const bool to_real = fft_type == FftType::kRealInverse;
  const auto count = static_cast<int64_t>(lengths.size());
  bool fits = count >= 1 && count <= 3 && count <= x.rank();
  fits = fits && (from_real ? x.element() == ElementType::kF32 || x.element() == ElementType::kF64
                            : pjrt::is_complex(x.element()));
  for (int64_t i = 0; fits && i < count; ++i) {
    const int64_t length = lengths[static_cast<size_t>(i)];
    const int64_t wanted = to_real && i + 1 == count ? length / 2 + 1 : length;
    fits = x.dimension(i - count) == wanted;
  }
  if (!fits) {
    fail(kName, "the operand does not fit", to_string(x.type()) + ", lengths " + to_string(lengths),
         "1 to 3 lengths that are the last sizes (the last one length/2+1 for a real inverse), "
         "f32 or f64 for a real forward transform, complex for the others");
  }
  Type type = x.type();
  if (from_real) {
    type.element = x.element() == ElementType::kF32 ? ElementType::kC64 : ElementType::kC128;
    type.dimensions.back() = lengths.back() / 2 + 1;
  } else if (to_real) {
    type.element = x.element() == ElementType::kC64 ? ElementType::kF32 : ElementType::kF64;
    type.dimensions.back() = lengths.back();
  }
  Statement s(*this, kName, type);
  s.text(" ").operand(x).text(", type = ").text(kTypes[static_cast<size_t>(fft_type)]);
  s.text(", length = ").list(lengths).signature({x});
  return s.end();
}

}  // namespace torch_pjrt::graph
