# Builds and runs tests/consumer/project; WAY is find_package (prenorm installed into a prefix
# first) or add_subdirectory (a shared library, so that this kind is built somewhere too).
cmake_minimum_required(VERSION 3.23)
set(work "${PRENORM_BUILD}/consumer/${WAY}")
file(REMOVE_RECURSE "${work}/prefix")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

if(WAY STREQUAL "find_package")
  run("${CMAKE_COMMAND}" --install "${PRENORM_BUILD}" --prefix "${work}/prefix"
      --config "${CONFIG}")
  set(options -D "CMAKE_PREFIX_PATH=${work}/prefix" -D "CMAKE_BUILD_TYPE=${CONFIG}")
else()
  # -O1: only that it builds and runs is asked here, not speed.
  set(options -D "PRENORM_SOURCE=${PRENORM_SOURCE}" -D CMAKE_BUILD_TYPE=Debug
      -D CMAKE_CXX_FLAGS_DEBUG=-O1 -D BUILD_SHARED_LIBS=ON)
endif()
run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/project" -B "${work}/build" -G "${GENERATOR}"
    -D "CMAKE_CXX_COMPILER=${CXX}" -D "CMAKE_CXX_FLAGS=${CXX_FLAGS}"
    -D "CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" ${options})
run("${CMAKE_COMMAND}" --build "${work}/build" --config "${CONFIG}")
run("${CMAKE_COMMAND}" --build "${work}/build" --config "${CONFIG}" --target run_consumer)
