// The random words of philox.h, many at a time. Per-target include.
//
//   philox_words(key, block, blocks, words);    // words of elements 4 * block and on
#if defined(PRENORM_KERNELS_PHILOX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_PHILOX_INL_H
#undef PRENORM_KERNELS_PHILOX_INL_H
#else
#define PRENORM_KERNELS_PHILOX_INL_H
#endif

#include "prenorm/base/philox.h"
#include "prenorm/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET

using DU64 = hn::RebindToUnsigned<DD>;
using DU32 = hn::Repartition<std::uint32_t, DU64>;
using VU64 = hn::Vec<DU64>;

// philox_words writes whole vectors: up to this many blocks more than asked for.
constexpr Index kPhiloxSlack = kDoubleLanes - 1;

// words[4 i + j] = random_word(key, 4 (block + i) + j) for i in [0, blocks).
// Overwrites 4 * (blocks + kPhiloxSlack) words at most.
//
// A 64-bit lane holds one counter's 32-bit word. Its upper half may hold anything: the widening
// multiplication reads the lower half only, and the end cuts the rest off.
inline void philox_words(PhiloxKey key, std::uint64_t block, Index blocks, std::uint32_t* words) {
  const DU64 d;
  const DU32 d32;
  // Even lanes count the vector's first blocks and odd lanes the later ones, which is the order
  // in which the interleaving below leaves them.
  HWY_ALIGN std::uint64_t order[kDoubleLanes];
  for (Index lane = 0; lane < kDoubleLanes; ++lane) {
    order[lane] = static_cast<std::uint64_t>(lane / 2 + (lane % 2) * (kDoubleLanes / 2));
  }
  const VU64 lanes = hn::Load(d, order);
  const VU64 multiplier0 = hn::Set(d, 0xD2511F53u), multiplier1 = hn::Set(d, 0xCD9E8D57u);
  const VU64 low_half = hn::Set(d, 0xffffffffu);
  const auto multiply = [&](const VU64& a, const VU64& b) HWY_ATTR {
    return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b));
  };
  for (Index i = 0; i < blocks; i += kDoubleLanes) {
    const VU64 at = hn::Add(hn::Set(d, block + static_cast<std::uint64_t>(i)), lanes);
    VU64 c0 = at, c1 = hn::ShiftRight<32>(at), c2 = hn::Zero(d), c3 = hn::Zero(d);
    std::uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; ++round) {
      const VU64 a = multiply(c0, multiplier0), b = multiply(c2, multiplier1);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c1), hn::Set(d, k0));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c3), hn::Set(d, k1));
      c1 = b;
      c3 = a;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const VU64 w01 = hn::Or(hn::And(c0, low_half), hn::ShiftLeft<32>(c1));
    const VU64 w23 = hn::Or(hn::And(c2, low_half), hn::ShiftLeft<32>(c3));
    const auto first = hn::BitCast(d32, hn::InterleaveLower(d, w01, w23));
    const auto second = hn::BitCast(d32, hn::InterleaveUpper(d, w01, w23));
    hn::StoreU(first, d32, words + 4 * i);
    hn::StoreU(second, d32, words + 4 * i + 2 * kDoubleLanes);
  }
}

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
