# One GoogleTest program for each folder of tests/cpp; ctest runs them on the plugins that the
# building Python has.
find_package(GTest QUIET)
if(NOT GTest_FOUND)
  message(STATUS "C++ tests: left out, GoogleTest is not installed (tools/install_system_packages)")
  return()
endif()
enable_testing()
find_package(Threads REQUIRED)

# The copy kernels on random layouts: a libFuzzer target with clang, else a plain program.
add_executable(strided_copy_fuzzer "${PROJECT_SOURCE_DIR}/tests/cpp/transfer/strided_copy_fuzzer.cpp")
target_link_libraries(strided_copy_fuzzer PRIVATE torch_pjrt_core)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Built anew, so that the fuzzer sees which branches an input takes.
  set(_kernels transfer/strided_copy transfer/array_pieces transfer/transfer_threads
               base/environment)
  list(TRANSFORM _kernels PREPEND "${PROJECT_SOURCE_DIR}/cpp/")
  list(TRANSFORM _kernels APPEND ".cpp")
  target_sources(strided_copy_fuzzer PRIVATE ${_kernels})
  target_compile_definitions(strided_copy_fuzzer PRIVATE TORCH_PJRT_LIBFUZZER)
  target_compile_options(strided_copy_fuzzer PRIVATE -fsanitize=fuzzer)
  target_link_options(strided_copy_fuzzer PRIVATE -fsanitize=fuzzer)
  add_test(NAME fuzz COMMAND strided_copy_fuzzer -runs=20000)
elseif(NOT TORCH_PJRT_SANITIZE MATCHES "thread") # it has one
  add_test(NAME fuzz COMMAND strided_copy_fuzzer 20000)
endif()

set(_plugins "${FACT_plugins}")
set(_seconds 300)
if(TORCH_PJRT_SANITIZE)
  set(_seconds 1200)
  # It is our code that is looked at: one plugin will do.
  string(REGEX REPLACE ":.*" "" _plugins "${_plugins}")
endif()

foreach(_layer base pjrt transfer graph dlpack chaos)
  file(GLOB _sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/cpp/${_layer}/*_test.cpp")
  if(TORCH_PJRT_SANITIZE MATCHES "thread")
    list(FILTER _sources EXCLUDE REGEX "/stablehlo_") # text, written on one thread
  endif()
  if(NOT _sources)
    continue()
  endif()
  set(_test ${_layer}_tests)
  add_executable(${_test} ${_sources})
  set_target_properties(${_test} PROPERTIES UNITY_BUILD ${TORCH_PJRT_UNITY}
                                            UNITY_BUILD_BATCH_SIZE 12)
  target_include_directories(${_test} PRIVATE "${PROJECT_SOURCE_DIR}/tests/cpp")
  target_link_libraries(${_test} PRIVATE torch_pjrt_core GTest::gtest_main GTest::gtest
                                         Threads::Threads)
  if(TORCH_PJRT_SANITIZE)
    # Built in half the time; the tests themselves have little to do.
    target_compile_options(${_test} PRIVATE -O0)
    target_precompile_headers(${_test} PRIVATE <gtest/gtest.h> <functional> <map> <memory> <string>
                              <vector>)
  endif()
  if(_layer STREQUAL "dlpack")
    target_include_directories(${_test} SYSTEM PRIVATE ${FACT_torch_include})
  endif()
  set(_environment "TORCH_PJRT_TEST_PLUGINS=${_plugins}")
  if(_layer STREQUAL "chaos")
    add_dependencies(${_test} pjrt_chaos simulated_accelerator)
    target_include_directories(${_test} PRIVATE "${PROJECT_SOURCE_DIR}/plugins/chaos"
                                                "${PROJECT_SOURCE_DIR}/plugins")
    list(APPEND _environment "PJRT_CHAOS_LIBRARY=$<TARGET_FILE:pjrt_chaos>"
         "SIMULATED_ACCELERATOR_LIBRARY=$<TARGET_FILE:simulated_accelerator>")
  endif()
  add_test(NAME ${_layer} COMMAND ${_test})
  if(TORCH_PJRT_SANITIZE MATCHES "thread")
    list(APPEND _environment "GTEST_FILTER=-StridedCopy.*RandomLayouts*") # on one thread
  endif()
  set_tests_properties(${_layer} PROPERTIES ENVIRONMENT "${_environment}" TIMEOUT ${_seconds})
endforeach()
