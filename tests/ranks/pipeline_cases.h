#pragma once

#include <string>
#include <vector>

#include "tests/ranks/rank_runs.h"

namespace trainer {

/// Skips that pass stages, one read by two layers of another, and batch norms by the micro-batch.
inline constexpr const char* skips_model = R"(
name: skips
seed: 5
data: {type: synthetic, shape: [8, 8, 2], classes: 3, samples: 29, validation_samples: 7}
model:
  layers:
    - conv2d: {out: 5, kernel: 3, padding: 1, name: wide}
    - batchnorm2d
    - relu: {name: first}
    - maxpool2d: {kernel: 2}
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - relu: {name: second}
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - groupnorm: {groups: 2, name: third}
    - concat: {from: [second, third]}
    - upsample: {scale: 2, mode: bilinear, name: large}
    - concat: {from: [first, large]}
    - residual: {layers: [{conv2d: {out: 17, kernel: 3, padding: 1}}, relu]}
    - concat: {from: [first, "11"]}
    - dropout: {p: 0.2}
    - conv2d: {out: 4, kernel: 3}
    - flatten
    - linear: {out: 3}
optimizer: {type: sgd, lr: 0.02, momentum: 0.9}
train: {batch_size: 9, steps: 8, eval_every: 4}
)";

/// An embedding that the head shares, and documents, which all attentions ask for.
inline constexpr const char* tied_model = R"(
name: tied
seed: 3
data: {type: synthetic, samples: 19, sequence_length: 6, classes: 24, validation_samples: 5, document_token: 3}
model:
  layers:
    - embedding: {num: 24, dim: 16, name: wte}
    - position_embedding: {length: 6}
    - repeat:
        times: 3
        layers:
          - residual: {layers: [layernorm, {linear: {out: 48}}, {attention: {heads: 4, causal: true, dropout: 0.1}}, {linear: {out: 16}}]}
          - residual: {layers: [layernorm, {linear: {out: 32}}, gelu, {linear: {out: 16}}]}
    - layernorm
    - linear: {out: 24, bias: false, share: wte}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 8, steps: 9, eval_every: 3, clip_norm: 0.5}
)";

/// One layer again and again, so that every stage uses its weights.
inline constexpr const char* recurring_model = R"(
name: recurring
seed: 4
data: {type: synthetic, shape: [6], classes: 6, samples: 29, validation_samples: 7}
model:
  layers:
    - linear: {out: 6, name: again}
    - relu
    - layernorm
    - linear: {out: 6, share: again}
    - tanh
    - dropout: {p: 0.1}
    - linear: {out: 6, share: again}
    - layernorm
    - relu
    - linear: {out: 6, share: again}
    - tanh
    - linear: {out: 6, share: again}
    - relu
    - linear: {out: 6, name: head}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 9, steps: 8, eval_every: 4, clip_norm: 0.5}
)";

inline std::vector<RankCase> pipeline_cases() {
  std::vector<RankCase> cases = rank_cases();
  cases.push_back({"skips", skips_model});
  cases.push_back({"skips, computed again", skips_model, {"train.checkpointing=sqrt", "memory.allocator=planned"}});
  cases.push_back({"skips, frozen in front", skips_model, {"freeze=[wide]"}});
  cases.push_back({"a tied embedding", tied_model});
  cases.push_back({"weights of all stages", recurring_model});
  cases.push_back({"weights of all stages, gradients of 16 bits",
                   recurring_model,
                   {"train.amp=bf16", "memory.gradients=16bit", "memory.allocator=planned"},
                   3e-2});
  cases.push_back({"a tied embedding in 16 bits",
                   tied_model,
                   {"train.amp=bf16", "train.checkpointing=sqrt", "optimizer.lr=0.001"},
                   3e-2});
  return cases;
}

}  // namespace trainer
