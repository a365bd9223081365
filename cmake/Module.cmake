# The Python module torch_pjrt._C: PyTorch's side (cpp/aten) and the bindings (cpp/python).
# Only libtorch_cpu, libc10 and libtorch_python are linked, and find_package(Torch) is not used:
# for a CUDA build of torch it would ask for the CUDA toolkit.
if(NOT FACT_torch_version)
  message(
    FATAL_ERROR
      "building torch_pjrt._C: no PyTorch in ${Python_EXECUTABLE} (${FACT_torch_error}); "
      "expected torch 2.11 or newer there. Install the build of torch that you use, then build "
      "again with `pip install --no-build-isolation .`; torch is never fetched by this build. "
      "(-DTORCH_PJRT_MODULE=OFF builds the core alone.)")
endif()
if(NOT EXISTS "${FACT_python_include}/Python.h")
  message(
    FATAL_ERROR
      "building torch_pjrt._C: Python.h is not in ${FACT_python_include}; install Python's "
      "development headers (Debian, Ubuntu: python3-dev).")
endif()

add_library(torch_pjrt_module MODULE ${MODULE_SOURCES})
set_target_properties(
  torch_pjrt_module
  PROPERTIES OUTPUT_NAME _C
             UNITY_BUILD ${TORCH_PJRT_UNITY}
             UNITY_BUILD_BATCH_SIZE 4
             PREFIX ""
             SUFFIX "${FACT_ext_suffix}"
             INSTALL_RPATH "$ORIGIN/../torch/lib"
             LIBRARY_OUTPUT_DIRECTORY "${TORCH_PJRT_OUTPUT_DIR}")
target_include_directories(torch_pjrt_module SYSTEM PRIVATE ${FACT_torch_include}
                                                            ${FACT_python_include})
target_compile_definitions(
  torch_pjrt_module
  PRIVATE AT_PER_OPERATOR_HEADERS TORCH_EXTENSION_NAME=_C TORCH_API_INCLUDE_EXTENSION_H
          _GLIBCXX_USE_CXX11_ABI=${FACT_torch_cxx11_abi})
foreach(_library torch_cpu c10 torch_python)
  find_library(TORCH_LIBRARY_${_library} ${_library} PATHS ${FACT_torch_lib} NO_DEFAULT_PATH
               REQUIRED)
  target_link_libraries(torch_pjrt_module PRIVATE "${TORCH_LIBRARY_${_library}}")
endforeach()
target_link_libraries(torch_pjrt_module PRIVATE torch_pjrt_core)

# PyTorch's headers take most of a file's compile time.
target_precompile_headers(
  torch_pjrt_module
  PRIVATE
  <algorithm>
  <cstdint>
  <functional>
  <memory>
  <mutex>
  <optional>
  <string>
  <unordered_map>
  <vector>
  <ATen/Context.h>
  <ATen/ExpandUtils.h>
  <ATen/TensorSubclassLikeUtils.h>
  <ATen/core/Tensor.h>
  <ATen/core/dispatch/Dispatcher.h>
  <c10/core/Allocator.h>
  <c10/core/ScalarType.h>
  <c10/core/StorageImpl.h>
  <c10/core/TensorImpl.h>
  <c10/core/impl/VirtualGuardImpl.h>
  <c10/util/ArrayRef.h>
  <torch/library.h>)
install(TARGETS torch_pjrt_module LIBRARY DESTINATION torch_pjrt COMPONENT torch_pjrt)
