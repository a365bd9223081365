#pragma once

#include <c10/util/Exception.h>

#include <utility>

#include "graph/executor.h"
#include "pjrt/error.h"

namespace torch_pjrt::aten {

// Calls a function of the core and turns its exceptions into those that PyTorch's bindings map to
// the fitting Python exception: a failed check to IndexError or torch.linalg.LinAlgError, an
// exhausted device to torch.OutOfMemoryError, the rest to RuntimeError.
template <typename Function>
decltype(auto) translate_errors(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const graph::CheckError& error) {
    C10_THROW_ERROR(IndexError, error.what());
  } catch (const graph::LinearAlgebraError& error) {
    C10_THROW_ERROR(LinAlgError, error.what());
  } catch (const pjrt::Error& error) {
    if (error.code() == pjrt::ErrorCode::kResourceExhausted) {
      C10_THROW_ERROR(OutOfMemoryError, error.what());
    }
    if (error.code() == pjrt::ErrorCode::kUnimplemented) {
      C10_THROW_ERROR(NotImplementedError, error.what());
    }
    C10_THROW_ERROR(Error, error.what());
  }
}

}  // namespace torch_pjrt::aten
