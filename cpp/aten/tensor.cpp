#include "aten/tensor.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/strides.h>

#include "aten/device.h"
#include "aten/dtype_policy.h"
#include "aten/errors.h"
#include "aten/storage.h"
#include "aten/types.h"
#include "base/source_line.h"
#include "graph/emission.h"
#include "graph/lock.h"
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

// The conjugate and negative bits of a view: PyTorch leaves them to copies and clones.
constexpr graph::Operator kConj{"torch_pjrt::conj", [](graph::Emission& e) {
                                  graph::StableHloBuilder& b = e.builder();
                                  const graph::Operand x = e.operand(0);
                                  e.result(b.complex(b.real(x), b.negate(b.imag(x))));
                                }};
constexpr graph::Operator kNegate{
    "torch_pjrt::negate", [](graph::Emission& e) { e.result(e.builder().negate(e.operand(0))); }};

Value with_bits_of(const at::Tensor& tensor, Value value) {
  const graph::Type type = value.type();
  if (tensor.is_conj()) value = {graph::Node::operation(kConj, {&value, 1}, {}, type), 0};
  if (tensor.is_neg()) value = {graph::Node::operation(kNegate, {&value, 1}, {}, type), 0};
  return value;
}

// Between the words of complex32 in a storage and the numbers that they are computed with.
constexpr graph::Operator kUnpack{
    "torch_pjrt::unpack_complex32", [](graph::Emission& e) {
      graph::StableHloBuilder& b = e.builder();
      const graph::Operand halves = b.bitcast_convert(e.operand(0), graph::ElementType::kF16);
      const graph::Operand parts = b.convert(halves, graph::ElementType::kF32);
      e.result(b.complex(b.select_index(parts, -1, 0), b.select_index(parts, -1, 1)));
    }};
constexpr graph::Operator kPack{
    "torch_pjrt::pack_complex32", [](graph::Emission& e) {
      graph::StableHloBuilder& b = e.builder();
      const graph::Operand x = e.operand(0);
      const graph::Operand parts = b.stack({b.real(x), b.imag(x)}, x.rank());
      e.result(
          b.bitcast_convert(b.convert(parts, graph::ElementType::kF16), graph::ElementType::kU32));
    }};

// A storage's elements as those that are computed with, and back.
Value as_computed(Value value, c10::ScalarType dtype) {
  if (dtype != c10::ScalarType::ComplexHalf) [[likely]]
    return value;
  const graph::Type type{element_type(dtype), value.type().dimensions};
  return {graph::Node::operation(kUnpack, {&value, 1}, {}, type), 0};
}
Value as_stored(Value value, c10::ScalarType dtype) {
  if (dtype != c10::ScalarType::ComplexHalf || value.type().element == stored_type(dtype))
      [[likely]]
    return value;
  const graph::Type type{stored_type(dtype), value.type().dimensions};
  return {graph::Node::operation(kPack, {&value, 1}, {}, type), 0};
}

Value undefined(graph::Type type) { return {graph::Node::operation(kUndefined, {}, {}, type), 0}; }

// What a cell holds as `count` elements of `element`.
Value elements_of(const Value& stored, graph::ElementType element, int64_t count) {
  if (!stored) return undefined({element, graph::Dimensions{count}});
  Value contents = stored;
  if (stored.type().element != element) {
    // Grown first: an element of which only some bytes are there keeps those.
    const int64_t own_bits = pjrt::bit_width(stored.type().element);
    const int64_t own_count = (count * pjrt::bit_width(element) + own_bits - 1) / own_bits;
    if (stored.type().element_count() < own_count) contents = graph::resize(stored, own_count);
    contents = graph::reinterpret(contents, element);
  }
  if (contents.type().element_count() != count) contents = graph::resize(contents, count);
  return contents;
}

