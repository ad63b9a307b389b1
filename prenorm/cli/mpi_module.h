// What the program takes from MPI, as a table of functions. The program is not linked with MPI: the
// table comes from a module, prenorm_mpi.so, which is loaded only under mpirun, so that starting
// alone costs nothing and needs no MPI. All functions are called from one thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace prenorm::cli {

struct MpiFunctions {
  // Starts MPI. An error ends the process, as everywhere in MPI.
  void (*start)(int* rank, int* size);
  // Messages begin at once; `count` is bytes, at most kMostBytes, and for sums floats. from −1:
  // any.
  void (*send)(const void* message, std::size_t count, int to, int tag, std::uint64_t id);
  void (*receive)(void* message, std::size_t count, int from, int tag, std::uint64_t id);
  void (*sum_at)(float* numbers, std::size_t count, int to, std::uint64_t id);
  // Writes the ids of at most `room` that are done since the last call; how many.
  std::size_t (*finished)(std::uint64_t* ids, std::size_t room);
  // Ends all ranks with this code; does not return.
  void (*abort)(int code);
  // Ends MPI on this rank, once all others do. Messages that have not arrived are given up.
  void (*stop)();
};

constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr const char* kMpiModuleName = "prenorm_mpi.so";
constexpr const char* kMpiModuleFunction = "prenorm_mpi_functions_1";  // counts up with the table

}  // namespace prenorm::cli
