// What the kernels' tests share: random matrices, bit comparison, and every target that the machine
// can run with several thread counts.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <iostream>
#include <random>
#include <vector>

#include "prenorm/kernels/isa.h"
#include "prenorm/kernels/runtime.h"
#include "prenorm/tensor/view.h"

namespace prenorm {

// An owned matrix with `gap` unused columns after each row, so that row strides are tested.
struct TestMatrix {
  Index rows, columns, stride;
  std::vector<float> data;

  TestMatrix(Index r, Index c, Index gap = 0)
      : rows(r), columns(c), stride(c + gap), data(static_cast<std::size_t>(r * stride), 0.0f) {}
  static TestMatrix random(Index r, Index c, unsigned seed, Index gap = 0, float size = 1.0f) {
    TestMatrix m(r, c, gap);
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> u(-size, size);
    for (float& x : m.data) x = u(generator);
    return m;
  }
  Matrix view() { return Matrix(data.data(), {rows, columns}, {stride, 1}); }
  ConstMatrix view() const { return ConstMatrix(data.data(), {rows, columns}, {stride, 1}); }
  float& at(Index r, Index c) { return data[static_cast<std::size_t>(r * stride + c)]; }
  float at(Index r, Index c) const { return data[static_cast<std::size_t>(r * stride + c)]; }
};

inline TestMatrix transposed(const TestMatrix& a, Index gap = 0) {
  TestMatrix t(a.columns, a.rows, gap);
  for (Index r = 0; r < a.rows; ++r) {
    for (Index c = 0; c < a.columns; ++c) t.at(c, r) = a.at(r, c);
  }
  return t;
}

// The same bits in every element of the matrix (the gaps do not count).
inline bool same_bits(const TestMatrix& a, const TestMatrix& b) {
  if (a.rows != b.rows || a.columns != b.columns) return false;
  for (Index r = 0; r < a.rows; ++r) {
    if (std::memcmp(a.view()[r].data(), b.view()[r].data(),
                    static_cast<std::size_t>(a.columns) * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

// Calls body(run) for every target here with 1, 2, 3 and 8 threads.
inline void on_every_runtime(const std::function<void(const Runtime&)>& body) {
  for (Isa isa : supported_isas()) {
    for (int threads : {1, 2, 3, 8}) {
      SCOPED_TRACE(std::string(isa_name(isa)) + ", threads " + std::to_string(threads));
      Runtime::Options options;
      options.threads = threads;
      options.isa = isa_name(isa);
      const Runtime run(options);
      body(run);
    }
    std::cout << "ran on " << isa_name(isa) << "\n";
  }
}

}  // namespace prenorm
