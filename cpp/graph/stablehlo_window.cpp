#include <algorithm>

#include "graph/stablehlo_statement.h"

namespace torch_pjrt::graph {

using Statement = StableHloBuilder::Statement;

namespace {

// A window with every list filled in.
Window complete(std::string_view what, Window window, int64_t rank) {
  const auto count = static_cast<size_t>(rank);
  const auto fill = [&](Dimensions& list, int64_t value, int64_t least, const char* name) {
    if (list.empty()) list.resize(count, value);
    if (list.size() != count ||
        std::any_of(list.begin(), list.end(), [least](int64_t v) { return v < least; })) {
      fail(what, std::string("the window's ") + name + " do not fit", to_string(list),
           std::to_string(rank) + " values of at least " + std::to_string(least));
    }
  };
  fill(window.sizes, 1, 0, "sizes");
  fill(window.strides, 1, 1, "strides");
  fill(window.base_dilations, 1, 1, "base dilations");
  fill(window.window_dilations, 1, 1, "window dilations");
  fill(window.reversal, 0, 0, "reversals");
  if (window.padding.empty()) window.padding.resize(count);
  if (window.padding.size() != count) {
    fail(what, "the window's padding does not fit", std::to_string(window.padding.size()),
         std::to_string(rank) + " pairs");
  }
  return window;
}

int64_t dilated(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : (size - 1) * dilation + 1;
}

// How many places a complete window takes along dimension i of an array of that size.
int64_t places(const Window& window, size_t i, int64_t size) {
  const int64_t base =
      dilated(size, window.base_dilations[i]) + window.padding[i].low + window.padding[i].high;
  const int64_t extent = dilated(window.sizes[i], window.window_dilations[i]);
  return base < extent || base <= 0 ? 0 : (base - extent) / window.strides[i] + 1;
}

void write_padding(Statement& s, const std::vector<Padding>& padding) {
  s.text("padding = dense<");
  for (size_t i = 0; i < padding.size(); ++i) {
    s.text(i ? ", [" : "[[").number(padding[i].low).text(", ").number(padding[i].high).text("]");
  }
  s.text(padding.empty() ? "> : tensor<" : "]> : tensor<");
  s.number(static_cast<int64_t>(padding.size())).text("x2xi64>");
}

void write_window(Statement& s, const Window& window) {
  s.text(") <{window_dimensions = ").array(window.sizes);
  s.text(", window_strides = ").array(window.strides);
  s.text(", base_dilations = ").array(window.base_dilations);
  s.text(", window_dilations = ").array(window.window_dilations).text(", ");
  write_padding(s, window.padding);
  s.text("}> (");
}

}  // namespace

Operand StableHloBuilder::reduce_window(Operand x, Operand init, Reducer reducer,
                                        const Window& given) {
  constexpr std::string_view kName = "stablehlo.reduce_window";
  Statement::check(*this, kName, x);
  Statement::check(*this, kName, init);
  check_init(kName, init, x);
  const Window window = complete(kName, given, x.rank());
  Type type = x.type();
  for (size_t i = 0; i < type.dimensions.size(); ++i) {
    type.dimensions[i] = places(window, i, type.dimensions[i]);
  }
  Statement s(*this, "\"stablehlo.reduce_window\"(", type);
  s.operands({x, init});
  write_window(s, window);
  s.reducer_region(reducer, x.element()).text(")").signature({x, init});
  return s.end();
}

Operands StableHloBuilder::reduce_window(OperandList inputs, OperandList inits, const Window& given,
                                         const ReducerBody& body) {
  constexpr std::string_view kName = "stablehlo.reduce_window";
  Statement::check(*this, kName, inputs);
  Statement::check(*this, kName, inits);
  if (inputs.empty() || inputs.size() != inits.size()) {
    fail(kName, "inputs and initial values do not match",
         std::to_string(inputs.size()) + " and " + std::to_string(inits.size()), "as many, not 0");
  }
  const Window window = complete(kName, given, inputs[0].rank());
  std::vector<Type> results, scalars;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dimensions() != inputs[0].dimensions()) {
      fail(kName, "input shapes differ",
           to_string(inputs[0].type()) + " and " + to_string(inputs[i].type()), "equal shapes");
    }
    check_init(kName, inits[i], inputs[i]);
    Type type = inputs[i].type();
    for (size_t d = 0; d < type.dimensions.size(); ++d) {
      type.dimensions[d] = places(window, d, type.dimensions[d]);
    }
    results.push_back(type);
    scalars.push_back({type.element, {}});
  }
  std::vector<Type> arguments = scalars;
  arguments.insert(arguments.end(), scalars.begin(), scalars.end());
  Operands operands(inputs.begin(), inputs.end());
  operands.insert(operands.end(), inits.begin(), inits.end());
  const size_t count = inputs.size();
  Statement s(*this, "\"stablehlo.reduce_window\"(", results);
  s.operands(operands);
  write_window(s, window);
  s.region(
      kName, arguments, true,
      [&](StableHloBuilder& builder, OperandList all) {
        return body(builder, all.first(count), all.subspan(count));
      },
      scalars);
  s.text(")").signature(operands);
  return s.end_all();
}

