# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` puts down: library, headers, command, licence, and the CMake and
# pkg-config packages. tests/install/ builds examples/ against the result. Included by the root
# CMakeLists.txt when Tandem is the top-level project.
include(CMakePackageConfigHelpers)

# A static archive records only names: whoever links it must link what it uses. Inside the build
# hwloc comes from platform/; for an installed archive tandem-config.cmake makes this target.
target_link_libraries(tandem PRIVATE $<INSTALL_INTERFACE:PkgConfig::TANDEM_HWLOC>)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
install(TARGETS tandem EXPORT tandem_targets)
install(EXPORT tandem_targets NAMESPACE tandem:: DESTINATION ${package_dir}
        FILE tandem-targets.cmake)
if(TARGET tandem_mpi)
  # An export of its own: whoever does not ask for it needs no MPI.
  install(TARGETS tandem_mpi EXPORT tandem_mpi_targets)
  install(EXPORT tandem_mpi_targets NAMESPACE tandem:: DESTINATION ${package_dir}
          FILE tandem-mpi-targets.cmake)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tandem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tandem-config.cmake.in
  ${PROJECT_BINARY_DIR}/tandem-config.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may break its users.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandem-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandem-config.cmake
              ${PROJECT_BINARY_DIR}/tandem-config-version.cmake DESTINATION ${package_dir})

# Users of the archive link what it uses, users of a shared library do not. By name, not as
# Requires: `pkg-config --static` would follow that into what a static hwloc needs (libudev), of
# which an ordinary system has nothing to link.
string(JOIN " " pc_uses -lfmt ${HWLOC_LDFLAGS} -pthread)
set(pc_libs "-ltandem ${pc_uses}")
set(pc_libs_private "")
if(BUILD_SHARED_LIBS)
  set(pc_libs -ltandem)
  set(pc_libs_private ${pc_uses})
endif()
# Relative, so that `cmake --install --prefix` elsewhere still gives a true file.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/tandem.pc.in ${PROJECT_BINARY_DIR}/tandem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tandem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
