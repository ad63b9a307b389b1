# The library and the program. One source list by folder: the folders and their ranks are described
# in ARCHITECTURE.md and tested by tests/structure_test.py.
set(PRENORM_FOLDERS base tensor reference kernels formats text layers model train generate study
                    report)
set(PRENORM_SOURCES)
foreach(folder IN LISTS PRENORM_FOLDERS)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/prenorm/${folder}/*.cc")
  list(APPEND PRENORM_SOURCES ${sources})
endforeach()

set(CMAKE_CXX_EXTENSIONS OFF)
add_library(prenorm_options INTERFACE)
target_compile_features(prenorm_options INTERFACE cxx_std_20)
# No contraction: every fused multiply-add in the arithmetic is written as one.
target_compile_options(prenorm_options INTERFACE -ffp-contract=off -Wall -Wextra -Wpedantic
                       -Wshadow -Wnon-virtual-dtor $<$<BOOL:${PRENORM_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlaps in libstdc++'s "text" + string where there are none (GCC bug 105651).
  target_compile_options(prenorm_options INTERFACE -Wno-restrict)
endif()

add_library(prenorm ${PRENORM_SOURCES})
add_library(prenorm::prenorm ALIAS prenorm)
target_compile_features(prenorm PUBLIC cxx_std_20)
target_include_directories(prenorm PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
                                          "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
# What is header-only or concerns only our own compilation stays out of the exported interface.
target_link_libraries(prenorm PUBLIC Threads::Threads
                      PRIVATE ${PRENORM_HWY} fmt::fmt tomlplusplus::tomlplusplus ZLIB::ZLIB
                              $<BUILD_INTERFACE:prenorm_options>
                              $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
set_target_properties(prenorm PROPERTIES VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR} POSITION_INDEPENDENT_CODE ON)

if(PRENORM_BUILD_PROGRAM OR PRENORM_BUILD_TESTS)
  file(GLOB cli_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/prenorm/cli/*.cc")
  list(REMOVE_ITEM cli_sources "${PROJECT_SOURCE_DIR}/prenorm/cli/main.cc"
                               "${PROJECT_SOURCE_DIR}/prenorm/cli/mpi_module.cc")
  # The page that `prenorm lesson` writes, as bytes in a source.
  set(lesson_page "${PROJECT_SOURCE_DIR}/docs/lesson/index.html")
  set(lesson_source "${CMAKE_CURRENT_BINARY_DIR}/lesson_page.cc")
  add_custom_command(
    OUTPUT "${lesson_source}"
    COMMAND "${CMAKE_COMMAND}" -D "INPUT=${lesson_page}" -D "OUTPUT=${lesson_source}"
            -D HEADER=prenorm/cli/lesson.h -D FUNCTION=prenorm::cli::lesson_page
            -P "${PROJECT_SOURCE_DIR}/cmake/PrenormEmbed.cmake"
    DEPENDS "${lesson_page}" "${PROJECT_SOURCE_DIR}/cmake/PrenormEmbed.cmake"
    VERBATIM)
  # A library of its own, so that the tests reach the parts of the command line.
  add_library(prenorm_cli STATIC EXCLUDE_FROM_ALL ${cli_sources} "${lesson_source}")
  target_link_libraries(prenorm_cli PRIVATE prenorm_options
                        PUBLIC prenorm CLI11::CLI11 fmt::fmt nlohmann_json::nlohmann_json
                               tomlplusplus::tomlplusplus)
  # Where the program finds prenorm_mpi.so once installed, from its own folder.
  file(RELATIVE_PATH module_folder "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}/prenorm")
  target_compile_definitions(prenorm_cli PRIVATE PRENORM_VERSION="${PROJECT_VERSION}"
                                                 PRENORM_MODULE_FOLDER="${module_folder}")
  target_link_libraries(prenorm_cli PRIVATE ${CMAKE_DL_LIBS})
endif()
if(PRENORM_BUILD_PROGRAM)
  add_executable(prenorm_program prenorm/cli/main.cc)
  set_target_properties(prenorm_program PROPERTIES OUTPUT_NAME prenorm)
  target_link_libraries(prenorm_program PRIVATE prenorm_cli prenorm_options)
  include(PrenormMpi)
endif()
