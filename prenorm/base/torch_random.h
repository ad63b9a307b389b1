// PyTorch's random numbers on a CPU: the stream of torch.manual_seed(), as far as an initialisation
// draws from it.
//
//   TorchGenerator generator(1337);          // torch.manual_seed(1337)
//   generator.skip_uniform(weight.size());   // weight.uniform_(…), overwritten later
//   generator.normal(0.02, values);          // weight.normal_(0, 0.02)
//
// The values are those of PyTorch 2.13 on x86-64 with AVX2 to the bit, and the same on every
// machine. (PyTorch's own differ between machines: without AVX2 it computes the same stream by the
// C library's functions, which moves a number by up to 3e-6 standard deviations.)
#pragma once
#include <cstdint>
#include <optional>
#include <random>
#include <span>

namespace prenorm {

class TorchGenerator {
 public:
  // torch.manual_seed(seed). PyTorch's engine takes the low 32 bits of a seed.
  explicit TorchGenerator(std::uint64_t seed)
      : engine_(static_cast<std::mt19937::result_type>(seed & 0xffffffffu)) {}

  // Passes over what uniform_() draws for a float32 tensor of `count` elements.
  void skip_uniform(std::uint64_t count) { engine_.discard(count); }

  // normal_(0, deviation) of a contiguous float32 tensor, in the order of its memory.
  void normal(double deviation, std::span<float> out);
  // Passes over what normal_() draws for a tensor of `count` elements.
  void skip_normal(std::uint64_t count);

 private:
  float uniform_float();
  double uniform_double();
  double one_normal();
  void fill_uniform(std::span<float> out);

  std::mt19937 engine_;
  // The second of a pair of normal numbers, kept for the next tensor of fewer than 16 elements.
  std::optional<double> next_normal_;
};

}  // namespace prenorm
