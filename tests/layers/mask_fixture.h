// Masks for the tests of the layers, the same for the kernels and for the textbook: numbers added
// to the scores, some of them −∞, and a padded key; the last query sees no key.
#pragma once
#include <limits>
#include <vector>

#include "prenorm/kernels/attention.h"
#include "prenorm/reference/attention_mask.h"

namespace prenorm {

struct MaskFixture {
  std::vector<float> added;            // [T, T]
  std::vector<unsigned char> padding;  // [B, T]
  kernels::AttentionMask mask;
  reference::AttentionMask textbook;

  MaskFixture(Index batch, Index heads, Index time) {
    textbook.added = reference::Tensor<double>({time, time});
    textbook.key_padding = reference::Tensor<unsigned char>({batch, time});
    for (Index t = 0; t < time; ++t) {
      for (Index s = 0; s < time; ++s) {
        const bool blocked = t + 1 == time || (t * 5 + s * 3) % 7 == 0;
        const double number = static_cast<double>((t * 3 + s) % 5) / 4.0 - 0.5;
        textbook.added(t, s) = blocked ? -std::numeric_limits<double>::infinity() : number;
        added.push_back(static_cast<float>(textbook.added(t, s)));
      }
    }
    for (Index b = 0; b < batch; ++b) {
      for (Index s = 0; s < time; ++s) {
        textbook.key_padding(b, s) = s == time / 2 + b ? 1 : 0;
        padding.push_back(textbook.key_padding(b, s));
      }
    }
    mask.added = View<const float, 4>(added.data(), {batch, heads, time, time}, {0, 0, time, 1});
    mask.key_blocked = View<const unsigned char, 2>(padding.data(), {batch, time});
  }
  MaskFixture(const MaskFixture&) = delete;
  MaskFixture& operator=(const MaskFixture&) = delete;
};

}  // namespace prenorm
