#include "aten/ops/matmul.h"

#include <ATen/ExpandUtils.h>
#include <torch/library.h>

#include "aten/ops/rounding.h"

// Products of matrices and vectors.
namespace torch_pjrt::aten {

graph::ElementType accumulation_type(graph::ElementType element) {
  const bool half = element == graph::ElementType::kBF16 || element == graph::ElementType::kF16;
  return half ? graph::ElementType::kF32 : element;
}

Operand wide_dot(StableHloBuilder& builder, Operand lhs, Operand rhs,
                 const graph::DotDimensions& dimensions) {
  return builder.dot_general(lhs, rhs, dimensions, accumulation_type(lhs.element()));
}

namespace {

void check_same_dtype(const char* first, const at::Tensor& a, const char* second,
                      const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), first, " and ", second,
              " must have the same dtype, but got ", a.scalar_type(), " and ", b.scalar_type());
}

void check_matrices(const char* first, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 2, first, " must be a matrix, got ", a.dim(), "-D tensor");
  TORCH_CHECK(b.dim() == 2, "mat2 must be a matrix, got ", b.dim(), "-D tensor");
  TORCH_CHECK(a.size(1) == b.size(0), first == std::string_view("self") ? "mat1" : first,
              " and mat2 shapes cannot be multiplied (", a.size(0), "x", a.size(1), " and ",
              b.size(0), "x", b.size(1), ")");
}

void check_batches(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(b.dim() == 3, "batch2 must be a 3D tensor");
  TORCH_CHECK(b.size(0) == a.size(0) && b.size(1) == a.size(2),
              "Expected size for first two dimensions of batch2 tensor to be: [", a.size(0), ", ",
              a.size(2), "] but got: [", b.size(0), ", ", b.size(1), "].");
}

void check_not_bool(const char* what, const at::Tensor& a) {
  TORCH_CHECK_NOT_IMPLEMENTED(a.scalar_type() != at::kBool, "\"", what,
                              "\" not implemented for 'Bool'");
}

// How many of the operator's last operands are batched, summed over batches...
enum class Product : int64_t { kMatrix, kBatched, kSummedBatches, kVector, kInner, kOuter };

Operand product(StableHloBuilder& b, Product kind, Operand lhs, Operand rhs) {
  switch (kind) {
    case Product::kMatrix:
      return wide_dot(b, lhs, rhs, {{}, {}, {1}, {0}});
    case Product::kBatched:
      return wide_dot(b, lhs, rhs, {{0}, {0}, {2}, {1}});
    case Product::kSummedBatches:
      return wide_dot(b, lhs, rhs, {{}, {}, {0, 2}, {0, 1}});
    case Product::kVector:
      return wide_dot(b, lhs, rhs, {{}, {}, {1}, {0}});
    case Product::kInner:
      return wide_dot(b, lhs, rhs, {{}, {}, {0}, {0}});
    case Product::kOuter: {
      const graph::Dimensions sizes{lhs.dimension(0), rhs.dimension(0)};
      const Operand column = b.broadcast_in_dim(lhs, sizes, {0});
      return b.multiply(column, b.broadcast_in_dim(rhs, sizes, {1}));
    }
  }
  return {};
}

void emit_product(Emission& e) {
  StableHloBuilder& b = e.builder();
  const auto kind = static_cast<Product>(e.attributes.integer());
  e.result(b.convert(product(b, kind, e.operand(0), e.operand(1)), e.result_type().element));
}

// start + products[0] + products[1]..., rounded to the type after each, as the cpu does it.
Operand sum_in_turn(StableHloBuilder& b, Operand start, Operand products,
                    graph::ElementType element) {
  graph::Dimensions sizes = products.dimensions();
  sizes[0] = 1;
  const auto body = [&](StableHloBuilder& b, graph::OperandList state) {
    const Operand zero = b.scalar(graph::ElementType::kS32, 0);
    const Operand next = b.dynamic_slice(products, {state[0], zero, zero}, sizes);
    const Operand sum = b.add(state[1], b.reshape(next, start.dimensions()));
    return graph::Operands{b.add(state[0], 1), rounded_to(b, sum, element)};
  };
  const auto condition = [&](StableHloBuilder& b, graph::OperandList state) {
    return graph::Operands{b.less(state[0], products.dimension(0))};
  };
  return b.while_loop({b.scalar(graph::ElementType::kS32, 0), start}, condition, body)[1];
}

