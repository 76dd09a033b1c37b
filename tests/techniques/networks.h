#pragma once

#include <string>
#include <vector>

#include "tests/source_folder.h"

namespace trainer {

/// A small network of each kind, with 22 training samples, so that batches of 5 leave an odd last one.
struct TechniqueNetwork {
  const char* name;
  std::string yaml;  ///< without optimizer and train
};

inline const std::vector<TechniqueNetwork>& technique_networks() {
  static const std::vector<TechniqueNetwork> networks = {
      {"mlp", R"(
data: {type: synthetic, shape: [13], classes: 5, samples: 22, validation_samples: 6}
model: {layers: [linear: {out: 33}, relu, linear: {out: 70}, relu, dropout: {p: 0.2}, linear: {out: 17}, tanh, linear: {out: 5}]}
)"},
      {"residual-mlp", R"(
data: {type: synthetic, shape: [12], classes: 4, samples: 22, validation_samples: 6}
model:
  layers:
    - linear: {out: 24}
    - repeat:
        times: 3
        layers:
          - residual: {layers: [layernorm, linear: {out: 48}, gelu, dropout: {p: 0.1}, linear: {out: 24}]}
    - layernorm
    - linear: {out: 4}
)"},
      {"transformer", R"(
data: {type: synthetic, shape: [7, 1, 12], classes: 4, samples: 22, validation_samples: 6}
model:
  layers:
    - repeat:
        times: 2
        layers:
          - residual: {layers: [rmsnorm, conv2d: {out: 24, kernel: 1}, rmsnorm: {heads: 6}, attention: {heads: 4, kv_heads: 1, causal: true, dropout: 0.2, rotary_base: 100}, conv2d: {out: 12, kernel: 1}]}
          - residual: {layers: [rmsnorm, conv2d: {out: 20, kernel: 1}, gelu, conv2d: {out: 12, kernel: 1}]}
    - flatten
    - linear: {out: 4}
)"},
      {"gpt", R"(
data: {type: synthetic, sequence_length: 9, classes: 13, samples: 22, validation_samples: 6}
model:
  layers:
    - embedding: {num: 13, dim: 12, name: wte}
    - position_embedding: {length: 11}
    - dropout: {p: 0.1}
    - repeat:
        times: 2
        layers:
          - layernorm
          - linear: {out: 36}
          - attention: {heads: 3, causal: true, dropout: 0.1}
          - linear: {out: 12, name: attended}
          - add: {from: [in, attended], name: sum}
          - layernorm
          - linear: {out: 20}
          - gelu: {approximate: tanh}
          - linear: {out: 12, name: fed}
          - add: {from: [sum, fed]}
    - layernorm
    - linear: {out: 13, bias: false, share: wte}
)"},
      {"cnn", R"(
data: {type: synthetic, shape: [10, 10, 1], classes: 3, samples: 22, validation_samples: 6}
model:
  layers:
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - relu
    - maxpool2d: {kernel: 2}
    - conv2d: {out: 8, kernel: 3}
    - batchnorm2d
    - relu
    - avgpool2d: {kernel: 2, stride: 1}
    - flatten
    - dropout: {p: 0.25}
    - linear: {out: 3}
)"},
      {"mixed", R"(
data: {type: synthetic, shape: [10, 10, 3], classes: 3, samples: 22, validation_samples: 6, transforms: {train: [mixup: {alpha: 0.4}, cutmix]}}
loss: {type: cross_entropy, label_smoothing: 0.1, class_weights: [1, 2, 0.5]}
model:
  layers:
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - relu
    - maxpool2d: {kernel: 2}
    - flatten
    - linear: {out: 3}
)"},
      {"resnet", R"(
data: {type: synthetic, shape: [8, 8, 3], classes: 4, samples: 22, validation_samples: 6}
model:
  layers:
    - conv2d: {out: 6, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - residual: {layers: [conv2d: {out: 6, kernel: 3, padding: 1, bias: false}, batchnorm2d, relu, conv2d: {out: 6, kernel: 3, padding: 1, bias: false}, batchnorm2d]}
    - relu
    - residual:
        layers: [conv2d: {out: 9, kernel: 3, stride: 2, padding: 1, bias: false}, batchnorm2d, relu, conv2d: {out: 9, kernel: 3, padding: 1, bias: false}, batchnorm2d]
        shortcut: [conv2d: {out: 9, kernel: 1, stride: 2, bias: false}, batchnorm2d]
    - relu
    - global_avgpool
    - linear: {out: 4}
)"},
      {"group-norms", R"(
data: {type: synthetic, shape: [8, 8, 3], classes: 4, samples: 22, validation_samples: 6}
model:
  layers:
    - conv2d: {out: 8, kernel: 3, padding: 1, bias: false}
    - groupnorm: {groups: 4}
    - relu
    - residual: {layers: [conv2d: {out: 8, kernel: 3, padding: 1}, instancenorm2d: {affine: true}, relu, conv2d: {out: 8, kernel: 3, padding: 1}, groupnorm: {groups: 2, affine: false}]}
    - relu
    - maxpool2d: {kernel: 2}
    - flatten
    - linear: {out: 24}
    - groupnorm: {groups: 4}
    - relu
    - linear: {out: 12}
    - groupnorm: {groups: 3, affine: false}
    - silu
    - linear: {out: 4}
)"},
      {"branches", R"(
data: {type: synthetic, shape: [8, 8, 3], classes: 4, samples: 22, validation_samples: 6}
model:
  layers:
    - conv2d: {out: 6, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu6: {name: stem}
    - conv2d: {out: 12, kernel: 3, padding: 1, groups: 6, bias: false}
    - batchnorm2d
    - hardswish: {name: wide}
    - global_avgpool
    - linear: {out: 4}
    - prelu
    - linear: {out: 12}
    - hardsigmoid: {name: gate}
    - multiply: {from: [wide, gate]}
    - conv2d: {out: 6, kernel: 1}
    - leaky_relu: {slope: 0.2, name: narrow}
    - concat: {from: [narrow, stem]}
    - conv2d: {out: 5, kernel: 3}
    - prelu: {num: 5}
    - flatten
    - linear: {out: 4}
)"},
      {"pixels", R"(
data: {type: synthetic, shape: [6, 8, 2], target_shape: [6, 8], classes: 3, samples: 22, validation_samples: 6}
model: {layers: [conv2d: {out: 6, kernel: 3, padding: 1}, batchnorm2d, relu, linear: {out: 3}]}
loss: [{type: cross_entropy, ignore_index: 1}, {type: dice, weight: 0.5, ignore_index: 1}]
)"},
      {"unet", R"(
data: {type: synthetic, shape: [8, 8, 2], target_shape: [8, 8], classes: 3, samples: 22, validation_samples: 6}
model:
  layers:
    - conv2d: {out: 4, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu: {name: wide}
    - maxpool2d: {kernel: 2}
    - conv2d: {out: 6, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - conv_transpose2d: {out: 4, kernel: 2, stride: 2, name: enlarged}
    - concat: {from: [wide, enlarged]}
    - conv2d: {out: 4, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - linear: {out: 3}
)"},
      {"mobilenet", R"(
data: {type: synthetic, shape: [8, 8, 3], classes: 4, samples: 22, validation_samples: 6}
model:
  blocks:
    unit:
      parameters: {channels: , out: , stride: 1}
      layers:
        - conv2d: {out: "${channels * 2}", kernel: 1, bias: false}
        - batchnorm2d
        - relu6
        - conv2d: {out: "${channels * 2}", kernel: 3, stride: "${stride}", padding: 1, groups: "${channels * 2}", bias: false}
        - batchnorm2d
        - relu6
        - conv2d: {out: "${out}", kernel: 1, bias: false}
        - batchnorm2d: {name: narrow}
        - add: {from: [narrow, in], when: "${stride == 1 and channels == out}"}
  layers:
    - conv2d: {out: 4, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu6
    - unit: {channels: 4, out: 4}
    - unit: {channels: 4, out: 5, stride: 2}
    - global_avgpool
    - dropout: {p: 0.2}
    - linear: {out: 4}
)"},
      {"regression", R"(
data: {type: synthetic, shape: [9], target_type: numeric, samples: 22, validation_samples: 6}
model: {layers: [linear: {out: 20}, silu, linear: {out: 20}, sigmoid, linear: {out: 1}]}
loss: mse
)"},
      {"super-resolution", R"(
data: {type: synthetic, shape: [4, 4, 2], target_type: numeric, target_shape: [8, 8, 2], samples: 22, validation_samples: 6}
model:
  layers:
    - conv2d: {out: 6, kernel: 3, padding: 1}
    - batchnorm2d
    - relu
    - upsample: {scale: 2}
    - linear: {out: 2}
loss:
  - l1
  - type: feature
    weight: 0.5
    network:
      layers:
        - sequential:
            name: features
            layers: [conv2d: {out: 4, kernel: 3, padding: 1, bias: false}, batchnorm2d, relu, maxpool2d: {kernel: 2}, conv2d: {out: 6, kernel: 3, padding: 1}, relu]
        - global_avgpool
        - linear: {out: 10, name: classifier}
      weights: {file: )" + source_folder() +
                               R"(/tests/techniques/feature_network.safetensors}
    layers: [features.2, features.5]
    layer_weights: [1, 0.5]
    mean: [0.4, 0.5]
    std: [0.2, 0.3]
)"},
      {"binary", R"(
data: {type: synthetic, shape: [7], target_type: numeric, samples: 22, validation_samples: 6}
model: {layers: [linear: {out: 64}, relu, linear: {out: 64}, gelu: {approximate: tanh}, linear: {out: 1}]}
loss: bce_with_logits
)"},
  };
  return networks;
}

}  // namespace trainer
