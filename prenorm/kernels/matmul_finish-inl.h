// The epilogues of the matrix products: what happens to sums while they are in cache. Per-target
// include.
#if defined(PRENORM_KERNELS_MATMUL_FINISH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PRENORM_KERNELS_MATMUL_FINISH_INL_H
#undef PRENORM_KERNELS_MATMUL_FINISH_INL_H
#else
#define PRENORM_KERNELS_MATMUL_FINISH_INL_H
#endif

#include <algorithm>

#include "prenorm/kernels/activation-inl.h"
#include "prenorm/kernels/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace prenorm::kernels::HWY_NAMESPACE {
#if PRENORM_FMA_TARGET

// What is done with a vector of sums of row m, columns from n, besides storing it: one function for
// each kind, so that a loop over sums holds the constants of its own alone.
struct Store {
  HWY_INLINE VF operator()(VF sum, Index, Index) const { return sum; }
};
struct AddResidual {
  ConstMatrix residual;
  HWY_INLINE VF operator()(VF sum, Index m, Index n) const {
    return hn::Add(hn::LoadU(DF(), residual[m].data() + n), sum);
  }
};
template <Activation kAct>
struct Activate {
  Matrix to;
  HWY_INLINE VF operator()(VF sum, Index m, Index n) const {
    hn::StoreU(activate<kAct>(sum), DF(), to[m].data() + n);
    return sum;
  }
};
template <Activation kAct>
struct TimesSlope {
  ConstMatrix input;
  HWY_INLINE VF operator()(VF sum, Index m, Index n) const {
    return hn::Mul(sum, activate_grad<kAct>(hn::LoadU(DF(), input[m].data() + n)));
  }
};
template <Activation kAct>
struct TimesSlopeActivating {
  ConstMatrix input;
  Matrix to;
  HWY_INLINE VF operator()(VF sum, Index m, Index n) const {
    const VF x = hn::LoadU(DF(), input[m].data() + n);
    hn::StoreU(activate<kAct>(x), DF(), to[m].data() + n);
    return hn::Mul(sum, activate_grad<kAct>(x));
  }
};

inline bool does_more_than_store(const Epilogue& e) {
  return e.residual || e.activated || e.activation_input;
}

template <Activation kAct, typename Use>
HWY_INLINE void with_activation(const Epilogue& e, const Use& use) {
  if (!e.activation_input) return use(Activate<kAct>{e.activated});
  if (!e.activated) return use(TimesSlope<kAct>{e.activation_input});
  use(TimesSlopeActivating<kAct>{e.activation_input, e.activated});
}

// Calls use(then) with the epilogue's kind.
template <typename Use>
HWY_INLINE void with_epilogue(const Epilogue& e, const Use& use) {
  if (e.residual) return use(AddResidual{e.residual});
  if (!does_more_than_store(e)) return use(Store());
  switch (e.activation) {
    case Activation::kRelu:
      return with_activation<Activation::kRelu>(e, use);
    case Activation::kGelu:
      return with_activation<Activation::kGelu>(e, use);
    case Activation::kGeluTanh:
      return with_activation<Activation::kGeluTanh>(e, use);
  }
}

// The epilogue of `count` sums in c, fewer than a vector, through padded copies.
inline void finish_part(const Epilogue& e, Index m, Index n, Index count, float* c) {
  alignas(64) float sum[kFloatLanes] = {}, operand[kFloatLanes] = {}, out[kFloatLanes] = {};
  std::copy_n(c, count, sum);
  Epilogue part = e;
  const auto copy = [&](ConstMatrix& x) {
    if (!x) return;
    std::copy_n(x[m].data() + n, count, operand);
    x = ConstMatrix(operand, {1, kFloatLanes});
  };
  copy(part.residual);
  copy(part.activation_input);
  if (e.activated) part.activated = Matrix(out, {1, kFloatLanes});
  with_epilogue(part, [&](const auto& then) PRENORM_INLINED {
    hn::Store(then(hn::Load(DF(), sum), 0, 0), DF(), sum);
  });
  if (e.activated) std::copy_n(out, count, e.activated[m].data() + n);
  std::copy_n(sum, count, c);
}

// The epilogue of rows from m and columns from n of sums that stand in c.
HWY_INLINE void finish_rows(const Epilogue& e, Index m, Index n, Index rows, Index columns,
                            float* c, Index c_row) {
  const DF d;
  const Index whole = columns / kFloatLanes * kFloatLanes;
  with_epilogue(e, [&](const auto& then) PRENORM_INLINED {
    for (Index i = 0; i < rows; ++i) {
      float* row = c + i * c_row;
      for (Index j = 0; j < whole; j += kFloatLanes) {
        hn::StoreU(then(hn::LoadU(d, row + j), m + i, n + j), d, row + j);
      }
    }
  });
  if (whole == columns) return;
  for (Index i = 0; i < rows; ++i) {
    finish_part(e, m + i, n + whole, columns - whole, c + i * c_row + whole);
  }
}

#endif  // PRENORM_FMA_TARGET
}  // namespace prenorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
