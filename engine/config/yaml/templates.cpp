#include "engine/config/yaml/templates.h"

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/text/nearest_word.h"
#include "engine/errors.h"

namespace trainer {
namespace {

constexpr std::string_view mlp_text = R"(# A multi-layer perceptron on handwritten digits.
#
#   trainer plan FILE      what it will hold in memory, to the byte
#   trainer run FILE       train it
#   trainer run FILE optimizer.lr=0.05 train.epochs=20     change keys for one run
#   trainer config explain train.batch_size                what a key means

name: mlp
seed: 1                       # initial weights, order of samples, dropout

data:
  type: digits                # comes with trainer; for MNIST: {type: idx, root: data/mnist}
  split: 0.1                  # share of the training samples kept for validation

model:
  layers:
    - flatten
    - linear: {out: 256}
    - relu
    - dropout: {p: 0.2}
    - linear: {out: 10}       # one output for each class

loss: cross_entropy
optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
train: {batch_size: 64, epochs: 20}

# memory: {limit: 2GiB}       # the most to hold; by default what the device has free
output: runs/${name}
)";

constexpr std::string_view cnn_text = R"(# A convolutional network with batch normalization.
#
#   trainer summary FILE   its layers, shapes and parameters
#   trainer plan FILE      what it will hold in memory
#   trainer run FILE       train it

name: cnn
seed: 1

data:
  type: digits                # 8×8 images that come with trainer
  # type: idx                 # MNIST or Fashion-MNIST: scripts/get_data.sh mnist
  # root: data/mnist
  split: 0.1
  normalize: {mean: 0.3, std: 0.35}    # of pixel / 255

model:
  layers:
    - conv2d: {out: 32, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - maxpool2d: {kernel: 2}
    - conv2d: {out: 64, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - global_avgpool          # (H, W, 64) becomes (64)
    - linear: {out: 10}

loss: {type: cross_entropy, label_smoothing: 0.05}
optimizer: {type: adamw, lr: 0.002, weight_decay: 0.01}
schedule: cosine              # down to 0 at the end of the run

train:
  batch_size: 64
  epochs: 15
  early_stopping: {patience: 5}        # evaluations in which the metric of checkpoint.best gets no better

checkpoint: {every: 5ep, keep: 2, best: accuracy}
output: runs/${name}
)";

constexpr std::string_view resnet_text = R"(# A residual network of 18 layers for 32×32 images, as in He et al. 2015.
#
#   scripts/get_data.sh cifar10
#   trainer plan FILE      what it will hold in memory
#   trainer run FILE       train it

name: resnet
seed: 1

data:
  type: cifar10
  root: data/cifar10          # the folder of data_batch_1.bin
  normalize: {mean: [0.4914, 0.4822, 0.4465], std: [0.247, 0.2435, 0.2616]}
  # Declared, so that `trainer plan` needs no files:
  shape: [32, 32, 3]
  classes: 10
  samples: 50000
  validation_samples: 10000

model:
  init: kaiming_normal
  layers:
    - conv2d: {out: 64, kernel: 3, padding: 1, bias: false}
    - batchnorm2d
    - relu
    - repeat:
        times: 2
        layers:
          - residual: {layers: [conv2d: {out: 64, kernel: 3, padding: 1, bias: false}, batchnorm2d, relu,
                                conv2d: {out: 64, kernel: 3, padding: 1, bias: false}, batchnorm2d]}
          - relu
    - residual:               # halves the image and doubles the channels, so the shortcut has a layer too
        layers: [conv2d: {out: 128, kernel: 3, stride: 2, padding: 1, bias: false}, batchnorm2d, relu,
                 conv2d: {out: 128, kernel: 3, padding: 1, bias: false}, batchnorm2d]
        shortcut: [conv2d: {out: 128, kernel: 1, stride: 2, bias: false}, batchnorm2d]
    - relu
    - residual: {layers: [conv2d: {out: 128, kernel: 3, padding: 1, bias: false}, batchnorm2d, relu,
                          conv2d: {out: 128, kernel: 3, padding: 1, bias: false}, batchnorm2d]}
    - relu
    - residual:
        layers: [conv2d: {out: 256, kernel: 3, stride: 2, padding: 1, bias: false}, batchnorm2d, relu,
                 conv2d: {out: 256, kernel: 3, padding: 1, bias: false}, batchnorm2d]
        shortcut: [conv2d: {out: 256, kernel: 1, stride: 2, bias: false}, batchnorm2d]
    - relu
    - residual: {layers: [conv2d: {out: 256, kernel: 3, padding: 1, bias: false}, batchnorm2d, relu,
                          conv2d: {out: 256, kernel: 3, padding: 1, bias: false}, batchnorm2d]}
    - relu
    - residual:
        layers: [conv2d: {out: 512, kernel: 3, stride: 2, padding: 1, bias: false}, batchnorm2d, relu,
                 conv2d: {out: 512, kernel: 3, padding: 1, bias: false}, batchnorm2d]
        shortcut: [conv2d: {out: 512, kernel: 1, stride: 2, bias: false}, batchnorm2d]
    - relu
    - residual: {layers: [conv2d: {out: 512, kernel: 3, padding: 1, bias: false}, batchnorm2d, relu,
                          conv2d: {out: 512, kernel: 3, padding: 1, bias: false}, batchnorm2d]}
    - relu
    - global_avgpool
    - linear: {out: 10}

loss: cross_entropy
optimizer: {type: sgd, lr: 0.1, momentum: 0.9, nesterov: true, weight_decay: 5e-4}
schedule: {type: one_cycle, warmup_fraction: 0.25}

train:
  batch_size: 128
  epochs: 30
  # accumulation_steps: 2     # the same update from smaller batches, where memory is short

checkpoint: {every: 1ep, keep: 2, best: accuracy}
output: runs/${name}
)";

constexpr std::string_view csv_text = R"(# A table: numbers in columns, one of them to be predicted.
#
#   trainer check FILE     whether everything is right, the data too
#   trainer run FILE data.train=my.csv

name: table
seed: 1

data:
  type: csv
  train: data/train.csv
  # validation: data/validation.csv    # instead of split
  split: 0.2
  header: true                # the first line names the columns
  # delimiter: ";"
  # target: price             # column name, or its number from 0; the last one by default
  target_type: categorical    # or numeric, with loss: mse

model:
  layers:
    - linear: {out: 64}
    - layernorm
    - gelu
    - linear: {out: 64}
    - layernorm
    - gelu
    - linear: {out: 3}        # as many as there are classes; 1 for a numeric target

loss: cross_entropy
optimizer: adamw              # lr 0.001, weight decay 0.01
train: {batch_size: 32, epochs: 50, clip_norm: 1.0, early_stopping: {patience: 10}}
output: runs/${name}
)";

constexpr std::array<ConfigTemplate, 4> templates{{
    {"mlp", "a multi-layer perceptron on the digits that come with trainer", mlp_text},
    {"cnn", "a convolutional network with batch normalization", cnn_text},
    {"resnet", "ResNet-18 for CIFAR-10", resnet_text},
    {"csv", "a table with a categorical or numeric target", csv_text},
}};

}  // namespace

std::span<const ConfigTemplate> config_templates() { return templates; }

const ConfigTemplate& config_template(std::string_view name) {
  std::vector<std::string> names;
  for (const ConfigTemplate& each : templates) {
    if (each.name == name) return each;
    names.emplace_back(each.name);
  }
  std::string message =
      fmt::format("error: there is no template '{}'\n  expected: one of {}", name, fmt::join(names, ", "));
  const std::string_view suggestion = nearest(name, names);
  if (!suggestion.empty()) message += fmt::format("\n  did you mean '{}'?", suggestion);
  throw ConfigError(message);
}

}  // namespace trainer
