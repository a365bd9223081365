#include "aten/ops/triangular_blocks.h"

#include "aten/ops/linalg.h"

// Triangular systems by blocks: the blocks on the diagonal are inverted all at once, and the rest
// is matrix products. XLA CPU's own goes column by column within blocks of 128: measured, it takes
// five times as long at 512 rows.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using Form = TriangularSystem::Form;
using graph::Dimensions;
using graph::ElementType;

// Up to that size XLA's own is as quick; blocks are that large, and larger where there would be
// more of them than that.
constexpr int64_t kBlock = 32, kMostBlocks = 32, kLargestBlock = 128;

int64_t block_size(int64_t size) {
  int64_t block = kBlock;
  while (block < kLargestBlock && size > block * kMostBlocks) block *= 2;
  return block;
}

// Where row and column are in the two halves of one block of `2 * half`, on the given side of the
// diagonal.
Operand between_halves(Builder& b, Operand x, int64_t half, bool lower) {
  const auto [row, column] = places(b, x);
  const Operand later = b.divide(lower ? row : column, half);
  const Operand earlier = b.divide(lower ? column : row, half);
  return b.bit_and(b.equal(later, b.add(earlier, 1)), b.equal(b.bit_and(earlier, 1), 0));
}

// Of matrices with ones on the diagonal, whatever stands there, of a power of two rows. From
// [[A, 0], [C, B]] with A and B inverted: -B^-1 C A^-1 belongs in the place of C. Over whole
// matrices, since cutting them up costs more than products with zeros.
Operand invert_unit(Builder& b, Operand a, bool lower) {
  const int64_t size = a.dimension(-1);
  const auto [row, column] = places(b, a);
  Operand inverse = b.convert(b.equal(row, column), a.element());
  for (int64_t half = 1; half < size; half *= 2) {
    const Operand here = between_halves(b, a, half, lower);
    // What is not finite stays in its own rows and columns: nothing outside `here` is kept.
    Operand product = b.select(here, a, 0);
    if (half > 1) {
      product = b.select(here, b.matmul(inverse, product), 0);
      product = b.select(here, b.matmul(product, inverse), 0);
    }
    inverse = b.subtract(inverse, product);
  }
  return inverse;
}

class Blocks {
 public:
  Blocks(Builder& b, const TriangularSystem& system, Operand a)
      : b_(b), system_(system), a_(a), size_(a.dimension(-1)), block_(block_size(size_)) {
    Operands blocks;
    for (int64_t start = 0; start < size_; start += block_) {
      const int64_t count = std::min(block_, size_ - start);
      const int64_t rest = block_ - count;
      const Operand block = without_diagonal(part(start, count, start, count));
      blocks.push_back(b.pad(block, 0, {0, 0, 0}, {0, rest, rest}));
    }
    inverses_ = invert_unit(b, b.stack(blocks, 1), system.lower);
  }

  // Solves for `count` unknowns from `start` on; rhs has their part of the right side.
  Operand solve(int64_t start, int64_t count, Operand rhs) const {
    if (count <= block_) return solve_block(start, count, rhs);
    const int64_t half = (count / 2 + block_ - 1) / block_ * block_;
    const int64_t middle = start + half, rest = count - half;
    Operand low = piece(rhs, 0, half), high = piece(rhs, half, rest);
    if (forwards()) {
      low = solve(start, half, low);
      high = solve(middle, rest, b_.subtract(high, coupled(middle, rest, start, half, low)));
    } else {
      high = solve(middle, rest, high);
      low = solve(start, half, b_.subtract(low, coupled(start, half, middle, rest, high)));
    }
    return b_.concatenate({low, high}, system_.left ? -2 : -1);
  }

 private:
  bool transposed() const { return system_.form != Form::kNoTranspose; }
  // Whether the first unknowns are solved first.
  bool forwards() const { return (system_.lower != transposed()) == system_.left; }

  Operand part(int64_t row, int64_t rows, int64_t column, int64_t columns) const {
    return b_.slice_dim(b_.slice_dim(a_, -2, row, row + rows), -1, column, column + columns);
  }

  Operand piece(Operand x, int64_t start, int64_t count) const {
    return b_.slice_dim(x, system_.left ? -2 : -1, start, start + count);
  }

  // op(matrix) x, or x op(matrix).
  Operand times(Operand matrix, Operand x) const {
    if (system_.form == Form::kAdjoint) matrix = b_.conj(matrix);
    const int64_t inner = transposed() == system_.left ? -2 : -1;
    if (system_.left) return b_.dot_general(matrix, x, {{0}, {0}, {inner}, {-2}});
    return b_.dot_general(x, matrix, {{0}, {0}, {-1}, {inner}});
  }

  // What known unknowns contribute to the equations from `row` on.
  Operand coupled(int64_t row, int64_t rows, int64_t known, int64_t count, Operand x) const {
    const bool swapped = transposed() == system_.left;
    return times(swapped ? part(known, count, row, rows) : part(row, rows, known, count), x);
  }

  Operand solve_block(int64_t start, int64_t count, Operand rhs) const {
    Operand inverse = b_.select_index(inverses_, 1, start / block_);
    inverse = b_.slice_dim(b_.slice_dim(inverse, -2, 0, count), -1, 0, count);
    const Operand x = times(inverse, rhs);
    if (system_.unit) return x;
    Operand divisor = diagonals_[static_cast<size_t>(start / block_)];
    if (system_.form == Form::kAdjoint) divisor = b_.conj(divisor);
    return b_.divide(x, b_.broadcast_in_dim(divisor, x.dimensions(), {0, system_.left ? 1 : 2}));
  }

  // A block as the factor of its diagonal that has ones there. The unknowns are divided by the
  // diagonal at last, so that a zero makes its own infinite.
  Operand without_diagonal(Operand block) {
    if (system_.unit) return block;
    const auto [row, column] = places(b_, block);
    const Operand on_diagonal = b_.select(b_.equal(row, column), block, 0);
    diagonals_.push_back(b_.reduce(on_diagonal, graph::Reducer::kAdd, {2}));
    const bool by_column = transposed() != system_.left;
    const Dimensions mapping{0, by_column ? 2 : 1};
    return b_.divide(block, b_.broadcast_in_dim(diagonals_.back(), block.dimensions(), mapping));
  }

  Builder& b_;
  const TriangularSystem& system_;
  Operand a_;
  int64_t size_, block_;
  Operands diagonals_;  // of each block, [batch, rows], unless they are ones
  Operand inverses_;    // of the blocks without them, [batch, blocks, block, block]
};

}  // namespace

Operand TriangularSystem::solve(StableHloBuilder& b, Operand a, Operand rhs) const {
  if (a.dimension(-1) <= kBlock || rhs.type().element_count() == 0) {
    return b.triangular_solve(a, rhs, left, lower, unit, form);
  }
  const Operand x = Blocks(b, *this, as_batch(b, a)).solve(0, a.dimension(-1), as_batch(b, rhs));
  return b.reshape(x, rhs.dimensions());
}

}  // namespace torch_pjrt::aten