Operand StableHloBuilder::select_and_scatter(Operand x, Operand source, Operand init,
                                             Comparison select, Reducer scatter,
                                             const Window& given) {
  constexpr std::string_view kName = "stablehlo.select_and_scatter";
  Statement::check(*this, kName, {x, source, init});
  check_init(kName, init, x);
  const Window window = complete(kName, given, x.rank());
  Type expected = x.type();
  for (size_t i = 0; i < expected.dimensions.size(); ++i) {
    expected.dimensions[i] = places(window, i, expected.dimensions[i]);
  }
  if (!(source.type() == expected)) {
    fail(kName, "the source does not fit the window", to_string(source.type()),
         to_string(expected));
  }
  const Type scalar{x.element(), {}};
  Statement s(*this, "\"stablehlo.select_and_scatter\"(", x.type());
  s.operands({x, source, init}).text(") <{window_dimensions = ").array(window.sizes);
  s.text(", window_strides = ").array(window.strides).text(", ");
  write_padding(s, window.padding);
  s.text("}> (");
  s.region(kName, {scalar, scalar}, true,
           [select](StableHloBuilder& b, OperandList two) {
             return Operands{b.compare(select, two[0], two[1])};
           },
           {Type{ElementType::kPred, {}}});
  s.text(", ").reducer_region(scatter, x.element()).text(")").signature({x, source, init});
  return s.end();
}

ConvolutionDimensions convolution_dimensions(int64_t spatial_rank) {
  ConvolutionDimensions dimensions;
  for (int64_t i = 2; i < spatial_rank + 2; ++i) {
    dimensions.input_spatial.push_back(i);
    dimensions.kernel_spatial.push_back(i);
    dimensions.output_spatial.push_back(i);
  }
  return dimensions;
}

namespace {

// `[b, f, 0, 1]`
void write_layout(Statement& s, int64_t first, char first_name, int64_t second, char second_name,
                  const Dimensions& spatial) {
  s.text("[");
  for (int64_t i = 0; i < static_cast<int64_t>(spatial.size()) + 2; ++i) {
    if (i) s.text(", ");
    if (i == first) {
      s.text({&first_name, 1});
    } else if (i == second) {
      s.text({&second_name, 1});
    } else {
      s.number(std::find(spatial.begin(), spatial.end(), i) - spatial.begin());
    }
  }
  s.text("]");
}

void check_layout(std::string_view what, int64_t first, int64_t second, const Dimensions& spatial,
                  int64_t rank) {
  Dimensions all = spatial;
  all.push_back(first);
  all.push_back(second);
  std::sort(all.begin(), all.end());
  bool permutes = static_cast<int64_t>(all.size()) == rank;
  for (size_t i = 0; permutes && i < all.size(); ++i) permutes = all[i] == static_cast<int64_t>(i);
  if (!permutes) {
    fail(what, "the dimension numbers do not fit", to_string(all),
         "each dimension of rank " + std::to_string(rank) + " once");
  }
}

}  // namespace

