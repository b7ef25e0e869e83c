# SPDX-License-Identifier: Apache-2.0
#
# tandem_room(NAME USES other rooms… LIBRARIES external targets… SOURCES files…)
# One room of src/ is one object library that sees include/ and src/, links what it may use, and
# is compiled with the project's warnings.

add_library(tandem_flags INTERFACE)
# -ffp-contract=off: the numerics contract fixes where a product is fused and where it is not.
# -Wno-psabi: passing SIMD vectors between functions of one file is not an ABI of ours.
# -Wno-missing-field-initializers: a designated initialiser leaves the rest at its defaults.
# -Wno-maybe-uninitialized: GCC 12 reports members of inlined temporaries; sanitizers know better.
target_compile_options(tandem_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-missing-field-initializers -Wno-psabi
  -ffp-contract=off
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<BOOL:${TANDEM_WERROR}>:-Werror>)
if(TANDEM_SANITIZE)
  string(REGEX REPLACE "^address$" "address,undefined,float-cast-overflow" sanitizers ${TANDEM_SANITIZE})
  target_compile_options(tandem_flags INTERFACE -fsanitize=${sanitizers}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tandem_flags INTERFACE -fsanitize=${sanitizers})
endif()

# Only what is marked TANDEM_API or TANDEM_INTERNAL_API leaves a shared library.
function(tandem_hide_names target)
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# A shared library of objects that do so; a static one stays as it is.
function(tandem_export_own_names target)
  if(BUILD_SHARED_LIBS)
    set(map ${PROJECT_SOURCE_DIR}/src/exports.map)
    # And what it needs it must find: tandem_mpi, in what tandem exports.
    target_link_options(${target} PRIVATE -Wl,--version-script=${map} -Wl,--no-undefined)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
  endif()
endfunction()

function(tandem_room name)
  cmake_parse_arguments(ROOM "" "" "USES;LIBRARIES;SOURCES" ${ARGN})
  add_library(tandem_${name} OBJECT ${ROOM_SOURCES})
  target_include_directories(tandem_${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tandem_${name} PRIVATE tandem_flags)
  tandem_hide_names(tandem_${name})
  target_link_libraries(tandem_${name} PUBLIC ${ROOM_LIBRARIES})
  foreach(other IN LISTS ROOM_USES)
    target_link_libraries(tandem_${name} PUBLIC tandem_${other})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY TANDEM_ROOMS tandem_${name})
endfunction()
