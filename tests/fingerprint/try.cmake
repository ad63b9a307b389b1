# Builds and runs the fingerprints for one kind of build; KIND is debug (no optimisation),
# other_compiler (Clang where the tests are built with GCC, and the reverse) or aarch64 (cross
# compiled, run by qemu). Prints "skipped: …" where this machine lacks what a kind needs.
cmake_minimum_required(VERSION 3.23)
set(work "${PRENORM_BUILD}/fingerprint/${KIND}")
set(compiler "${CXX}")
set(options -D CMAKE_BUILD_TYPE=Release "-D PRENORM_HWY_LIBRARY=${HWY_LIBRARY}")
set(runner)

function(need variable what)
  find_program(${variable} NAMES ${ARGN} NO_CACHE)
  if(NOT ${variable})
    message("skipped: expected ${what}, found none of ${ARGN}")
  endif()
  set(${variable} "${${variable}}" PARENT_SCOPE)
endfunction()

if(KIND STREQUAL "debug")
  list(APPEND options -D CMAKE_BUILD_TYPE=Debug)
elseif(KIND STREQUAL "other_compiler")
  if(CXX_ID STREQUAL "GNU")
    need(compiler_found "Clang" clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14
         clang++)
  else()
    need(compiler_found "GCC" g++-14 g++-13 g++-12 g++)
  endif()
  set(compiler "${compiler_found}")
elseif(KIND STREQUAL "aarch64")
  need(compiler_found "a compiler for 64-bit Arm" aarch64-linux-gnu-g++ aarch64-linux-gnu-g++-12)
  need(runner "an emulator of 64-bit Arm" qemu-aarch64 qemu-aarch64-static)
  set(compiler "${compiler_found}")
  if(NOT runner)
    set(compiler "")
  endif()
  set(options -D CMAKE_BUILD_TYPE=Release -D CMAKE_SYSTEM_NAME=Linux
      -D CMAKE_SYSTEM_PROCESSOR=aarch64 -D CMAKE_EXE_LINKER_FLAGS=-static)
endif()
if(NOT compiler)
  return()
endif()

execute_process(COMMAND "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${work}"
                        -G "${GENERATOR}" -D "CMAKE_CXX_COMPILER=${compiler}"
                        -D "CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
                        -D "PRENORM_SOURCE=${PRENORM_SOURCE}" ${options}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${work}" COMMAND_ERROR_IS_FATAL ANY)
message("${KIND}: ${compiler}")
execute_process(COMMAND ${runner} "${work}/fingerprint" COMMAND_ERROR_IS_FATAL ANY)
