#include "engine/train/measure/calibration_networks.h"

#include <array>

namespace trainer {
namespace {

// Widths are of the kind that people choose, multiples of 16, but no powers of two; sizes lie on both sides of the
// caches of a usual machine.
constexpr std::array networks = {
    CalibrationNetwork{"wide products", R"(
data: {type: synthetic, shape: [960], classes: 30, samples: 160}
model: {layers: [linear: {out: 1792}, relu, linear: {out: 1280}, relu, linear: {out: 30}]}
optimizer: adam
train: {batch_size: 160}
)"},
    CalibrationNetwork{"narrow products", R"(
data: {type: synthetic, shape: [45], classes: 11, samples: 96}
model: {layers: [linear: {out: 192}, relu, linear: {out: 80}, relu, linear: {out: 11}]}
optimizer: {type: sgd, momentum: 0.9}
train: {batch_size: 48, accumulation_steps: 2}
)"},
    CalibrationNetwork{"few rows", R"(
data: {type: synthetic, shape: [2112], classes: 10, samples: 24}
model: {layers: [linear: {out: 3072}, relu, linear: {out: 1088}, relu, linear: {out: 10}]}
optimizer: adam
memory: {moments: 8bit}
train: {batch_size: 12, accumulation_steps: 2}
)"},
    CalibrationNetwork{"long rows", R"(
data: {type: synthetic, shape: [30, 30, 9], classes: 7, samples: 40}
model: {layers: [flatten, linear: {out: 150}, relu, linear: {out: 7}]}
optimizer: adamw
train: {batch_size: 40, clip_norm: 1}
)"},
    CalibrationNetwork{"images of few channels", R"(
data: {type: synthetic, shape: [36, 36, 1], classes: 7, samples: 40}
model:
  layers:
    - conv2d: {out: 24, kernel: 3, padding: 1}
    - relu
    - conv2d: {out: 32, kernel: 3, padding: 1}
    - relu
    - conv2d: {out: 80, kernel: 3, padding: 1}
    - relu
    - maxpool2d: {kernel: 2}
    - flatten
    - linear: {out: 60}
    - relu
    - linear: {out: 7}
optimizer: {type: sgd, momentum: 0.9}
train: {batch_size: 40}
)"},
    CalibrationNetwork{"large images", R"(
data: {type: synthetic, shape: [40, 40, 3], classes: 7, samples: 40}
model:
  layers:
    - conv2d: {out: 48, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - residual:
        layers:
          - conv2d: {out: 96, kernel: 3, padding: 1, bias: false}
          - batchnorm2d
          - relu
          - conv2d: {out: 48, kernel: 3, padding: 1, bias: false}
          - batchnorm2d
    - relu
    - maxpool2d: {kernel: 3, stride: 2, padding: 1}
    - conv2d: {out: 160, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - avgpool2d: {kernel: 2}
    - conv2d: {out: 96, kernel: 5, padding: 2, bias: false}
    - global_avgpool
    - linear: {out: 7}
optimizer: {type: sgd, momentum: 0.9}
train: {batch_size: 40}
)"},
    CalibrationNetwork{"small images", R"(
data: {type: synthetic, shape: [24, 24, 3], classes: 7, samples: 48}
model:
  layers:
    - conv2d: {out: 96, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - residual:
        layers:
          - conv2d: {out: 192, kernel: 3, stride: 2, padding: 1, bias: false}
          - batchnorm2d
          - relu
          - conv2d: {out: 192, kernel: 3, padding: 1, bias: false}
          - batchnorm2d
        shortcut: [conv2d: {out: 192, kernel: 1, stride: 2, bias: false}, batchnorm2d]
    - relu
    - residual:
        layers:
          - conv2d: {out: 384, kernel: 3, stride: 2, padding: 1, bias: false}
          - batchnorm2d
          - relu
          - conv2d: {out: 384, kernel: 3, padding: 1, bias: false}
          - batchnorm2d
        shortcut: [conv2d: {out: 384, kernel: 1, stride: 2, bias: false}, batchnorm2d]
    - relu
    - global_avgpool
    - linear: {out: 7}
optimizer: {type: sgd, momentum: 0.9}
train: {batch_size: 48}
)"},
    CalibrationNetwork{"tiny images", R"(
data: {type: synthetic, shape: [6, 6, 2], classes: 3, samples: 5}
model:
  layers:
    - conv2d: {out: 16, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - residual: {layers: [conv2d: {out: 16, kernel: 3, padding: 1}, batchnorm2d]}
    - relu
    - maxpool2d: {kernel: 2}
    - conv2d: {out: 24, kernel: 1}
    - residual: {layers: [avgpool2d: {kernel: 3, stride: 1, padding: 1}]}
    - flatten
    - dropout: {p: 0.1}
    - linear: {out: 3}
optimizer: {type: sgd, momentum: 0.9}
train: {batch_size: 5}
)"},
    CalibrationNetwork{"tiny rows", R"(
data: {type: synthetic, shape: [4, 4, 8], classes: 3, samples: 6}
model:
  layers:
    - conv2d: {out: 12, kernel: 1}
    - global_avgpool
    - residual: {layers: [layernorm, gelu]}
    - linear: {out: 3}
optimizer: adam
train: {batch_size: 6, clip_norm: 1}
)"},
    CalibrationNetwork{"rows with norms", R"(
data: {type: synthetic, shape: [608], classes: 40, samples: 500}
model:
  layers:
    - residual: {layers: [layernorm, linear: {out: 928}, gelu, dropout: {p: 0.1}, linear: {out: 608}]}
    - layernorm
    - tanh
    - dropout: {p: 0.2}
    - linear: {out: 40}
optimizer: adam
train: {batch_size: 500}
)"},
    CalibrationNetwork{"short rows with norms", R"(
data: {type: synthetic, shape: [90], classes: 9, samples: 70}
model:
  layers:
    - residual: {layers: [layernorm, linear: {out: 130}, gelu, dropout: {p: 0.1}, linear: {out: 90}]}
    - layernorm
    - silu
    - linear: {out: 9}
optimizer: adam
memory: {moments: 8bit}
train: {batch_size: 70}
)"},
    CalibrationNetwork{"many classes", R"(
data: {type: synthetic, shape: [120], classes: 6000, samples: 250}
model: {layers: [linear: {out: 160}, relu, linear: {out: 6000}]}
optimizer: adam
memory: {chunked_loss: 60, moments: 8bit}
train: {batch_size: 250}
)"},
    CalibrationNetwork{"many logits", R"(
data: {type: synthetic, shape: [60], classes: 3000, samples: 300}
model: {layers: [linear: {out: 50}, relu, linear: {out: 3000}]}
memory: {chunked_loss: 0}
train: {batch_size: 300}
)"},
    CalibrationNetwork{"numbers", R"(
data: {type: synthetic, shape: [50], classes: 120, target_type: numeric, samples: 200}
model: {layers: [linear: {out: 120}, sigmoid]}
loss: mse
train: {batch_size: 200}
)"},
    CalibrationNetwork{"yes or no", R"(
data: {type: synthetic, shape: [50], classes: 120, target_type: numeric, samples: 200}
model: {layers: [linear: {out: 120}]}
loss: bce_with_logits
train: {batch_size: 200}
)"},
    CalibrationNetwork{"offloaded rows", R"(
data: {type: synthetic, shape: [800], classes: 9, samples: 250}
model: {layers: [linear: {out: 1120}, gelu, linear: {out: 640}, gelu, linear: {out: 320}, gelu, linear: {out: 9}]}
memory: {offload: ['*'], recompute_cheap: false}
train: {batch_size: 250}
)"},
    CalibrationNetwork{"tiny images in 16 bit", R"(
data: {type: synthetic, shape: [6, 6, 2], classes: 3, samples: 5}
model:
  layers:
    - conv2d: {out: 16, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - residual: {layers: [conv2d: {out: 16, kernel: 3, padding: 1}, batchnorm2d]}
    - relu
    - maxpool2d: {kernel: 2}
    - conv2d: {out: 24, kernel: 1}
    - residual: {layers: [avgpool2d: {kernel: 3, stride: 1, padding: 1}]}
    - flatten
    - dropout: {p: 0.1}
    - linear: {out: 3}
optimizer: {type: sgd, momentum: 0.9}
train: {batch_size: 5, amp: fp16, loss_scale: {initial: 1024}}
)"},
    CalibrationNetwork{"tiny rows in 16 bit", R"(
data: {type: synthetic, shape: [4, 4, 8], classes: 3, samples: 6}
model:
  layers:
    - conv2d: {out: 12, kernel: 1}
    - global_avgpool
    - residual: {layers: [layernorm, gelu]}
    - linear: {out: 3}
optimizer: adam
train: {batch_size: 6, clip_norm: 1, amp: fp16, loss_scale: {initial: 1024}}
)"},
    CalibrationNetwork{"products in 16 bit", R"(
data: {type: synthetic, shape: [992], classes: 30, samples: 192}
model: {layers: [linear: {out: 1536}, relu, linear: {out: 1088}, gelu, linear: {out: 48}, relu, linear: {out: 30}]}
optimizer: {type: sgd, momentum: 0.9}
train: {batch_size: 192, amp: fp16, loss_scale: {initial: 1024}}
)"},
    CalibrationNetwork{"rows in 16 bit", R"(
data: {type: synthetic, shape: [140], classes: 40, samples: 400}
model:
  layers:
    - residual: {layers: [layernorm, linear: {out: 260}, gelu, dropout: {p: 0.1}, linear: {out: 140}]}
    - layernorm
    - tanh
    - dropout: {p: 0.2}
    - linear: {out: 40}
optimizer: adamw
memory: {gradients: 16bit}
train: {batch_size: 200, amp: fp16, loss_scale: {initial: 1024}, accumulation_steps: 2}
)"},
    CalibrationNetwork{"weights in 16 bit", R"(
data: {type: synthetic, shape: [500], classes: 40, samples: 50}
model: {layers: [linear: {out: 700}, relu, linear: {out: 40}]}
optimizer: {type: sgd, momentum: 0.9}
memory: {master_weights: false}
train: {batch_size: 50, amp: bf16}
)",
                       true},
    CalibrationNetwork{"images in 16 bit", R"(
data: {type: synthetic, shape: [24, 24, 3], classes: 7, samples: 32}
model:
  layers:
    - conv2d: {out: 48, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - residual:
        layers:
          - conv2d: {out: 48, kernel: 3, padding: 1, bias: false}
          - batchnorm2d
          - relu
          - conv2d: {out: 48, kernel: 3, padding: 1, bias: false}
          - batchnorm2d
    - relu
    - maxpool2d: {kernel: 2}
    - conv2d: {out: 144, kernel: 3, stride: 2, padding: 1}
    - avgpool2d: {kernel: 2}
    - relu
    - conv2d: {out: 200, kernel: 1}
    - flatten
    - linear: {out: 7}
optimizer: {type: sgd, momentum: 0.9}
train: {batch_size: 32, amp: fp16, loss_scale: {initial: 1024}}
)"},
    CalibrationNetwork{"small images in 16 bit", R"(
data: {type: synthetic, shape: [10, 10, 2], classes: 7, samples: 20}
model:
  layers:
    - conv2d: {out: 112, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - conv2d: {out: 192, kernel: 3, padding: 1}
    - relu
    - global_avgpool
    - linear: {out: 7}
optimizer: adam
train: {batch_size: 20, amp: fp16, loss_scale: {initial: 1024}}
)"},
};

}  // namespace

std::span<const CalibrationNetwork> calibration_networks() { return networks; }

}  // namespace trainer
