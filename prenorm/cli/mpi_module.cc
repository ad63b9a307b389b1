// The only file that is compiled against MPI: the module prenorm_mpi.so.
#include "prenorm/cli/mpi_module.h"

#include <mpi.h>

#include <vector>

namespace {

std::vector<MPI_Request> requests;
std::vector<std::uint64_t> ids;  // beside them
MPI_Comm ranks = MPI_COMM_NULL;

MPI_Request* next(std::uint64_t id) {
  requests.push_back(MPI_REQUEST_NULL);
  ids.push_back(id);
  return &requests.back();
}

void start(int* rank, int* size) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  // A communicator of our own, so that no tag meets another library's.
  MPI_Comm_dup(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(ranks, rank);
  MPI_Comm_size(ranks, size);
}

void send(const void* message, std::size_t count, int to, int tag, std::uint64_t id) {
  MPI_Isend(message, static_cast<int>(count), MPI_BYTE, to, tag, ranks, next(id));
}

void receive(void* message, std::size_t count, int from, int tag, std::uint64_t id) {
  MPI_Irecv(message, static_cast<int>(count), MPI_BYTE, from < 0 ? MPI_ANY_SOURCE : from, tag,
            ranks, next(id));
}

void sum_at(float* numbers, std::size_t count, int to, std::uint64_t id) {
  int rank = 0;
  MPI_Comm_rank(ranks, &rank);
  const void* from = rank == to ? MPI_IN_PLACE : numbers;
  MPI_Ireduce(from, numbers, static_cast<int>(count), MPI_FLOAT, MPI_SUM, to, ranks, next(id));
}

std::size_t finished(std::uint64_t* out, std::size_t room) {
  static std::vector<int> places;
  places.resize(requests.size());
  int count = 0;
  MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &count, places.data(),
               MPI_STATUSES_IGNORE);
  // Those that are done are null now; what does not fit is told the next time, whatever else is
  // done by then.
  std::size_t told = 0, kept = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] == MPI_REQUEST_NULL && told < room) {
      out[told++] = ids[i];
      continue;
    }
    requests[kept] = requests[i];
    ids[kept++] = ids[i];
  }
  requests.resize(kept);
  ids.resize(kept);
  return told;
}

void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

void stop() {
  for (MPI_Request& request : requests) {
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
  requests.clear();
  MPI_Comm_free(&ranks);
  MPI_Finalize();
}

constexpr prenorm::cli::MpiFunctions kFunctions = {start,    send,      receive, sum_at,
                                                   finished, abort_all, stop};

}  // namespace

// Named in mpi_module.h.
extern "C" __attribute__((visibility("default"))) const void* prenorm_mpi_functions_1() {
  return &kFunctions;
}
