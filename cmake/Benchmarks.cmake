# One Google Benchmark program for each bench/cpp/*_benchmark.cpp; optional.
file(GLOB _benchmarks CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/cpp/*_benchmark.cpp")

# The plugin's own copies, for bench/transfer.py.
add_library(raw_plugin MODULE "${PROJECT_SOURCE_DIR}/bench/cpp/raw_plugin.cpp")
target_link_libraries(raw_plugin PRIVATE torch_pjrt_core)
set_target_properties(raw_plugin PROPERTIES PREFIX "")

find_package(benchmark QUIET)
if(NOT benchmark_FOUND)
  return()
endif()
foreach(_source IN LISTS _benchmarks)
  get_filename_component(_name "${_source}" NAME_WE)
  add_executable(${_name} EXCLUDE_FROM_ALL "${_source}")
  target_link_libraries(${_name} PRIVATE torch_pjrt_core benchmark::benchmark)
endforeach()
