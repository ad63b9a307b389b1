#include "prenorm/cli/rank_session.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "prenorm/base/error.h"
#include "prenorm/cli/failure.h"
#include "prenorm/cli/format.h"
#include "prenorm/cli/interrupt.h"
#include "prenorm/cli/message.h"
#include "prenorm/train/options_fields.h"
#include "prenorm/train/state.h"
#include "prenorm/train/step_pieces.h"

namespace prenorm::cli {
namespace {

// Where the module stands, from the program: beside it in a build, in lib/prenorm installed.
constexpr std::array kModuleFolders = {"", PRENORM_MODULE_FOLDER};

const MpiFunctions* load_module(int ranks) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  std::string why = "a build without it";
  for (const char* folder : kModuleFolders) {
    const std::filesystem::path path = program / folder / kMpiModuleName;
    if (!std::filesystem::exists(path, error)) continue;
    // Global: MPI loads parts of itself that look for its symbols.
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    void* found = module == nullptr ? nullptr : dlsym(module, kMpiModuleFunction);
    if (found == nullptr) {
      why = dlerror();
      continue;
    }
    return static_cast<const MpiFunctions*>(reinterpret_cast<const void* (*)()>(found)());
  }
  throw ConfigError(fmt::format(
      "mpirun: expected a prenorm with MPI ({}) for {} ranks, found {}; build with Open MPI "
      "installed, or start one process",
      kMpiModuleName, ranks, why));
}

void print_error(const std::string& message) {
  Output log(STDERR_FILENO, "standard error", Output::OnFailure::kIgnore);
  log.write(error_lines(message));
  log.flush();
}

Output open_nowhere() {
  static const int descriptor = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  return Output(descriptor, "nothing", Output::OnFailure::kIgnore);
}

std::vector<std::size_t> one_each(const Ranks& ranks, std::size_t count) {
  return std::vector<std::size_t>(static_cast<std::size_t>(ranks.size()), count);
}

// Which cores this process may use, 32 to a number, after a number that tells machines apart.
std::vector<double> own_cores() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::vector<double> out = {
      static_cast<double>(std::hash<std::string>()(host.data()) & 0xFFFFFFFFu)};
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  for (int first = 0; first < CPU_SETSIZE; first += 32) {
    std::uint32_t bits = 0;
    for (int i = 0; i < 32; ++i) bits |= std::uint32_t{CPU_ISSET(first + i, &set) != 0} << i;
    out.push_back(bits);
  }
  return out;
}

}  // namespace

std::optional<int> launched_ranks(const std::function<const char*(const char*)>& get) {
  const auto number = [&](const char* name) -> std::optional<int> {
    const char* text = get(name);
    if (text == nullptr) return std::nullopt;
    const int value = std::atoi(text);
    return value > 0 ? std::optional(value) : std::nullopt;
  };
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const auto size = number(name)) return size;
  }
  // srun --mpi=pmix tells the rank, and Slurm how many there are.
  if (get("PMIX_RANK") != nullptr) return number("SLURM_STEP_NUM_TASKS");
  return std::nullopt;
}

int threads_for_rank(int cores, int sharing) { return std::max(1, cores / std::max(1, sharing)); }

std::unique_ptr<RankSession> RankSession::open(double timeout_seconds) {
  const std::optional<int> ranks = launched_ranks([](const char* name) { return getenv(name); });
  if (!ranks || *ranks == 1) return nullptr;
  return std::make_unique<RankSession>(*load_module(*ranks), timeout_seconds);
}

// The first rank that blames another ends all, by SIGTERM at first: what the others then find, that
// the first does not answer, is not the reason.
RankSession::RankSession(const MpiFunctions& functions, double timeout_seconds)
    : ranks_(functions, {.timeout_seconds = timeout_seconds,
                         .on_stall =
                             [](const std::string& line) {
                               if (!asked_to_end()) print_error(line);
                             }}),
      nowhere_(open_nowhere()) {}

void RankSession::tell(const std::string& message) const {
  print_error(first() ? message : fmt::format("rank {}: {}", ranks_.rank(), message));
}

Streams RankSession::streams(const Streams& program) {
  return first() ? program : Streams{nowhere_, nowhere_};
}