// beta * self + alpha * product. Operands: both factors; then self and beta, alpha where needed.
void emit_add_product(Emission& e) {
  StableHloBuilder& b = e.builder();
  const graph::Type& type = e.result_type();
  const auto kind = static_cast<Product>(e.attributes.integer());
  const bool has_alpha = e.attributes.boolean();
  const bool has_self = e.attributes.boolean();
  const bool has_beta = e.attributes.boolean();
  const bool rounds = kind == Product::kSummedBatches && e.operand(0).dimension(0) > 0 &&
                      accumulation_type(type.element) != type.element;
  Operand sum = product(b, rounds ? Product::kBatched : kind, e.operand(0), e.operand(1));
  size_t next = 2;
  const auto spread = [&](Operand x) {
    return b.broadcast_to(b.convert(x, sum.element()), type.dimensions);
  };
  if (has_alpha) {
    const Operand alpha = b.convert(e.operand(next++), sum.element());
    sum = b.multiply(sum, b.broadcast_to(alpha, sum.dimensions()));
  }
  Operand self;
  if (has_self) {
    self = spread(e.operand(next++));
    if (has_beta) self = b.multiply(self, spread(e.operand(next)));
  }
  if (rounds) {
    const Operand start = self ? self : b.zeros({sum.element(), type.dimensions});
    sum = sum_in_turn(b, start, sum, type.element);
  } else if (self) {
    sum = b.add(sum, self);
  }
  e.result(b.convert(sum, type.element));
}

bool equals(const at::Scalar& scalar, double value) {
  return !scalar.isComplex() && scalar.toDouble() == value;
}

Record add_product(const Operator& op, Product kind, const at::Tensor& self, const at::Tensor& lhs,
                   const at::Tensor& rhs, const at::Scalar& beta, const at::Scalar& alpha) {
  const at::ScalarType dtype = lhs.scalar_type();
  // Numbers keep f32 precision beside half-precision tensors.
  const bool half = dtype == at::kHalf || dtype == at::kBFloat16;
  const at::ScalarType number_dtype = half ? at::kFloat : dtype;
  const bool has_alpha = !equals(alpha, 1), has_self = !equals(beta, 0),
             has_beta = has_self && !equals(beta, 1);
  Record record(op);
  record.tensor(lhs.resolve_conj()).tensor(rhs.resolve_conj());
  if (has_alpha) record.number(alpha, number_dtype);
  if (has_self) record.tensor(self.resolve_conj());
  if (has_beta) record.number(beta, number_dtype);
  record.attribute(static_cast<int64_t>(kind)).attribute(has_alpha);
  record.attribute(has_self).attribute(has_beta);
  return record;
}

Record plain_product(const Operator& op, Product kind, const at::Tensor& lhs,
                     const at::Tensor& rhs) {
  Record record(op);
  // PyTorch hands lazily conjugated operands over as they are.
  record.tensor(lhs.resolve_conj()).tensor(rhs.resolve_conj());
  record.attribute(static_cast<int64_t>(kind));
  return record;
}

void check_expands(const at::Tensor& self, at::IntArrayRef sizes) {
  if (self.sizes() == sizes) return;
  TORCH_CHECK(at::is_expandable_to(self.sizes(), sizes), "The expanded size of the tensor (", sizes,
              ") must match the existing size (", self.sizes(), ")");
}

at::Tensor mm(const at::Tensor& self, const at::Tensor& mat2) {
  static constexpr Operator op{"aten::mm", emit_product};
  check_matrices("self", self, mat2);
  TORCH_CHECK(self.scalar_type() == mat2.scalar_type(),
              "expected m1 and m2 to have the same dtype, but got: ", self.dtype(),
              " != ", mat2.dtype());
  check_not_bool("addmm_impl_cpu_", self);
  return plain_product(op, Product::kMatrix, self, mat2)
      .result(self.scalar_type(), {self.size(0), mat2.size(1)});
}

