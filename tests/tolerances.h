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
// The loss, summed in double over float logits: their error, averaged over tokens.
constexpr double kLossRtol = 1e-6;

// --- Values that another program recorded ---------------------------------------------------------

// A trained model's activations as PyTorch computed them in float32: both sides round, and the
// stages are of size 1 to 10.
constexpr float kRecordedStage = 2e-6f;
constexpr float kRecordedLogits = 5e-6f;  // after three blocks

// --- Samples ------------------------------------------------------------------------------------

// How many standard errors a statistic of random numbers may lie off. The numbers are a function of
// a fixed seed, so a pass stays a pass; one draw in two million would lie outside.
constexpr double kSigmas = 5.0;

}  // namespace prenorm::tolerance
