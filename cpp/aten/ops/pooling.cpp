#include "aten/ops/pooling.h"

#include <ATen/native/Pool.h>

#include <algorithm>

namespace torch_pjrt::aten {

using graph::Dimensions;

namespace {

Dimensions expanded(const char* name, const char* what, at::IntArrayRef values, int64_t rank) {
  if (values.size() == 1) return Dimensions(static_cast<size_t>(rank), values[0]);
  TORCH_CHECK(static_cast<int64_t>(values.size()) == rank, name, ": ", what,
              " must either be a single int, or a tuple of ", rank, " ints");
  return Dimensions(values.begin(), values.end());
}

Dimensions read(graph::AttributeReader& attributes) {
  const auto list = attributes.list();
  return Dimensions(list.begin(), list.end());
}

at::IntArrayRef ref(const Dimensions& values) { return {values.data(), values.size()}; }

bool all_are(const Dimensions& values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [=](int64_t v) { return v == wanted; });
}

void check(const char* name, const at::Tensor& self, const Pooling& p, int64_t rank) {
  const auto lead = self.dim() - rank;
  TORCH_CHECK(lead == 1 || lead == 2, name, ": Expected ", rank + 1, "D or ", rank + 2,
              "D tensor for input, but got: ", self.sizes());
  const int64_t channels = self.size(lead - 1);
  if (rank == 2) {
    at::native::pool2d_shape_check(self, p.kernel[0], p.kernel[1], p.stride[0], p.stride[1],
                                   p.padding[0], p.padding[1], p.dilation[0], p.dilation[1],
                                   channels, p.input[0], p.input[1], p.output[0], p.output[1],
                                   self.suggest_memory_format());
    return;
  }
  const auto int_at = [](const Dimensions& list, size_t i) { return static_cast<int>(list[i]); };
  at::native::pool3d_shape_check(self, channels, int_at(p.kernel, 0), int_at(p.kernel, 1),
                                 int_at(p.kernel, 2), int_at(p.stride, 0), int_at(p.stride, 1),
                                 int_at(p.stride, 2), int_at(p.padding, 0), int_at(p.padding, 1),
                                 int_at(p.padding, 2), int_at(p.dilation, 0), int_at(p.dilation, 1),
                                 int_at(p.dilation, 2), p.input[0], p.input[1], p.input[2],
                                 p.output[0], p.output[1], p.output[2], name);
}

}  // namespace

Pooling::Pooling(const char* name, const at::Tensor& self, int64_t rank, at::IntArrayRef k,
                 at::IntArrayRef s, at::IntArrayRef p, at::IntArrayRef d, bool ceil_mode)
    : kernel(expanded(name, "kernel_size", k, rank)),
      stride(s.empty() ? kernel : expanded(name, "stride", s, rank)),
      padding(expanded(name, "padding", p, rank)),
      dilation(expanded(name, "dilation", d, rank)) {
  TORCH_CHECK(self.dim() > rank, name, ": Expected ", rank + 1, "D or ", rank + 2,
              "D tensor for input, but got: ", self.sizes());
  for (int64_t i = 0; i < rank; ++i) {
    const auto at = static_cast<size_t>(i);
    input.push_back(self.size(self.dim() - rank + i));
    output.push_back(at::native::pooling_output_shape<int64_t>(
        input[at], kernel[at], padding[at], stride[at], dilation[at], ceil_mode));
  }
  check(name, self, *this, rank);
}

Pooling::Pooling(graph::AttributeReader& attributes)
    : kernel(read(attributes)),
      stride(read(attributes)),
      padding(read(attributes)),
      dilation(read(attributes)),
      input(read(attributes)),
      output(read(attributes)) {}

void Pooling::add_to(Record& record) const {
  record.attribute(ref(kernel)).attribute(ref(stride)).attribute(ref(padding));
  record.attribute(ref(dilation)).attribute(ref(input)).attribute(ref(output));
}

int64_t Pooling::taps() const {
  int64_t count = 1;
  for (int64_t k : kernel) count *= k;
  return count;
}

int64_t Pooling::planes(const at::Tensor& self) const {
  int64_t count = 1;
  for (int64_t i = 0; i + static_cast<int64_t>(rank()) < self.dim(); ++i) count *= self.size(i);
  return count;
}

c10::DimVector Pooling::output_sizes(const at::Tensor& self) const {
  c10::DimVector sizes(self.sizes().slice(0, static_cast<size_t>(self.dim()) - rank()));
  sizes.append(output.begin(), output.end());
  return sizes;
}

Dimensions Pooling::place(int64_t tap) const {
  Dimensions place(rank(), 0);
  for (size_t i = rank(); i-- > 0; tap /= kernel[i]) place[i] = tap % kernel[i];
  return place;
}

bool Pooling::is_dense() const { return all_are(dilation, 1); }
bool Pooling::kernel_is_one() const { return all_are(kernel, 1); }

namespace {

Operand flat(StableHloBuilder& b, Operand x, const Dimensions& spatial) {
  const int64_t size = graph::Type{x.element(), spatial}.element_count();
  Dimensions sizes{size ? x.type().element_count() / size : 0};
  sizes.append(spatial.data(), spatial.size());
  return b.reshape(x, sizes);
}

}  // namespace

Operand Pooling::flat_input(StableHloBuilder& b, Operand x) const { return flat(b, x, input); }
Operand Pooling::flat_output(StableHloBuilder& b, Operand x) const { return flat(b, x, output); }

