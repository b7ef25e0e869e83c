# SPDX-License-Identifier: Apache-2.0
#
# Finds oneDNN, for bench/peers only, and makes the target DNNL::dnnl. TANDEM_DNNL_ROOT names an
# installation (include/, lib/) that is to be used instead of the system's.
set(TANDEM_DNNL_ROOT "" CACHE PATH "oneDNN installation to measure, instead of the system's")
set(dnnl_search)
if(TANDEM_DNNL_ROOT)
  set(dnnl_search PATHS ${TANDEM_DNNL_ROOT} NO_DEFAULT_PATH)
endif()
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp PATH_SUFFIXES include ${dnnl_search})
find_library(DNNL_LIBRARY dnnl PATH_SUFFIXES lib lib64 ${dnnl_search})

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DNNL REQUIRED_VARS DNNL_LIBRARY DNNL_INCLUDE_DIR)
if(DNNL_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
endif()
