#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace torch_pjrt::aten {

// Many tensors in one call, each as tensor.to(device) gives it: what is there already is returned
// as it is, and what is differentiated, sparse or of another layout goes by `.to`. An error of one
// is thrown after the others are done.
std::vector<at::Tensor> to_device(const std::vector<at::Tensor>& tensors, c10::Device device);
std::vector<at::Tensor> to_host(const std::vector<at::Tensor>& tensors);

}  // namespace torch_pjrt::aten