at::Tensor int_mm(const at::Tensor& self, const at::Tensor& mat2) {
  static constexpr Operator op{
      "aten::_int_mm", [](Emission& e) {
        e.result(e.builder().dot_general(e.operand(0), e.operand(1), {{}, {}, {1}, {0}},
                                         graph::ElementType::kS32));
      }};
  TORCH_CHECK(self.dim() == 2, "Expected self to be of dimension 2 but got ", self.dim());
  TORCH_CHECK(mat2.dim() == 2, "Expected mat2 to be of dimension 2 but got ", mat2.dim());
  TORCH_CHECK(self.size(1) == mat2.size(0), "self.size(1) needs to match mat2.size(0) but got ",
              self.size(1), " and ", mat2.size(0));
  TORCH_CHECK(self.scalar_type() == at::kChar && mat2.scalar_type() == at::kChar,
              "Expected self and mat2 to be of type Char but got ", self.scalar_type(), " and ",
              mat2.scalar_type());
  return Record(op).tensor(self).tensor(mat2).result(at::kInt, {self.size(0), mat2.size(1)});
}

at::Tensor bmm(const at::Tensor& self, const at::Tensor& mat2) {
  static constexpr Operator op{"aten::bmm", emit_product};
  check_batches(self, mat2);
  TORCH_CHECK(self.scalar_type() == mat2.scalar_type(), "expected scalar type ", self.scalar_type(),
              " but found ", mat2.scalar_type());
  check_not_bool("bmm", self);
  return plain_product(op, Product::kBatched, self, mat2)
      .result(self.scalar_type(), {self.size(0), self.size(1), mat2.size(2)});
}

at::Tensor addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  static constexpr Operator op{"aten::addmm", emit_add_product};
  check_same_dtype("self", self, "mat2", mat2);
  check_same_dtype("mat1", mat1, "mat2", mat2);
  check_matrices("mat1", mat1, mat2);
  check_not_bool("addmm_impl_cpu_", mat1);
  const int64_t sizes[] = {mat1.size(0), mat2.size(1)};
  check_expands(self, sizes);
  return add_product(op, Product::kMatrix, self, mat1, mat2, beta, alpha)
      .result(mat1.scalar_type(), sizes);
}

at::Tensor& addmm_(at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                   const at::Scalar& beta, const at::Scalar& alpha) {
  const at::Tensor result = addmm(self, mat1, mat2, beta, alpha);
  TORCH_CHECK(result.sizes() == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(),
              " and output tensor size ", result.sizes(), " should match");
  write(self, value_of(result));
  return self;
}

at::Tensor baddbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                   const at::Scalar& beta, const at::Scalar& alpha) {
  static constexpr Operator op{"aten::baddbmm", emit_add_product};
  check_batches(batch1, batch2);
  check_same_dtype("self", self, "batch1", batch1);
  check_same_dtype("batch1", batch1, "batch2", batch2);
  check_not_bool("baddbmm", batch1);
  const int64_t sizes[] = {batch1.size(0), batch1.size(1), batch2.size(2)};
  check_expands(self, sizes);
  return add_product(op, Product::kBatched, self, batch1, batch2, beta, alpha)
      .result(batch1.scalar_type(), sizes);
}

at::Tensor addbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                  const at::Scalar& beta, const at::Scalar& alpha) {
  static constexpr Operator op{"aten::addbmm", emit_add_product};
  check_batches(batch1, batch2);
  check_same_dtype("self", self, "batch1", batch1);
  check_same_dtype("batch1", batch1, "batch2", batch2);
  check_not_bool("addmm_impl_cpu_", batch1);
  const int64_t sizes[] = {batch1.size(1), batch2.size(2)};
  check_expands(self, sizes);
  return add_product(op, Product::kSummedBatches, self, batch1, batch2, beta, alpha)
      .result(batch1.scalar_type(), sizes);
}

void check_matrix_vector(const at::Tensor& mat, const at::Tensor& vec) {
  TORCH_CHECK(mat.dim() == 2 && vec.dim() == 1, "vector + matrix @ vector expected, got ", 1, ", ",
              mat.dim(), ", ", vec.dim());
  TORCH_CHECK(mat.size(1) == vec.size(0), "size mismatch, got input (", mat.size(0), "), mat (",
              mat.size(0), "x", mat.size(1), "), vec (", vec.size(0), ")");
  check_same_dtype("mat", mat, "vec", vec);
  check_not_bool("addmv_impl_cpu", mat);
}