// Where the device holds a dtype in fewer bits, a storage's bytes are not there to be seen as
// another dtype: refused, since the values would be wrong.
void check_bytes_are_there(const at::Tensor& tensor, const Value& stored,
                           graph::ElementType element) {
  if (!narrows_any() || !stored) return;
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  const auto item = static_cast<int64_t>(tensor.itemsize());
  const bool as_it_is =
      is_narrowed(tensor.scalar_type())
          ? stored.type().element == element && stored.type().element_count() * item == bytes
          : stored.type().byte_count() == bytes;
  // Real and imaginary parts lie beside each other in either width.
  const bool is_part =
      pjrt::is_complex(stored.type().element) != pjrt::is_complex(element) &&
      stored.type().byte_count() * item == bytes * ((pjrt::bit_width(element) + 7) / 8);
  TORCH_CHECK_NOT_IMPLEMENTED(
      as_it_is || is_part, "see a storage on device xla as ", tensor.scalar_type(),
      ": the device lacks a 64-bit dtype and holds it in fewer bits, so a storage cannot be seen "
      "through another dtype or be resized there; convert the tensor with .to(dtype), or do this "
      "on cpu");
}

int64_t storage_count(const at::Tensor& tensor) {
  return static_cast<int64_t>(tensor.storage().nbytes() / tensor.dtype().itemsize());
}

bool same_sizes(const graph::Dimensions& dimensions, at::IntArrayRef sizes) {
  return std::equal(dimensions.begin(), dimensions.end(), sizes.begin(), sizes.end());
}

// The new contents of a storage when `value` is written to a part of it.
Value written(const at::Tensor& tensor, const Value& stored, const Value& value) {
  const graph::ElementType element = value.type().element;
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  check_bytes_are_there(tensor, stored, element);
  if (element == graph::ElementType::kPred && stored && stored.type().element != element) {
    // Seen as bool, the bytes that stay would become 0 and 1.
    const Value flat = graph::reinterpret(value, graph::ElementType::kU8);
    const c10::DimVector strides = c10::contiguous_strides(tensor.sizes());
    const graph::StridedView plain{{tensor.sizes().data(), tensor.sizes().size()},
                                   {strides.data(), strides.size()}};
    return graph::write_view(elements_of(stored, graph::ElementType::kU8, bytes), view_of(tensor),
                             graph::read_view(flat, plain));
  }
  const Value contents = graph::write_view(elements_of(stored, element, storage_count(tensor)),
                                           view_of(tensor), value);
  const int64_t whole = contents.type().byte_count();
  if (whole == bytes || narrows_any()) return contents;
  // The bytes behind the last whole element stay.
  const int64_t one = 1;
  return graph::write_view(elements_of(stored, graph::ElementType::kU8, bytes),
                           {{&whole, 1}, {&one, 1}},
                           graph::reinterpret(contents, graph::ElementType::kU8));
}

graph::Cell& checked_cell(const at::Tensor& tensor) {
  TORCH_CHECK(!graph::SharedBuffer::leaks(), "use a tensor on device xla: this process was forked ",
              "after the PJRT client was made, and a client does not survive a fork; use cpu "
              "tensors here, or start the process with multiprocessing's spawn method");
  TORCH_CHECK(tensor.device().is_xla(), "Expected all tensors to be on the same device, but found ",
              "at least two devices, xla and ", tensor.device(), "!");
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided, "use a tensor with layout ",
                              tensor.layout(),
                              " on device xla: only strided tensors are "
                              "supported there; convert it with .to_dense()");
  return cell_of(*tensor.storage().unsafeGetStorageImpl());
}

// The same elements in memory of their own.
constexpr graph::Operator kSnapshot{"torch_pjrt::snapshot",
                                    [](graph::Emission& e) { e.result(e.operand(0)); }};

// What a new tensor may hold. Device data that others may write is copied, as the new tensor must
// not change with it.
Value unshared(Value value) {
  if (!value.node->is_data()) [[likely]]
    return value;
  {
    graph::RecordingLock lock(graph::recording_mutex());
    const graph::SharedBufferPtr& buffer = value.node->outputs()[value.index].buffer;
    if (!buffer || !buffer->has_outside_writers()) return value;
  }
  const graph::Type type = value.type();
  return {graph::Node::operation(kSnapshot, {&value, 1}, {}, type), 0};
}

void note_source_line(graph::Node& node) {
  if (node.is_operation() && node.source_line() == 0) {
    node.set_source_line(base::current_source_line());
  }
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
         tensor.nbytes() == tensor.storage().nbytes();
}

