# Which Python we build for, and what it has: defines Python_EXECUTABLE and FACT_<name> for each
# line that python_facts.py prints.
if(NOT Python_EXECUTABLE AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python")
endif()
if(NOT Python_EXECUTABLE)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
endif()

execute_process(
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/python_facts.py"
  OUTPUT_VARIABLE _facts
  RESULT_VARIABLE _status
  ERROR_VARIABLE _errors)
if(NOT _status EQUAL 0)
  message(FATAL_ERROR "asking ${Python_EXECUTABLE} for its packages: it failed.\n${_errors}")
endif()
string(REPLACE ";" "\\;" _facts "${_facts}")
string(REPLACE "\n" ";" _facts "${_facts}")
foreach(_line IN LISTS _facts)
  if(_line MATCHES "^([a-z0-9_]+)=(.*)$")
    set(FACT_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
  endif()
endforeach()
message(STATUS "Python ${Python_EXECUTABLE}, torch ${FACT_torch_version}")
