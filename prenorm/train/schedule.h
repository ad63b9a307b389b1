// The learning rate of a step: a function of the options and the step's number alone.
#pragma once
#include "prenorm/train/options.h"

namespace prenorm {

// nanoGPT's get_lr, for step `iter` counted from 0, with w = warmup_steps(), d = decay_steps():
//
//   iter < w:      learning_rate (iter + 1) / (w + 1)
//   iter > d:      min_lr
//   else:          min_lr + c (learning_rate − min_lr),  r = (iter − w) / (d − w)
//                  cosine: c = (1 + cos π r) / 2,  linear: c = 1 − r
//
// Where w = d the rate at d is learning_rate. A constant schedule only warms up.
double learning_rate_at(const TrainOptions& options, Index iter);

}  // namespace prenorm