int RankSession::threads() {
  const std::vector<double> own = own_cores();
  const std::vector<double> all = exchange(ranks_, own, one_each(ranks_, own.size()));
  int cores = 0, sharing = 0;
  for (std::size_t i = 1; i < own.size(); ++i) {
    cores += std::popcount(static_cast<std::uint32_t>(own[i]));
  }
  for (std::size_t at = 0; at < all.size(); at += own.size()) {
    bool same = false;
    for (std::size_t i = 1; i < own.size() && all[at] == own[0]; ++i) {
      same |= (static_cast<std::uint32_t>(own[i]) & static_cast<std::uint32_t>(all[at + i])) != 0;
    }
    sharing += same ? 1 : 0;
  }
  return threads_for_rank(cores, sharing);
}

void RankSession::together(const std::function<void()>& body) {
  Failure failure;
  double code = 0;
  try {
    body();
  } catch (...) {
    failure = current_failure();
    // A failure without a code of its own (a closed pipe) still is one.
    code = std::max(1, failure.code);
  }
  const auto codes = exchange(ranks_, {&code, 1}, one_each(ranks_, 1));
  const auto worst = std::ranges::find_if(codes, [](double c) { return c != 0; });
  if (worst == codes.end()) return;
  // Told here: the launcher ends all as soon as one of the others is gone.
  if (worst - codes.begin() == ranks_.rank() && !failure.message.empty()) tell(failure.message);
  throw Ended{static_cast<int>(*worst)};
}

void RankSession::until_the_end(const std::function<void()>& body) {
  try {
    body();
  } catch (const NumericalError& error) {
    if (first()) tell(error.what());
    throw Ended{kNumerical};
  } catch (...) {
    const Failure failure = current_failure();
    if (!failure.message.empty()) tell(failure.message);
    ranks_.abort(std::max(1, failure.code));
  }
}

void RankSession::require_same(std::uint64_t number, const char* what) {
  const std::array<double, 2> own = {static_cast<double>(number >> 32),
                                     static_cast<double>(number & 0xFFFFFFFFu)};
  const auto all = exchange(ranks_, own, one_each(ranks_, own.size()));
  for (std::size_t at = 0; at < all.size(); at += own.size()) {
    if (all[at] == all[0] && all[at + 1] == all[1]) continue;
    throw IoError(
        fmt::format("rank {}: expected the same {} as rank 0, found others; all ranks "
                    "need the same files, flags and run folder",
                    at / own.size(), what));
  }
}

void RankSession::require_same(const Trainer& trainer) {
  together([&] { require_same(fingerprint(trainer.data()), "text"); });
  together([&] { require_same(weights_fingerprint(trainer.model().parameters()), "weights"); });
  together([&] {
    require_same(static_cast<std::uint64_t>(trainer.position().iter), "step to go on from");
  });
  together([&] {
    std::uint64_t flags = 0;
    visit_train_options(trainer.options(), [&](const char*, const auto& field, OnResume) {
      using Field = std::decay_t<decltype(field)>;
      double number = -1.0;
      if constexpr (std::is_arithmetic_v<Field> || std::is_enum_v<Field>) {
        number = static_cast<double>(field);
      } else if (field) {
        number = static_cast<double>(*field);
      }
      flags = (flags ^ std::bit_cast<std::uint64_t>(number)) * 0x9E3779B97F4A7C15u;
    });
    require_same(flags, "flags");
  });
}

void RankSession::share(TrainingPlan& plan) const {
  const int ranks = ranks_.size();
  plan.seconds_per_step /= ranks;
  plan.seconds /= ranks;
  plan.memory.moments /= static_cast<std::size_t>(ranks);
}

void RankSession::tell_plan(const Gpt& model, const TrainOptions& options,
                            const Streams& streams) const {
  const StepPieces pieces(options.batch_size, options.gradient_accumulation_steps,
                          model.config().block_size, ranks_.size());
  streams.log.print("ranks   {}, a step in {} pieces; moments of {} parameters on each\n",
                    ranks_.size(), pieces.list().size(),
                    grouped(model.parameters().total_size() / ranks_.size()));
  if (const auto notice = pieces.notice()) streams.log.print("notice: {}\n", *notice);
  if (options.watch)
    streams.log.print("notice: --watch records nothing: it needs one rank alone\n");
}

int RankSession::largest(int number) {
  const double own = number;
  const auto all = exchange(ranks_, {&own, 1}, one_each(ranks_, 1));
  return static_cast<int>(*std::ranges::max_element(all));
}

}  // namespace prenorm::cli
