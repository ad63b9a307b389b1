// The one table of the tests' tolerances: what each number is and why it is as large as it is. A
// test compares with one of these or with equality, so that loosening one is seen here.
#pragma once

namespace prenorm::tolerance {

// --- Proofs of gradients ------------------------------------------------------------------------

// ⟨dy, J v⟩ against ⟨Jᵀ dy, v⟩, relative to the sum of the sizes of their terms. The textbook in
// double: a few thousand roundings of 2⁻⁵³.
constexpr double kAdjointDouble = 1e-12;
// Kernels on floats: each gradient carries roundings of 2⁻²⁴ = 6e-8, and they average out over the
// terms. A missing term or a wrong sign is a thousand times larger.
constexpr double kAdjointFloat = 1e-6;
// A check must tell a planted bug from the rounding of floats, so it must exceed this.
constexpr double kPlantedBug = kAdjointFloat;

// --- Values against the textbook or a formula in double -----------------------------------------

// |got − want| <= atol + rtol |want|: torch.testing.assert_close's defaults for float32.
constexpr double kFloatRtol = 1.3e-6;
constexpr double kFloatAtol = 1e-5;
// ‖got − want‖ / ‖want‖ of a kernel's float result: a dozen roundings of 2⁻²⁴ in a row.
constexpr double kFloatNorm = 1e-6;
// The same for dq and dk of attention, whose score gradients p (dp − Σ p dp) cancel: the more keys
// a query sees, the more digits go.
constexpr double kMaskedScoreGradientNorm = 2e-6;
// ‖got − want‖ / ‖want‖ of a gradient through several float layers: what is asked beside PyTorch.
constexpr double kFloatGradientNorm = 1e-5;
// The loss, summed in double over float logits: their error, averaged over tokens.
constexpr double kLossRtol = 1e-6;
// Losses and gradient norms of a tiny model after a few steps, gradients summed in another order.
constexpr double kOtherSumOrder = 1e-5;
// Means and sums in double of the same numbers in another order.
constexpr double kDoubleSum = 1e-12;
// The same formula in double written in two ways, on numbers of order one.
constexpr double kDoubleFormula = 1e-15;
// A central difference with a step of 1e-6 in double: the step squared times a third derivative of
// about ten, and 1e-16 / 1e-6 of rounding.
constexpr double kCentralDifference = 1e-8;
// Against sums of a thousand numbers recorded from another implementation in double.
constexpr double kRecordedDouble = 1e-9;

// --- Accuracy of the kernels, in units in the last place of a float ------------------------------

constexpr double kExpUlps = 1.0;
constexpr double kTanhUlps = 2.0;
constexpr double kErfUlps = 2.0;
constexpr double kActivationUlps = 4.0;
// The slope of a GELU in the far negative tail, where it is a difference of two products.
constexpr double kActivationSlopeTailUlps = 16.0;
// The slope near its zeros, absolute: it is of order one, and so a few times 2⁻²⁴.
constexpr double kActivationSlope = 3e-7;
constexpr double kSoftmaxUlps = 8.0;  // at 50,257 classes
constexpr double kCrossEntropyGradientUlps = 4.0;
// Normalised in double and rounded once: half an ulp, and what the double's error adds.
constexpr double kLayerNormUlps = 0.501;
// The same where one element of 100,003 is a million times the others.
constexpr double kLayerNormOutlierUlps = 1.0;
// The gradient of a row of two is eps / (variance + eps) of its terms, which cancel in double: of
// the terms' norm.
constexpr double kLayerNormCancellation = 1e-14;

// --- Accuracy of the portable functions, in units in the last place of a double ------------------

constexpr double kPortableUlps = 1.0;
constexpr double kPortableLog1pUlps = 3.0;

// --- Samples and measurements -------------------------------------------------------------------

// How many standard errors a statistic of random numbers may lie off. The numbers are a function of
// a fixed seed, so a pass stays a pass; one draw in two million would lie outside.
constexpr double kSigmas = 5.0;
// The gain of one random matrix of width 128 on 32 random rows, relative; of what comes back
// through several of them, and of a stream that they make together.
constexpr double kRandomGain = 0.1;
constexpr double kRandomGradient = 0.3;
// The size of a normalised row: √(σ² / (σ² + ε)) with a variance of the order of 1.
constexpr double kUnitSize = 1e-3;
// The planned peak memory against the measured one, relative.
constexpr double kPlannedMemory = 0.1;

// --- A trained model's activations as PyTorch recorded them in float32 ---------------------------

// Both sides round, and the stages are of size 1 to 10.
constexpr float kRecordedStage = 2e-6f;
constexpr float kRecordedLogits = 5e-6f;  // after three blocks

// --- Products in bfloat16 ------------------------------------------------------------------------

// Of a fresh model against products in float32: a number keeps 8 bits, so that a product is off by
// up to 2^-8, and sums of many by less. Relative; of the gradient, its norm.
constexpr double kBfloat16Loss = 1e-3;
constexpr double kBfloat16Gradient = 2e-2;

// --- What case files leave open ------------------------------------------------------------------

// The step on which the largest gap between two forms of GELU is sought, and how far two such
// searches may lie apart: the gap is flat at its top.
constexpr double kGapGrid = 1e-5;
constexpr double kGapPlace = 2e-5;
// Differences of a small model's logits, as the cases' own tolerance of logits.
constexpr double kCaseLogits = 2e-5;
// Gradients of a batch in one piece and in several.
constexpr double kMicroBatchGradient = 1e-6;

}  // namespace prenorm::tolerance
