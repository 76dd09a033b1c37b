#pragma once

#include <random>
#include <string>
#include <vector>

namespace trainer {

/// A network of random size that trains on few samples, as YAML. Searches for what to compute again take the longer the
/// more often its layers repeat.
inline std::string generated_experiment(std::mt19937& random, int most_repeats = 4) {
  const auto pick = [&](int lowest, int highest) {
    return std::to_string(std::uniform_int_distribution<int>(lowest, highest)(random));
  };
  const auto one_of = [&](const std::vector<std::string>& texts) { return texts[random() % texts.size()]; };
  std::string text = "name: generated\n";
  const std::string samples = pick(17, 97);
  switch (random() % 3) {
    case 0:
      text += "data: {type: synthetic, shape: [" + pick(3, 700) + "], classes: 5, samples: " + samples +
              ", validation_samples: " + pick(0, 80) + "}\nmodel: {layers: [{linear: {out: " + pick(100, 900) + "}}, " +
              one_of({"relu", "gelu", "{dropout: {p: 0.3}}", "layernorm"}) + ", {linear: {out: " + pick(100, 900) +
              "}}, silu, {linear: {out: 5}}]}\n";
      break;
    case 1: {
      const std::string width = pick(64, 257);
      text += "data: {type: synthetic, shape: [33], target_type: numeric, samples: " + samples +
              "}\nloss: mse\nmodel: {layers: [{linear: {out: " + width +
              "}}, {repeat: {times: " + pick(2, most_repeats) +
              ", layers: [{residual: {layers: [layernorm, {linear: {out: " + width + "}}, tanh]}}]}}, " +
              "{linear: {out: 1}}]}\n";
      break;
    }
    default:
      text += "data: {type: synthetic, shape: [13, 11, 2], classes: 3, samples: " + samples +
              ", validation_samples: " + pick(1, 70) + "}\nmodel: {layers: [{conv2d: {out: " + pick(6, 24) +
              ", kernel: 3, padding: 1}}, " + one_of({"batchnorm2d", "relu"}) +
              ", {maxpool2d: {kernel: 2}}, {conv2d: {out: " + pick(6, 24) +
              ", kernel: 3}}, relu, flatten, {linear: {out: 3}}]}\n";
  }
  text += "optimizer: " + one_of({"{type: sgd}", "{type: sgd, momentum: 0.9, nesterov: true}", "{type: adam}",
                                  "{type: adamw, weight_decay: 0.02}"});
  text += "\ntrain: {batch_size: " + one_of({"all", pick(2, 64), pick(2, 64), pick(2, 64)}) + ", steps: 2";
  const bool is_all = text.find("batch_size: all") != std::string::npos;
  if (!is_all && random() % 4 == 0) text += ", accumulation_steps: " + pick(2, 3);
  if (random() % 6 == 0) text += ", clip_norm: 1";
  if (random() % 6 == 0) text += ", eval_batch_size: " + pick(1, 90);
  if (random() % 7 == 0) text += ", checkpointing: " + one_of({"sqrt", "auto", "{every: 2}"});
  text += "}\n";
  if (random() % 8 == 0) text += "memory: {allocator: planned}\n";
  return text;
}

}  // namespace trainer
