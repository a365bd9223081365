#include "aten/tensor.h"

#include "aten/device.h"
#include "aten/storage.h"
#include "aten/types.h"
#include "base/source_line.h"
#include "graph/emission.h"
#include "graph/strided_view.h"

namespace torch_pjrt::aten {
namespace {

using graph::Value;

graph::StridedView view_of(const at::Tensor& tensor) {
  return {std::span(tensor.sizes().data(), tensor.sizes().size()),
          std::span(tensor.strides().data(), tensor.strides().size()), tensor.storage_offset()};
}

constexpr graph::Operator kUndefined{"torch_pjrt::undefined", [](graph::Emission& e) {
                                       e.result(e.builder().zeros(e.result_type()));
                                     }};

int64_t storage_count(const at::Tensor& tensor) {
  return static_cast<int64_t>(tensor.storage().nbytes() / tensor.dtype().itemsize());
}

bool same_sizes(const graph::Dimensions& dimensions, at::IntArrayRef sizes) {
  return std::equal(dimensions.begin(), dimensions.end(), sizes.begin(), sizes.end());
}

graph::Cell& checked_cell(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_xla(), "Expected all tensors to be on the same device, but found ",
              "at least two devices, xla and ", tensor.device(), "!");
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided, "use a tensor with layout ",
                              tensor.layout(),
                              " on device xla: only strided tensors are "
                              "supported there; convert it with .to_dense()");
  return cell_of(*tensor.storage().unsafeGetStorageImpl());
}

void note_source_line(graph::Node& node) {
  if (node.is_operation() && node.source_line == 0) node.source_line = base::current_source_line();
}

}  // namespace

graph::Executor& executor_of(const at::Tensor& tensor) { return checked_cell(tensor).executor(); }

graph::Executor& executor_of(at::ArrayRef<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.device().is_xla()) return executor_of(tensor);
  }
  TORCH_CHECK(false,
              "run an operator on device xla: none of its tensors is there; got none, "
              "expected at least one; this is a defect of torch-pjrt, please report it");
}

bool is_whole_storage(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 && tensor.is_contiguous() &&
         tensor.numel() == storage_count(tensor);
}

Value contents_of(const at::Tensor& tensor) {
  const graph::ElementType element = element_type(tensor.scalar_type());
  const int64_t count = storage_count(tensor);
  Value contents = checked_cell(tensor).get();
  if (!contents) {
    return {
        graph::Node::operation(kUndefined, {}, {}, graph::Type{element, graph::Dimensions{count}}),
        0};
  }
  contents = graph::reinterpret(contents, element);
  if (contents.type().element_count() != count) contents = graph::resize(contents, count);
  return contents;
}

Value value_of(const at::Tensor& tensor, const graph::Executor& executor) {
  graph::Cell& cell = checked_cell(tensor);
  TORCH_CHECK(&cell.executor() == &executor, "Expected all tensors to be on the same device, but ",
              "found at least two devices, xla:", executor.index(),
              " and xla:", cell.executor().index(), "!");
  if (tensor.is_contiguous() && tensor.storage_offset() == 0) [[likely]] {
    Value contents = cell.get();
    if (contents && same_sizes(contents.type().dimensions, tensor.sizes()) &&
        contents.type().element == element_type(tensor.scalar_type())) {
      return contents;
    }
  }
  return graph::read_view(contents_of(tensor), view_of(tensor));
}

Value value_of(const at::Tensor& tensor) { return value_of(tensor, executor_of(tensor)); }

Value number(const at::Scalar& scalar, c10::ScalarType dtype) {
  graph::HostNumber number;
  if (scalar.isComplex()) {
    number.kind = graph::HostNumber::Kind::kComplex;
    number.real = std::complex<double>(scalar.toComplexDouble());
  } else if (scalar.isFloatingPoint()) {
    number.real = scalar.toDouble();
  } else {
    number.kind = graph::HostNumber::Kind::kInteger;
    number.integer =
        scalar.isUnsigned() ? static_cast<int64_t>(scalar.toUInt64()) : scalar.toLong();
  }
  return {graph::Node::number(number, element_type(dtype)), 0};
}

Value operand_of(const at::Tensor& tensor, const graph::Executor& executor) {
  if (is_host_number(tensor)) return number(tensor.item(), tensor.scalar_type());
  return value_of(tensor, executor);
}

at::Tensor make_tensor(graph::Executor& executor, Value value, c10::ScalarType dtype) {
  note_source_line(*value.node);
  const graph::Type& type = value.type();
  const graph::Dimensions sizes = type.dimensions;
  const size_t bytes = static_cast<size_t>(type.element_count()) * c10::elementSize(dtype);
  c10::Storage storage = make_storage(executor, bytes);
  const graph::NodePtr node = value.node;
  cell_of(*storage.unsafeGetStorageImpl()).set(std::move(value));
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::XLA),
      c10::scalarTypeToTypeMeta(dtype));
  if (sizes.size() != 1 || sizes[0] != 0) {
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous({sizes.data(), sizes.size()});
  }
  executor.recorded(*node);
  return tensor;
}

at::Tensor make_tensor(graph::Executor& executor, Value value, c10::ScalarType dtype,
                       at::IntArrayRef strides) {
  const graph::Dimensions sizes = value.type().dimensions;
  at::Tensor tensor =
      make_tensor(executor, graph::storage_order(value, {strides.data(), strides.size()}), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides({sizes.data(), sizes.size()}, strides);
  return tensor;
}

void write(const at::Tensor& tensor, Value value) {
  graph::Cell& cell = checked_cell(tensor);
  TORCH_INTERNAL_ASSERT(same_sizes(value.type().dimensions, tensor.sizes()) &&
                        value.type().element == element_type(tensor.scalar_type()));
  if (tensor.numel() == 0) return;
  note_source_line(*value.node);
  if (!is_whole_storage(tensor)) {
    value = graph::write_view(contents_of(tensor), view_of(tensor), value);
  }
  const graph::NodePtr node = value.node;
  cell.set(std::move(value));
  cell.executor().recorded(*node);
}

}  // namespace torch_pjrt::aten