Operand Pooling::covered(StableHloBuilder& b, Operand x, Operand value) const {
  Dimensions low{0}, high{0};
  for (size_t i = 0; i < rank(); ++i) {
    const int64_t end = (output[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1;
    low.push_back(padding[i]);
    high.push_back(end - padding[i] - input[i]);
  }
  return b.pad(x, value, low, high);
}

Operand Pooling::window_element(StableHloBuilder& b, Operand covered, int64_t tap) const {
  const Dimensions at = place(tap);
  Dimensions starts{0}, limits{covered.dimension(0)}, strides{1};
  for (size_t i = 0; i < rank(); ++i) {
    starts.push_back(at[i] * dilation[i]);
    limits.push_back(starts.back() + (output[i] - 1) * stride[i] + 1);
    strides.push_back(stride[i]);
  }
  return b.slice(covered, starts, limits, strides);
}

Operand Pooling::merge(StableHloBuilder& b, const std::function<Operand(int64_t tap)>& part) const {
  if (is_dense()) return merge_classes(b, part);
  Operand sum;
  for (int64_t tap = 0; tap < taps(); ++tap) {
    const Dimensions at = place(tap);
    Dimensions low{0}, high{0}, interior{0};
    for (size_t i = 0; i < rank(); ++i) {
      low.push_back(at[i] * dilation[i] - padding[i]);
      high.push_back(input[i] - low.back() - ((output[i] - 1) * stride[i] + 1));
      interior.push_back(stride[i] - 1);
    }
    const Operand spread = b.pad(part(tap), 0, low, high, interior);
    sum = sum ? b.add(sum, spread) : spread;
  }
  return sum;
}

// Places of the input fall into classes by their remainder modulo the stride. Within a class, taps
// only shift: cheaper than padding every tap between its elements.
Operand Pooling::merge_classes(StableHloBuilder& b,
                               const std::function<Operand(int64_t tap)>& part) const {
  size_t classes = 1;
  for (int64_t s : stride) classes *= static_cast<size_t>(s);
  graph::Operands sums(classes);
  for (int64_t tap = 0; tap < taps(); ++tap) {
    const Dimensions at = place(tap);
    Dimensions low{0}, high{0};
    size_t index = 0;
    for (size_t i = 0; i < rank(); ++i) {
      index = index * static_cast<size_t>(stride[i]) + static_cast<size_t>(at[i] % stride[i]);
      low.push_back(at[i] / stride[i]);
      high.push_back((kernel[i] - 1) / stride[i] - low.back());
    }
    const Operand shifted = b.pad(part(tap), 0, low, high);
    sums[index] = sums[index] ? b.add(sums[index], shifted) : shifted;
  }
  for (Operand& sum : sums) {
    if (!sum) sum = b.zeros_like(sums[0]);
  }
  const Dimensions class_sizes = sums[0].dimensions();
  Dimensions split{class_sizes[0]}, order{0}, whole{class_sizes[0]}, low{0}, high{0};
  split.append(stride.data(), stride.size());
  split.append(class_sizes.data() + 1, rank());
  for (size_t i = 0; i < rank(); ++i) {
    order.push_back(static_cast<int64_t>(1 + rank() + i));
    order.push_back(static_cast<int64_t>(1 + i));
    whole.push_back(class_sizes[i + 1] * stride[i]);
    low.push_back(-padding[i]);
    high.push_back(input[i] + padding[i] - whole.back());
  }
  const Operand all = b.transpose(b.reshape(b.stack(sums, 1), split), order);
  return b.pad(b.reshape(all, whole), 0, low, high);
}

Dimensions Pooling::tiled_sizes(int64_t planes) const {
  Dimensions sizes{planes};
  for (size_t i = 0; i < rank(); ++i) {
    sizes.push_back(output[i]);
    sizes.push_back(kernel[i]);
  }
  return sizes;
}

Dimensions Pooling::tiled_mapping() const {
  Dimensions mapping{0};
  for (size_t i = 0; i < rank(); ++i) mapping.push_back(static_cast<int64_t>(2 * i) + 1);
  return mapping;
}

Operand Pooling::tiled(StableHloBuilder& b, Operand covered) const {
  return b.reshape(covered, tiled_sizes(covered.dimension(0)));
}

Operand Pooling::untiled(StableHloBuilder& b, Operand tiles) const {
  Dimensions sizes{tiles.dimension(0)}, low{0}, high{0};
  for (size_t i = 0; i < rank(); ++i) {
    sizes.push_back(output[i] * kernel[i]);
    low.push_back(-padding[i]);
    high.push_back(input[i] + padding[i] - sizes.back());
  }
  return b.pad(b.reshape(tiles, sizes), 0, low, high);
}

std::optional<c10::DimVector> pooled_strides(const at::Tensor& self, at::IntArrayRef sizes) {
  const at::MemoryFormat format = self.suggest_memory_format();
  if (format == at::MemoryFormat::ChannelsLast && sizes.size() == 4) {
    return c10::DimVector(c10::get_channels_last_strides_2d(sizes));
  }
  if (format == at::MemoryFormat::ChannelsLast3d && sizes.size() == 5) {
    return c10::DimVector(c10::get_channels_last_strides_3d(sizes));
  }
  return std::nullopt;
}

at::Tensor pooled_result(Record& record, const at::Tensor& self, at::IntArrayRef sizes) {
  return record.result(self.scalar_type(), sizes, pooled_strides(self, sizes));
}

}  // namespace torch_pjrt::aten
