# What `cmake --install` lays down: the library, its public headers, the CMake package
# (find_package(prenorm), target prenorm::prenorm), the program and the licence.
#
# Public is every header that includes nothing but the standard library and public headers;
# tests/structure_test.py holds the installed ones to that.
include(CMakePackageConfigHelpers)

set(PRENORM_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/prenorm")
get_target_property(PRENORM_TYPE prenorm TYPE)

install(TARGETS prenorm EXPORT prenormTargets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/prenorm" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h"
        # Private, and read from here by the structure test: per-target code, the JSON library's
        # wrapper, the command line.
        PATTERN "*-inl.h" EXCLUDE
        PATTERN "kernels/*_target.h" EXCLUDE
        PATTERN "kernels/targets.h" EXCLUDE
        PATTERN "base/json.h" EXCLUDE
        PATTERN "text/*json*.h" EXCLUDE
        PATTERN "train/state_checksums.h" EXCLUDE
        PATTERN "prenorm/cli" EXCLUDE)
install(EXPORT prenormTargets NAMESPACE prenorm:: DESTINATION "${PRENORM_PACKAGE_DIR}")

configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/prenormConfig.cmake.in" "${PROJECT_BINARY_DIR}/prenormConfig.cmake"
  INSTALL_DESTINATION "${PRENORM_PACKAGE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/prenormConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/prenormConfig.cmake"
              "${PROJECT_BINARY_DIR}/prenormConfigVersion.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/PrenormHighway.cmake"
        DESTINATION "${PRENORM_PACKAGE_DIR}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

if(PRENORM_BUILD_PROGRAM)
  # A shared library is found beside the program wherever the prefix is moved to.
  if(PRENORM_TYPE STREQUAL "SHARED_LIBRARY")
    file(RELATIVE_PATH lib_from_bin "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
    set_target_properties(prenorm_program PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")
  endif()
  install(TARGETS prenorm_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  if(TARGET prenorm_mpi)
    install(TARGETS prenorm_mpi LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/prenorm")
  endif()
endif()
