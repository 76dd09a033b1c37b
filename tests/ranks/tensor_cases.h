#pragma once

#include <vector>

#include "tests/ranks/pipeline_cases.h"

namespace trainer {

/// Pairs of layers with all that may stand between them, and layers that are not cut.
inline constexpr const char* gates_model = R"(
name: gates
seed: 9
data: {type: synthetic, shape: [6], classes: 4, samples: 45, validation_samples: 13}
model:
  layers:
    - linear: {out: 12}
    - relu
    - dropout: {p: 0.25}
    - linear: {out: 8, name: narrow}
    - layernorm
    - residual: {layers: [{linear: {out: 24}}, swiglu, {linear: {out: 8, bias: false}}]}
    - relu: {name: last}
    - linear: {out: 4, name: head}
optimizer: {type: adamw, lr: 0.01, weight_decay: 0.01}
schedule: {type: cosine, warmup_steps: 3}
train: {batch_size: 9, steps: 12, eval_every: 4, clip_norm: 1}
)";

/// Texts whose length 2 and 4 ranks divide, with all that is computed by rows between layers, and layers that are not
/// cut in between, one of them in a branch.
inline constexpr const char* rows_model = R"(
name: rows
seed: 5
data: {type: synthetic, samples: 19, sequence_length: 8, classes: 24, validation_samples: 5}
model:
  layers:
    - embedding: {num: 24, dim: 16, name: wte}
    - dropout: {p: 0.1}
    - repeat:
        times: 2
        layers:
          - residual: {layers: [rmsnorm, {linear: {out: 32}}, gelu, {linear: {out: 16}}, {dropout: {p: 0.1}}]}
          - residual: {layers: [layernorm, {linear: {out: 16}}]}
          - residual: {layers: [{layernorm: {affine: false}}, {linear: {out: 48}}, {attention: {heads: 4, causal: true}}, {linear: {out: 16, bias: false}}]}
    - relu
    - layernorm
    - linear: {out: 24}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 8, steps: 9, eval_every: 3, clip_norm: 0.5}
)";

/// Patches of images, of which all rows are read as features of one sample.
inline constexpr const char* patches_model = R"(
name: patches
seed: 5
data: {type: synthetic, shape: [8, 8, 3], classes: 10, samples: 40, validation_samples: 11}
model:
  layers:
    - patch_embedding: {size: 2, dim: 16}
    - residual: {layers: [layernorm, {linear: {out: 32}}, gelu, {linear: {out: 16}}, {dropout: {p: 0.1}}]}
    - layernorm
    - flatten
    - linear: {out: 32}
    - relu
    - linear: {out: 10}
optimizer: {type: adamw, lr: 0.01}
train: {batch_size: 8, steps: 6, eval_every: 3}
)";

inline std::vector<RankCase> tensor_cases() {
  return {
      {"gates", gates_model},
      {"accumulation", gates_model, {"train.accumulation_steps=3", "data.samples=40"}},
      {"planned places, computed again", gates_model, {"memory.allocator=planned", "train.checkpointing=sqrt"}},
      {"averages", gates_model, {"average=ema", "average.decay=0.9"}},
      {"fp16", gates_model, {"train.amp=fp16", "train.loss_scale.initial=64"}, 2e-2},
      {"bf16 with gradients of 16 bit", gates_model, {"train.amp=bf16", "memory.gradients=16bit"}, 1e-1},
      {"frozen in front", gates_model, {"freeze=['0', narrow]"}},
      {"text", text_model},
      {"a tied embedding", tied_model},
      {"a tied embedding, computed again", tied_model, {"train.checkpointing={every: 1}", "memory.offload=['*']"}},
      {"sums that wait on the host",
       text_model,
       {"data.sequence_length=16", "data.classes=1030", "memory.offload=['*']",
        "model.layers=[{embedding: {num: 1030, dim: 256}}, {linear: {out: 256}}, {linear: {out: 1030}}]"}},
      {"a tied embedding in 16 bits", tied_model, {"train.amp=bf16", "optimizer.lr=0.001"}, 3e-2},
      {"a tied embedding in fp16",
       tied_model,
       {"train.amp=fp16", "train.loss_scale.initial=64", "optimizer.lr=0.001"},
       3e-2},
      {"many words, of which the head has rows of its own",
       text_model,
       {"data.classes=1100", "model.layers.0.num=1100", "model.layers.3.out=1100"}},
      {"text, its loss in chunks of which the last is smaller", text_model, {"memory.chunked_loss=3"}},
      {"a tied embedding, its loss in chunks", tied_model, {"memory.chunked_loss=4", "loss.label_smoothing=0.1"}},
      {"chunks in 16 bits", rows_model, {"memory.chunked_loss=5", "train.amp=bf16", "optimizer.lr=0.001"}, 3e-2},
      {"chunks in fp16, computed again",
       rows_model,
       {"memory.chunked_loss=16", "train.checkpointing={every: 1}", "train.amp=fp16", "train.loss_scale.initial=64",
        "optimizer.lr=0.001"},
       3e-2},
      {"rows", rows_model},
      {"rows, accumulated",
       rows_model,
       {"train.accumulation_steps=2", "optimizer={type: sgd, lr: 0.1, momentum: 0.9}"}},
      {"rows, computed again", rows_model, {"train.checkpointing={every: 1}", "memory.allocator=planned"}},
      {"patches", patches_model},
      {"rows in 16 bits", rows_model, {"train.amp=bf16", "optimizer.lr=0.001", "memory.gradients=16bit"}, 3e-2},
      {"a last batch of one sample", gates_model, {"data.samples=37", "data.validation_samples=10"}},
      {"a vocabulary that is not divided evenly",
       text_model,
       {"data.classes=23", "model.layers.0.num=23", "model.layers.3.out=23"}},
      {"the same in chunks",
       text_model,
       {"data.classes=23", "model.layers.0.num=23", "model.layers.3.out=23", "memory.chunked_loss=2"}},
  };
}

}  // namespace trainer
