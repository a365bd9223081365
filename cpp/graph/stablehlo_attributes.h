#pragma once

#include <cstdint>
#include <vector>

#include "graph/type.h"

// The structured attributes of StableHLO operations, named as in its specification.
namespace torch_pjrt::graph {

enum class Comparison : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

// How a reduction, a scatter or a cumulative operation combines two elements.
// kOverwrite is for scatter alone.
enum class Reducer : uint8_t { kAdd, kMultiply, kMaximum, kMinimum, kAnd, kOr, kOverwrite };

enum class FftType : uint8_t { kForward, kInverse, kRealForward, kRealInverse };
enum class RngAlgorithm : uint8_t { kDefault, kThreeFry, kPhilox };

struct Padding {
  int64_t low = 0;
  int64_t high = 0;
};

struct DotDimensions {
  Dimensions lhs_batching, rhs_batching;
  Dimensions lhs_contracting, rhs_contracting;
};

// Empty lists mean: strides and dilations 1, padding 0, no reversal.
struct Window {
  Dimensions sizes;  // of reduce_window and select_and_scatter; a convolution reads its kernel
  Dimensions strides;
  std::vector<Padding> padding;
  Dimensions base_dilations;    // lhs dilation of a convolution
  Dimensions window_dilations;  // rhs dilation of a convolution
  Dimensions reversal;          // 0 or 1 for each spatial dimension, convolution only
};

// Which dimension plays which part. The default of `convolution_dimensions(n)` is PyTorch's:
// input [batch, feature, spatial...], kernel [output, input, spatial...].
struct ConvolutionDimensions {
  int64_t input_batch = 0, input_feature = 1;
  Dimensions input_spatial;
  int64_t kernel_output_feature = 0, kernel_input_feature = 1;
  Dimensions kernel_spatial;
  int64_t output_batch = 0, output_feature = 1;
  Dimensions output_spatial;
};

ConvolutionDimensions convolution_dimensions(int64_t spatial_rank);

struct GatherDimensions {
  Dimensions offset;
  Dimensions collapsed_slice;
  Dimensions operand_batching;
  Dimensions start_indices_batching;
  Dimensions start_index_map;
  int64_t index_vector = 0;
};

struct ScatterDimensions {
  Dimensions update_window;
  Dimensions inserted_window;
  Dimensions input_batching;
  Dimensions scatter_indices_batching;
  Dimensions scatter_dims_to_operand;
  int64_t index_vector = 0;
};

// Promises about a list of indices; a false promise makes the result undefined.
struct IndexPromise {
  bool sorted = false;
  bool unique = false;
};

}  // namespace torch_pjrt::graph
