#pragma once

#include "engine/ops/batchnorm2d.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

// Note [Batch norm over ranks]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// With parallel.sync_batchnorm a batch norm in training goes by the micro-batch of all ranks, as PyTorch's
// SyncBatchNorm does. What is one op in one process is then some, with a sum over ranks between them:
//
//   forward    batchnorm2d_sums                x → sums
//              all_reduce                      sums
//              batchnorm2d_statistics          sums → mean, rstd; running statistics
//              batchnorm2d_normalize           x, mean, rstd → y
//   backward   batchnorm2d_gradient_sums       dy, x, mean, rstd → sums, dweight, dbias
//              all_reduce                      sums
//              batchnorm2d_normalize_backward  dy, x, mean, rstd, sums → dx
//
// `sums` is one f64 tensor (2 · C + 1): two numbers for each channel, first all of the one, then all of the other, and
// the rows they are taken over. Ranks of any number of rows add theirs up, and one without samples adds zeros: it runs
// all_reduce and batchnorm2d_statistics alone, so that running statistics are alike on all ranks, too. dweight and
// dbias are a rank's own, as all gradients of parameters, which are added up before the update.
//
// Forward the numbers are Σx and Σx², made of a rank's mean and squared deviations, which are found without
// cancellation. The variance is their difference over all ranks (Σx² − (Σx)²/n)/n. In f64 that loses some 2^-52 of
// mean², which is less than the variance, about 2^-50 of mean², that x has of being rounded to f32.
// Backward they are Σg and Σ g·(x − mean), and dx = weight · rstd · (g − Σg/n − (x − mean) · rstd² · Σ g·(x − mean)/n),
// the formula of one process.
//
// The statistics are kept for the backward pass and never found again: recomputation begins at batchnorm2d_normalize.

/// The sums of x (…, C), of f32, f16 or bf16. inputs: x; outputs: sums.
Op batchnorm2d_sums_op(const TensorType& x);
/// What a batch norm finds of sums over all ranks. inputs: sums, running_mean (C), running_var (C) [both modified];
/// outputs: mean (C), reciprocal standard deviation (C).
Op batchnorm2d_statistics_op(const TensorType& sums, const BatchNorm2dAttributes& attributes);
/// Of batchnorm2d_normalize without an addend. inputs: dy, x, mean, rstd[, weight, bias where affine and relu];
/// outputs: sums[, dweight, dbias where affine].
Op batchnorm2d_gradient_sums_op(const Op& batchnorm2d_normalize);
/// inputs: dy, x, mean, rstd, sums over all ranks[, weight[, bias where relu]]; outputs: dx, which may be stored over
/// dy.
Op batchnorm2d_normalize_backward_op(const Op& batchnorm2d_normalize);

/// The type of the sums of so many channels, and the other way round.
inline TensorType batchnorm2d_sums_type(std::int64_t channels) { return {DType::f64, {2 * channels + 1}}; }
inline std::int64_t channels_of_sums(const TensorType& sums) { return (sums.num_elements() - 1) / 2; }

}  // namespace trainer
