#include "prenorm/cli/bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>

#include "prenorm/base/error.h"
#include "prenorm/base/json.h"
#include "prenorm/cli/bench_profile.h"
#include "prenorm/cli/common.h"
#include "prenorm/cli/format.h"
#include "prenorm/cli/products_flags.h"
#include "prenorm/generate/benchmark.h"
#include "prenorm/kernels/attention_benchmark.h"
#include "prenorm/kernels/limits.h"
#include "prenorm/kernels/matmul_benchmark.h"
#include "prenorm/kernels/matmul_bf16.h"
#include "prenorm/layers/layer_benchmark.h"
#include "prenorm/train/benchmark.h"

namespace prenorm::cli {
namespace {

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

double megabytes(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

// Products of GPT training: rows (tokens), width in, width out.
constexpr std::array<std::array<Index, 3>, 6> kMatmulShapes = {{{1024, 768, 3072},
                                                                {1024, 3072, 768},
                                                                {1024, 768, 768},
                                                                {256, 768, 2304},
                                                                {4096, 384, 1536},
                                                                {768, 128, 512}}};

// Sequences and their length, at width 384 in 6 heads.
constexpr std::array<std::array<Index, 2>, 5> kAttentionShapes = {
    {{64, 64}, {16, 256}, {4, 1024}, {1, 4096}, {1, 16384}}};

class Bench : public Verb {
 public:
  Bench() {
    config_.block_size = 256;
    config_.n_layer = 12;
  }

  void declare(OptionTable& table) override {
    table.group("What");
    table.texts("part", parts_, "PART", "train, generate, layers, attention, matmul or limits")
        .from_positionals();
    table.real("seconds", seconds_, {0.0, 3600.0, true},
               "time to measure for (train, generate: all; matmul: each product)");
    table.group("Model (train, generate)");
    table.integer("n-layer", config_.n_layer, {1, 100000}, "Transformer blocks");
    table.integer("n-head", config_.n_head, {1, 100000}, "attention heads");
    table.integer("n-embd", config_.n_embd, {1, 1000000}, "width");
    table.integer("block-size", config_.block_size, {1, 1000000}, "context length");
    table.integer("vocab-size", config_.vocab_size, {1, 10000000}, "tokens in the vocabulary");
    table.integer("batch-size", batch_, {1, 1000000}, "sequences in a step");
    table.toggle("bias", config_.bias, "biases in linear layers and norms");
    products_.declare(table, "train: what products are computed in",
                      "train: the order of sums of products in bf16");
    table.flag("profile", profile_,
               "train: where a step's time goes, and each part's share of its limit");
    table.group("Generation");
    table.integer("prompt-tokens", load_.prompt_tokens, {1, 1000000}, "tokens of each prompt");
    table.integer("tokens", load_.tokens, {1, 1000000}, "tokens generated after it");
    table.integer("sequences", load_.sequences, {1, 100000}, "sequences computed together");
    table.choice("weights", weights_, {"f32", "bf16"}, "how the weights are kept in memory");
    common_.declare_machine(table);
    table.group("Output");
    common_.declare_output(table, "print one JSON object");
  }

  int run(const OptionTable& table, const Streams& streams) override {
    if (parts_.size() != 1) throw ConfigError(expected_part("none or several"));
    const Runtime run(common_.runtime());
    if (parts_[0] == "train") return train(run, streams);
    if (parts_[0] == "generate") return generate(table, run, streams);
    if (parts_[0] == "layers") return layers(run, streams);
    if (parts_[0] == "attention") return attention(run, streams);
    if (parts_[0] == "matmul") return matmul(run, streams);
    if (parts_[0] == "limits") return limits(run, streams);
    throw ConfigError(expected_part("'" + parts_[0] + "'"));
  }

 private:
  static std::string expected_part(const std::string& found) {
    return "bench: expected one of train, generate, layers, attention, matmul, limits, found " +
           found;
  }

  int train(const Runtime& run, const Streams& streams) const {
    config_.validate();
    Profile profile;
    const Products dtype = products_.float32()
                               ? Products::kFloat32
                               : products_.order().value_or(fastest_bf16_products(run.isa()));
    const StepTimes times =
        time_training_steps(run, config_, batch_, seconds_, dtype, profile_ ? &profile : nullptr);
    const double memory = peak_rss_mb();  // before the yardsticks take their own
    const double fma_peak = kernels::measure_fma_peak(run);
    const double peak = dtype == Products::kFloat32
                            ? fma_peak
                            : std::max(fma_peak, kernels::measure_bf16_peak(run, dtype));
    const ProfileLimits limits{.products = peak, .attention = fma_peak};
    const double rate = times.flops / times.min() / 1e9;
    const double tokens = static_cast<double>(times.tokens) / times.min();
    if (common_.json) {
      Json result = {{"step_ms_min", times.min() * 1e3},
                     {"step_ms_median", times.median() * 1e3},
                     {"tokens_per_second", tokens},
                     {"gflop_per_step", times.flops / 1e9},
                     {"gflops_per_second", rate},
                     {"peak_gflops_per_second", peak},
                     {"steps", times.seconds.size()},
                     {"peak_rss_mb", memory},
                     {"planned_mb", megabytes(times.planned_bytes)},
                     {"threads", run.threads()},
                     {"isa", isa_name(run.isa())},
                     {"dtype", to_string(dtype)}};
      if (dtype != Products::kFloat32) {
        result["bf16_unit"] = bf16_unit_name(bf16_unit(run.isa(), dtype));
      }
      if (profile_) result["profile"] = profile_json(run, profile, times, limits);
      streams.out.write(dump_json_compact(result) + "\n");
      return kDone;
    }
    streams.out.print("step        {:.2f} ms best, {:.2f} ms median of {}\n", times.min() * 1e3,
                      times.median() * 1e3, times.seconds.size());
    streams.out.print("speed       {} tokens/s, {:.1f} GFLOP/s, {:.0f} % of the peak\n",
                      grouped(static_cast<Index>(tokens)), rate, 100.0 * rate / peak);
    if (profile_) print_profile(run, profile, times, limits, streams);
    streams.out.print("memory      {:.0f} MB at most, {:.0f} MB planned\n", memory,
                      megabytes(times.planned_bytes));
    if (dtype != Products::kFloat32) {
      streams.out.print("products    {}, by {}\n", to_string(dtype),
                        bf16_unit_name(bf16_unit(run.isa(), dtype)));
    }
    streams.out.print("machine     {} threads, {}\n", run.threads(), isa_name(run.isa()));
    return kDone;
  }

  int generate(const OptionTable& table, const Runtime& run, const Streams& streams) {
    const Index context = load_.prompt_tokens + load_.tokens;
    if (!table.given("block-size")) config_.block_size = std::max<Index>(1024, context);
    config_.validate();
    if (weights_ == "bf16") load_.format = kernels::WeightFormat::kBfloat16;
    const GenerationTimes times = time_generation(run, config_, load_, seconds_);
    const double memory = peak_rss_mb();
    const double peak = kernels::measure_fma_peak(run);
    const double bandwidth = kernels::measure_read_bandwidth(run);
    const auto sequences = static_cast<double>(load_.sequences);
    const double prompt =
        sequences * static_cast<double>(load_.prompt_tokens) / times.prompt_seconds;
    const double decode = sequences * static_cast<double>(load_.tokens) / times.decode_seconds;
    const double rate = times.prompt_flops / times.prompt_seconds / 1e9;
    const double steps = static_cast<double>(load_.tokens) / times.decode_seconds;
    const double reading = static_cast<double>(times.weight_bytes) * steps / 1e9;
    if (common_.json) {
      streams.out.write(dump_json_compact({{"prompt_tokens_per_second", prompt},
                                           {"decode_tokens_per_second", decode},
                                           {"decode_step_ms_median", times.step_seconds * 1e3},
                                           {"prompt_gflops_per_second", rate},
                                           {"peak_gflops_per_second", peak},
                                           {"weights_gb_per_second", reading},
                                           {"read_gb_per_second", bandwidth},
                                           {"peak_rss_mb", memory},
                                           {"threads", run.threads()},
                                           {"isa", isa_name(run.isa())}}) +
                        "\n");
      return kDone;
    }
    streams.out.print("prompts     {} tokens/s, {:.1f} GFLOP/s, {:.0f} % of the peak\n",
                      grouped(static_cast<Index>(prompt)), rate, 100.0 * rate / peak);
    streams.out.print(
        "decoding    {:.1f} tokens/s, {:.2f} ms a step, weights at {:.1f} of {:.1f} GB/s\n", decode,
        times.step_seconds * 1e3, reading, bandwidth);
    streams.out.print("memory      {:.0f} MB at most\n", memory);
    streams.out.print("machine     {} threads, {}\n", run.threads(), isa_name(run.isa()));
    return kDone;
  }

  int layers(const Runtime& run, const Streams& streams) const {
    const auto times = time_layers(run, seconds_);
    const double peak = kernels::measure_fma_peak(run);
    const double bandwidth = kernels::measure_read_bandwidth(run);
    if (!common_.json) {
      streams.out.print("{:30} {:>16} {:>10} {:>9} {:>9}\n", "layer", "input", "ms", "of peak",
                        "of memory");
    }
    for (const LayerTime& time : times) {
      const double gflops = time.flops / time.seconds / 1e9;
      const double gigabytes = time.bytes / time.seconds / 1e9;
      if (common_.json) {
        streams.out.write(dump_json_compact({{"layer", time.name},
                                             {"input", time.x},
                                             {"ms", time.seconds * 1e3},
                                             {"gflops_per_second", gflops},
                                             {"gb_per_second", gigabytes},
                                             {"peak_gflops_per_second", peak},
                                             {"read_gb_per_second", bandwidth}}) +
                          "\n");
        continue;
      }
      streams.out.print("{:30} {:>16} {:>10.3f} {:>7.1f} % {:>7.1f} %\n", time.name,
                        fmt::format("{}", fmt::join(time.x, " × ")), time.seconds * 1e3,
                        100.0 * gflops / peak, 100.0 * gigabytes / bandwidth);
    }
    return kDone;
  }

  int attention(const Runtime& run, const Streams& streams) const {
    const double peak = kernels::measure_fma_peak(run);
    if (!common_.json) {
      streams.out.print("{:>6} {:>6} {:>6} {:>12} {:>12} {:>14} {:>11}\n", "batch", "time", "width",
                        "forward, ms", "backward, ms", "both, of peak", "memory, MB");
    }
    for (const auto& [batch, time] : kAttentionShapes) {
      kernels::AttentionShape shape;
      shape.batch = batch;
      shape.time = time;
      shape.heads = 6;
      shape.head_width = 64;
      shape.scale = 1.0 / 8.0;
      const auto times =
          kernels::time_attention(shape, run, seconds_ / double{kAttentionShapes.size()});
      const double rate =
          (times.forward_flops + times.backward_flops) / (times.forward + times.backward) / 1e9;
      if (common_.json) {
        streams.out.write(dump_json_compact({{"batch", batch},
                                             {"time", time},
                                             {"width", shape.width()},
                                             {"forward_ms", times.forward * 1e3},
                                             {"backward_ms", times.backward * 1e3},
                                             {"gflops_per_second", rate},
                                             {"peak_gflops_per_second", peak},
                                             {"scratch_mb", megabytes(times.scratch_bytes)}}) +
                          "\n");
      } else {
        streams.out.print("{:>6} {:>6} {:>6} {:>12.2f} {:>12.2f} {:>12.1f} % {:>11.1f}\n", batch,
                          time, shape.width(), times.forward * 1e3, times.backward * 1e3,
                          100.0 * rate / peak, megabytes(times.scratch_bytes));
      }
      streams.out.flush();
    }
    return kDone;
  }

  int matmul(const Runtime& run, const Streams& streams) const {
    const double each = seconds_ / (3.0 * kMatmulShapes.size());
    std::array<kernels::MatmulTimes, kMatmulShapes.size()> times;
    // The peak again beside each shape, since a shared machine's speed drifts: the best counts.
    double peak = kernels::measure_fma_peak(run);
    for (std::size_t i = 0; i < times.size(); ++i) {
      const auto& [m, k, n] = kMatmulShapes[i];
      times[i] = kernels::time_matmul(run, m, k, n, each);
      peak = std::max(peak, kernels::measure_fma_peak(run));
    }
    if (!common_.json) {
      streams.out.print(
          "% of the FMA peak, {:.1f} GFLOP/s with {} threads, {}; best of each\n"
          "{:>6} {:>6} {:>6} {:>9} {:>9} {:>9}\n",
          peak, run.threads(), isa_name(run.isa()), "M", "K", "N", "forward", "dX", "dW");
    }
    for (std::size_t i = 0; i < times.size(); ++i) {
      const auto share = [&](double s) { return times[i].flops / s / 1e9 / peak; };
      print_shape(kMatmulShapes[i], share(times[i].forward), share(times[i].dx),
                  share(times[i].dweight), streams);
    }
    return kDone;
  }

  void print_shape(const std::array<Index, 3>& shape, double forward, double dx, double dweight,
                   const Streams& streams) const {
    const auto& [m, k, n] = shape;
    if (common_.json) {
      streams.out.write(dump_json_compact({{"m", m},
                                           {"k", k},
                                           {"n", n},
                                           {"forward", forward},
                                           {"dx", dx},
                                           {"dweight", dweight}}) +
                        "\n");
    } else {
      streams.out.print("{:>6} {:>6} {:>6} {:>8.1f}% {:>8.1f}% {:>8.1f}%\n", m, k, n, 100 * forward,
                        100 * dx, 100 * dweight);
    }
  }

  int limits(const Runtime& run, const Streams& streams) const {
    const double peak = kernels::measure_fma_peak(run, seconds_ / 2);
    const double bandwidth = kernels::measure_read_bandwidth(run);
    const double hand_over = kernels::measure_hand_over(run);
    if (common_.json) {
      streams.out.write(dump_json_compact({{"fma_gflops_per_second", peak},
                                           {"read_gb_per_second", bandwidth},
                                           {"hand_over_us", hand_over},
                                           {"threads", run.threads()},
                                           {"isa", isa_name(run.isa())}}) +
                        "\n");
      return kDone;
    }
    streams.out.print(
        "fused multiply-add  {:.1f} GFLOP/s, float32\nreading memory      {:.1f} GB/s\n"
        "handing over work   {:.2f} µs\n"
        "machine             {} threads, {}\n",
        peak, bandwidth, hand_over, run.threads(), isa_name(run.isa()));
    return kDone;
  }

  GptConfig config_;
  std::vector<std::string> parts_;
  GenerationLoad load_;
  std::string weights_ = "f32";
  ProductsFlags products_;
  bool profile_ = false;
  Index batch_ = 4;
  double seconds_ = 10.0;
  CommonFlags common_;
};

}  // namespace

std::unique_ptr<Verb> make_bench() { return std::make_unique<Bench>(); }

}  // namespace prenorm::cli
