#pragma once

#include <memory>
#include <string>

#include "pjrt/error.h"

namespace torch_pjrt::graph {

// Why a value will never exist: the error of the program that should have computed it.
// It travels with the values and is raised where one of them is read.
struct Failure {
  pjrt::ErrorCode code;
  std::string message;
};
using FailurePtr = std::shared_ptr<const Failure>;

}  // namespace torch_pjrt::graph
