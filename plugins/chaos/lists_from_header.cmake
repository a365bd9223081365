# Reads from pjrt_c_api.h what would go stale if it were typed, and writes it to `folder` as lists
# for the preprocessor (a file each):
#   functions.inc        CHAOS_FUNCTION(PJRT_Error_Destroy)      every entry of PJRT_Api, in order
#   handles.inc          CHAOS_EVENT(PJRT_Buffer_ReadyEvent, event)   events that a call gives out
#                        CHAOS_BUFFER(PJRT_Buffer_CopyToDevice, dst_buffer)   and buffers
#   error_codes.inc      CHAOS_ERROR_CODE(INTERNAL)
#   element_types.inc    CHAOS_ELEMENT_TYPE(F32)
#   extension_types.inc  CHAOS_EXTENSION_TYPE(Layouts)
function(write_lists_from_header header folder)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")

  function(write_list file macro pattern)
    file(STRINGS "${header}" lines REGEX "${pattern}")
    set(text "")
    foreach(line IN LISTS lines)
      if(NOT line MATCHES "#define" AND line MATCHES "${pattern}")
        string(APPEND text "${macro}(${CMAKE_MATCH_1})\n")
      endif()
    endforeach()
    if(text STREQUAL "")
      message(FATAL_ERROR "reading ${header}: no line of it matches '${pattern}'")
    endif()
    file(CONFIGURE OUTPUT "${folder}/${file}" CONTENT "${text}" @ONLY)
  endfunction()
  write_list(functions.inc CHAOS_FUNCTION "_PJRT_API_STRUCT_FIELD\\((PJRT_[A-Za-z0-9_]+)\\)")
  write_list(error_codes.inc CHAOS_ERROR_CODE "^  PJRT_Error_Code_([A-Z_]+) = ")
  write_list(element_types.inc CHAOS_ELEMENT_TYPE "^  PJRT_Buffer_Type_([A-Z0-9]+),")
  write_list(extension_types.inc CHAOS_EXTENSION_TYPE "^  PJRT_Extension_Type_([A-Za-z_]+)")

  set(text "")
  file(STRINGS "${header}" lines
       REGEX "^struct PJRT_[A-Za-z_]+_Args {|^  PJRT_(Event|Buffer)\\* [a-z_0-9]+;.*// out")
  foreach(line IN LISTS lines)
    if(line MATCHES "^struct (PJRT_[A-Za-z_]+)_Args")
      set(function "${CMAKE_MATCH_1}")
    elseif(NOT function MATCHES "^PJRT_Event_" AND line MATCHES
                                                   "PJRT_(Event|Buffer)\\* ([a-z_0-9]+)")
      string(TOUPPER "${CMAKE_MATCH_1}" kind)
      string(APPEND text "CHAOS_${kind}(${function}, ${CMAKE_MATCH_2})\n")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT "${folder}/handles.inc" CONTENT "${text}" @ONLY)
endfunction()