Value contents_of(const at::Tensor& tensor) {
  const Value stored = checked_cell(tensor).get();
  const graph::ElementType element = stored_type(tensor.scalar_type());
  check_bytes_are_there(tensor, stored, element);
  return elements_of(stored, element, storage_count(tensor));
}

Value value_of(const at::Tensor& tensor, const graph::Executor& executor) {
  graph::Cell& cell = checked_cell(tensor);
  TORCH_CHECK(&cell.executor() == &executor, "Expected all tensors to be on the same device, but ",
              "found at least two devices, xla:", executor.index(),
              " and xla:", cell.executor().index(), "!");
  const c10::ScalarType dtype = tensor.scalar_type();
  const graph::ElementType element = stored_type(dtype);
  Value stored = cell.get();
  check_bytes_are_there(tensor, stored, element);
  if (stored && tensor.is_contiguous() && tensor.storage_offset() == 0 &&
      stored.type().element == element && same_sizes(stored.type().dimensions, tensor.sizes()))
      [[likely]] {
    return with_bits_of(tensor, as_computed(std::move(stored), dtype));
  }
  if (tensor.numel() == 0) return undefined(type_of(dtype, tensor.sizes()));
  Value seen =
      graph::read_view(elements_of(stored, element, storage_count(tensor)), view_of(tensor));
  return with_bits_of(tensor, as_computed(std::move(seen), dtype));
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
    const bool is_real = c10::isFloatingType(dtype) || c10::isComplexType(dtype);
    if (is_real && number.integer < 0 && scalar.isUnsigned()) {  // too large for int64
      number.kind = graph::HostNumber::Kind::kReal;
      number.real = static_cast<double>(scalar.toUInt64());
    }
  }
  return {graph::Node::number(number, element_type(dtype)), 0};
}

Value operand_of(const at::Tensor& tensor, const graph::Executor& executor) {
  if (is_host_number(tensor)) return number(tensor.item(), tensor.scalar_type());
  return value_of(tensor, executor);
}

at::Tensor make_tensor(graph::Executor& executor, Value value, c10::ScalarType dtype) {
  value = unshared(as_stored(std::move(value), dtype));
  note_source_line(*value.node);
  const graph::Dimensions sizes = value.type().dimensions;
  const size_t bytes = at::detail::computeStorageNbytesContiguous({sizes.data(), sizes.size()},
                                                                  c10::elementSize(dtype));
  c10::Storage storage = make_storage(executor, bytes);
  const graph::NodePtr node = value.node;
  cell_of(*storage.unsafeGetStorageImpl()).set(std::move(value));
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::XLA),
      c10::scalarTypeToTypeMeta(dtype));
  if (sizes.size() != 1 || sizes[0] != 0) {
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous({sizes.data(), sizes.size()});
  }
  translate_errors([&] { executor.recorded(*node); });
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
  const c10::ScalarType dtype = tensor.scalar_type();
  TORCH_INTERNAL_ASSERT(
      same_sizes(value.type().dimensions, tensor.sizes()) &&
      (value.type().element == element_type(dtype) || value.type().element == stored_type(dtype)));
  if (tensor.numel() == 0) return;
  value = unshared(std::move(value));
  if (tensor.is_conj() || tensor.is_neg()) {
    if (value.type().element != element_type(dtype)) value = as_computed(std::move(value), dtype);
    value = with_bits_of(tensor, std::move(value));
  }
  value = as_stored(std::move(value), dtype);
  note_source_line(*value.node);
  graph::NodePtr node;
  if (is_whole_storage(tensor)) {
    node = value.node;
    cell.set(std::move(value));
  } else {
    // Again when another thread has written another part meanwhile.
    for (bool is_set = false; !is_set;) {
      const Value stored = cell.get();
      const Value contents = written(tensor, stored, value);
      is_set = cell.set_if(stored, contents);
      node = contents.node;
    }
    value = {};
  }
  translate_errors([&] { cell.executor().recorded(*node); });
}

}  // namespace torch_pjrt::aten
