#include "graph/type.h"

namespace torch_pjrt::graph {

std::string to_string(const Type& type) {
  std::string text = "tensor<";
  for (int64_t d : type.dimensions) text.append(std::to_string(d)).push_back('x');
  text.append(pjrt::name(type.element)).push_back('>');
  return text;
}

}  // namespace torch_pjrt::graph
