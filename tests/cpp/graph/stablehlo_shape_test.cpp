#include "graph/program_test_support.h"

namespace torch_pjrt::graph {
namespace {

class StableHloShape : public OnEachPlugin {};
ON_EACH_PLUGIN(StableHloShape);

TEST_P(StableHloShape, ReshapesAndBroadcasts) {
  TestedProgram p;
  const Operand x = p.input({kF32, {2, 3}}, counting(6));
  p.expect_type(p.b.reshape(x, {3, -1}), kF32, {3, 2});
  p.expect(p.b.reshape(x, {3, -1}), counting(6), "reshape");
  EXPECT_EQ(p.b.reshape(x, {2, 3}), x);
  p.expect_type(p.b.flatten(x), kF32, {6});
  p.expect(p.b.transpose(x, {1, 0}), {0, 3, 1, 4, 2, 5}, "transpose");
  p.expect(p.b.swap_dimensions(x, 0, -1), {0, 3, 1, 4, 2, 5}, "swap");
  EXPECT_EQ(p.b.transpose(x, {0, 1}), x);
  p.expect_type(p.b.unsqueeze(x, -1), kF32, {2, 3, 1});
  p.expect_type(p.b.unsqueeze(x, 0), kF32, {1, 2, 3});
  EXPECT_EQ(p.b.squeeze(p.b.unsqueeze(x, 1), 1).type(), x.type());
  const Operand row = p.vector(kF32, {7, 8, 9});
  p.expect(p.b.broadcast_to(row, {2, 3}), {7, 8, 9, 7, 8, 9}, "broadcast row");
  p.expect(p.b.broadcast_to(p.b.reshape(row, {3, 1}), {3, 2}), {7, 7, 8, 8, 9, 9}, "column");
  p.expect(p.b.broadcast_in_dim(row, {3, 2}, {0}), {7, 7, 8, 8, 9, 9}, "broadcast_in_dim");
  const auto [a, c] = p.b.broadcast_together(p.b.reshape(row, {3, 1}), row);
  p.expect(p.b.subtract(a, c), {0, -1, -2, 1, 0, -1, 2, 1, 0}, "broadcast_together");
  p.run(client());
}

TEST_P(StableHloShape, CutsAndJoins) {
  TestedProgram p;
  const Operand x = p.input({kS32, {3, 4}}, counting(12));
  p.expect(p.b.slice(x, {1, 0}, {3, 4}, {1, 2}), {4, 6, 8, 10}, "slice");
  p.expect(p.b.slice_dim(x, -1, 1, 3), {1, 2, 5, 6, 9, 10}, "slice_dim");
  p.expect(p.b.select_index(x, 0, -1), {8, 9, 10, 11}, "select_index");
  p.expect(p.b.concatenate({x, p.b.slice_dim(x, 1, 0, 1)}, 1),
           {0, 1, 2, 3, 0, 4, 5, 6, 7, 4, 8, 9, 10, 11, 8}, "concatenate");
  const Operand row = p.b.select_index(x, 0, 0);
  p.expect(p.b.stack({row, row}, -1), {0, 0, 1, 1, 2, 2, 3, 3}, "stack");
  const Operand one = p.b.scalar(kS64, 1), far = p.b.scalar(kS64, 9);
  p.expect(p.b.dynamic_slice(x, {one, far}, {1, 2}), {6, 7}, "dynamic_slice clamps");
  p.expect(p.b.dynamic_update_slice(x, p.b.filled({kS32, {1, 2}}, -1), {one, one}),
           {0, 1, 2, 3, 4, -1, -1, 7, 8, 9, 10, 11}, "dynamic_update_slice");
  p.expect(p.b.pad(row, 9, {1}, {-1}, {1}), {9, 0, 9, 1, 9, 2, 9}, "pad");
  p.expect(p.b.reverse(x, {1}), {3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8}, "reverse");
  const Operand none = p.b.slice_dim(x, 0, 1, 1);
  p.expect_type(none, kS32, {0, 4});
  p.expect(p.b.concatenate({none, x}, 0), counting(12), "concatenate empty");
  p.run(client());
}

}  // namespace
}  // namespace torch_pjrt::graph