Operand StableHloBuilder::convolution(Operand input, Operand kernel, const Window& given,
                                      const ConvolutionDimensions& d, int64_t feature_group_count,
                                      int64_t batch_group_count, ElementType result) {
  constexpr std::string_view kName = "stablehlo.convolution";
  Statement::check(*this, kName, {input, kernel});
  const auto at = [](Operand x, int64_t i) { return x.dimensions()[static_cast<size_t>(i)]; };
  if (input.element() != kernel.element()) {
    fail(kName, "operand element types differ",
         to_string(input.type()) + " and " + to_string(kernel.type()), {},
         "convert one of them first");
  }
  const auto spatial_rank = static_cast<int64_t>(d.input_spatial.size());
  check_layout(kName, d.input_batch, d.input_feature, d.input_spatial, input.rank());
  check_layout(kName, d.kernel_output_feature, d.kernel_input_feature, d.kernel_spatial,
               kernel.rank());
  check_layout(kName, d.output_batch, d.output_feature, d.output_spatial, input.rank());
  Window window = given;
  window.sizes.clear();
  for (int64_t i : d.kernel_spatial) window.sizes.push_back(at(kernel, i));
  window = complete(kName, window, spatial_rank);
  const int64_t batch = at(input, d.input_batch), features = at(input, d.input_feature);
  const int64_t outputs = at(kernel, d.kernel_output_feature);
  if (feature_group_count < 1 || batch_group_count < 1 || features % feature_group_count ||
      features / feature_group_count != at(kernel, d.kernel_input_feature) ||
      outputs % feature_group_count || batch % batch_group_count || outputs % batch_group_count ||
      (feature_group_count > 1 && batch_group_count > 1)) {
    fail(kName, "the kernel does not fit the input's features",
         to_string(input.type()) + " and " + to_string(kernel.type()) + " with " +
             std::to_string(feature_group_count) + " feature groups, " +
             std::to_string(batch_group_count) + " batch groups",
         "kernel input features = input features / groups, and counts that divide evenly");
  }
  Type type{result == ElementType::kInvalid ? input.element() : result,
            Dimensions(static_cast<size_t>(input.rank()), 0)};
  type.dimensions[static_cast<size_t>(d.output_batch)] = batch / batch_group_count;
  type.dimensions[static_cast<size_t>(d.output_feature)] = outputs;
  for (size_t i = 0; i < d.output_spatial.size(); ++i) {
    type.dimensions[static_cast<size_t>(d.output_spatial[i])] =
        places(window, i, at(input, d.input_spatial[i]));
  }
  Statement s(*this, "stablehlo.convolution(", type);
  s.operands({input, kernel}).text(") dim_numbers = ");
  write_layout(s, d.input_batch, 'b', d.input_feature, 'f', d.input_spatial);
  s.text("x");
  write_layout(s, d.kernel_output_feature, 'o', d.kernel_input_feature, 'i', d.kernel_spatial);
  s.text("->");
  write_layout(s, d.output_batch, 'b', d.output_feature, 'f', d.output_spatial);
  s.text(", window = {stride = ").list(window.strides).text(", pad = [");
  for (size_t i = 0; i < window.padding.size(); ++i) {
    s.text(i ? ", " : "").list({window.padding[i].low, window.padding[i].high});
  }
  s.text("], lhs_dilate = ").list(window.base_dilations);
  s.text(", rhs_dilate = ").list(window.window_dilations).text(", reverse = [");
  for (size_t i = 0; i < window.reversal.size(); ++i) {
    s.text(i ? ", " : "").text(window.reversal[i] ? "true" : "false");
  }
  s.text("]} {batch_group_count = ").number(batch_group_count);
  s.text(" : i64, feature_group_count = ").number(feature_group_count).text(" : i64");
  write_precision(s);
  s.text("}").signature({input, kernel});
  return s.end();
}

}  // namespace torch_pjrt::graph