at::Tensor mv(const at::Tensor& self, const at::Tensor& vec) {
  static constexpr Operator op{"aten::mv", emit_product};
  check_matrix_vector(self, vec);
  return plain_product(op, Product::kVector, self, vec).result(self.scalar_type(), {self.size(0)});
}

at::Tensor addmv(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  static constexpr Operator op{"aten::addmv", emit_add_product};
  check_matrix_vector(mat, vec);
  check_same_dtype("self", self, "mat", mat);
  check_expands(self, {mat.size(0)});
  return add_product(op, Product::kVector, self, mat, vec, beta, alpha)
      .result(mat.scalar_type(), {mat.size(0)});
}

void check_vectors(const at::Tensor& a, const at::Tensor& b, const char* name) {
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ",
              b.dim(), "D tensors");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), name,
              " : expected both vectors to have same dtype, but found ", a.scalar_type(), " and ",
              b.scalar_type());
  TORCH_CHECK(a.numel() == b.numel(), "inconsistent tensor size, expected tensor [", a.numel(),
              "] and src [", b.numel(), "] to have the same number of elements, but got ",
              a.numel(), " and ", b.numel(), " elements respectively");
  check_not_bool(name, a);
}

at::Tensor dot(const at::Tensor& self, const at::Tensor& other) {
  static constexpr Operator op{"aten::dot", emit_product};
  check_vectors(self, other, "dot");
  return plain_product(op, Product::kInner, self, other).result(self.scalar_type(), {});
}

at::Tensor vdot(const at::Tensor& self, const at::Tensor& other) {
  static constexpr Operator op{"aten::vdot", [](Emission& e) {
                                 StableHloBuilder& b = e.builder();
                                 const Operand sum = product(b, Product::kInner,
                                                             b.conj(e.operand(0)), e.operand(1));
                                 e.result(b.convert(sum, e.result_type().element));
                               }};
  check_vectors(self, other, "vdot");
  return Record(op)
      .tensor(self.resolve_conj())
      .tensor(other.resolve_conj())
      .result(self.scalar_type(), {});
}

at::Tensor addr(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2,
                const at::Scalar& beta, const at::Scalar& alpha) {
  static constexpr Operator op{"aten::addr", emit_add_product};
  TORCH_CHECK(vec1.dim() == 1 && vec2.dim() == 1, "addr: Expected 1-D argument vec1 and vec2");
  const int64_t sizes[] = {vec1.size(0), vec2.size(0)};
  check_expands(self, sizes);
  const at::ScalarType dtype = at::promoteTypes(
      self.scalar_type(), at::promoteTypes(vec1.scalar_type(), vec2.scalar_type()));
  if (at::isIntegralType(dtype, true)) {
    TORCH_CHECK(!beta.isFloatingPoint() && !beta.isComplex() && !alpha.isFloatingPoint() &&
                    !alpha.isComplex(),
                "For integral input tensors, argument alpha and beta must not be a floating point "
                "number.");
  }
  if (dtype == at::kBool) {
    return add_product(op, Product::kOuter, self.to(at::kInt), vec1.to(at::kInt), vec2.to(at::kInt),
                       beta.toInt() != 0, alpha.toInt() != 0)
        .result(at::kInt, sizes)
        .to(at::kBool);
  }
  return add_product(op, Product::kOuter, self, vec1.to(dtype), vec2.to(dtype), beta, alpha)
      .result(dtype, sizes);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("mm", TORCH_FN(mm));
  m.impl("_int_mm", TORCH_FN(int_mm));
  m.impl("bmm", TORCH_FN(bmm));
  m.impl("addmm", TORCH_FN(addmm));
  m.impl("addmm_", TORCH_FN(addmm_));
  m.impl("baddbmm", TORCH_FN(baddbmm));
  m.impl("addbmm", TORCH_FN(addbmm));
  m.impl("mv", TORCH_FN(mv));
  m.impl("addmv", TORCH_FN(addmv));
  m.impl("dot", TORCH_FN(dot));
  m.impl("vdot", TORCH_FN(vdot));
  m.impl("addr", TORCH_FN(addr));
}

}  // namespace
}  // namespace torch_pjrt::aten
