#pragma once

#include <string>
#include <string_view>

#include "pjrt/client.h"
#include "pjrt/compile_options.h"

namespace torch_pjrt::pjrt {

// Small programs over 16 floats.
inline constexpr std::string_view kDouble = R"(module @twice {
  func.func public @main(%a: tensor<16xf32>) -> tensor<16xf32> {
    %0 = stablehlo.add %a, %a : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
})";

// The same, where the result takes its argument's memory.
inline constexpr std::string_view kDoubleInPlace = R"(module @twice_in_place {
  func.func public @main(%a: tensor<16xf32> {tf.aliasing_output = 0 : i32}) -> tensor<16xf32> {
    %0 = stablehlo.add %a, %a : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
})";

inline LoadedExecutable compile(const Client& client, std::string_view program,
                                const CompileOptions& options = {}) {
  return client.compile(program, "mlir", options.serialize());
}

}  // namespace torch_pjrt::pjrt
