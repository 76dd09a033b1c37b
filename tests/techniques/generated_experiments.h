#pragma once

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace trainer {

/// How many are generated: TRAINER_GENERATED_NETWORKS, or few.
inline int num_generated(int few) {
  const char* const number = std::getenv("TRAINER_GENERATED_NETWORKS");
  return number == nullptr ? few : std::atoi(number);
}

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
              ", validation_samples: " + pick(1, 70) +
              (samples.size() + samples.back() % 3 == 2 ? ", transforms: {train: [cutmix]}" : "") +
              "}\nmodel: {layers: [{conv2d: {out: " + pick(6, 24) + ", kernel: 3, padding: 1}}, " +
              one_of({"batchnorm2d", "relu"}) + ", {maxpool2d: {kernel: 2}}, {conv2d: {out: " + pick(6, 24) +
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

/// Draws the parts of a tiny experiment: what trainer can do, in any order that a rule allows.
class NetworkDraw {
 public:
  explicit NetworkDraw(std::mt19937& random) : random_(random) {}

  bool one_in(unsigned n) { return random_() % n == 0; }
  std::string number(unsigned lowest, unsigned highest) {
    return std::to_string(lowest + random_() % (highest - lowest + 1));
  }
  std::string one_of(const std::vector<std::string>& texts) { return texts[random_() % texts.size()]; }
  std::string activation() {
    return one_of({"relu", "relu", "gelu", "{gelu: {approximate: tanh}}", "silu", "tanh", "sigmoid",
                   "{leaky_relu: {slope: 0.1}}", "relu6", "hardswish", "hardsigmoid", "prelu"});
  }

  /// Layers with names that meet again; `layer` makes one that keeps the shape, with further keys.
  template <typename Layer>
  std::string branches(const Layer& layer) {
    const std::string n = std::to_string(++num_branches_);
    const std::string first = layer(", name: a" + n) + ", " + activation() + ", ";
    switch (random_() % 6) {
      case 0:
        return first + layer(", name: b" + n) + ", {add: {from: [a" + n + ", b" + n + "]}}";
      case 1:  // one value read three times, and a sum of three
        return first + layer(", name: b" + n) + ", " + layer(", name: c" + n + ", from: a" + n) + ", {add: {from: [b" +
               n + ", c" + n + ", a" + n + "]}}, relu";
      case 2:  // side by side, one of them twice as a part of two
        return first + layer(", name: b" + n) + ", {concat: {from: [a" + n + ", b" + n + "], name: c" + n + "}}, " +
               layer("") + ", {tanh: {name: d" + n + "}}, {concat: {from: [d" + n + ", c" + n + ", a" + n + "]}}, " +
               layer("");
      case 3:  // a branch by another
        return first + layer(", name: b" + n) + ", {hardsigmoid: {name: g" + n + "}}, {multiply: {from: [b" + n +
               ", g" + n + ", a" + n + "]}}";
      case 4:  // what a concatenation has is read by nothing else, and what it makes by several
        return first + layer(", name: b" + n) + ", " + layer(", name: c" + n + ", from: a" + n) +
               ", {concat: {from: [c" + n + ", b" + n + "], name: d" + n + "}}, " + layer(", name: e" + n) + ", " +
               layer(", name: f" + n + ", from: d" + n) + ", {add: {from: [e" + n + ", f" + n + "]}}";
      default:  // from inside a block to what stands before it
        return first + "{sequential: {name: s" + n + ", layers: [" + layer(", name: inner") +
               ", {add: {from: [inner, a" + n + "], name: sum}}]}}, {tanh: {name: t" + n + "}}, {add: {from: [t" + n +
               ", s" + n + ".inner, s" + n + ".sum]}}, " + activation();
    }
  }

  /// Layers that use the parameters of others: once, in each round of a repetition, and in a list of their own; with
  /// batch norms, whose running statistics are shared too, where there are some. `layers` keep the shape; `@` stands
  /// for the key that names each or what it shares.
  std::string sharing(const std::string& layers) {
    const std::string n = std::to_string(++num_branches_);
    const auto named = [&](std::string text, const std::string& key) {
      while (text.find('@') != std::string::npos) text.replace(text.find('@'), 1, key + n);
      return text;
    };
    const std::string owner = named(layers, "name: p"), user = named(layers, "share: p");
    switch (random_() % 3) {
      case 0:
        return owner + ", " + activation() + ", " + user;
      case 1:
        return owner + ", {repeat: {times: 2, layers: [" + user + ", " + activation() + "]}}";
      default:
        return "{sequential: {name: s" + n + ", layers: [" + owner +
               ", {prelu: {name: slope}}]}}, {sequential: {share: s" + n + ", layers: [" + owner +
               ", {prelu: {name: slope, init: 0.1}}]}}, " + activation();
    }
  }

  /// Layers that leave features as many as they were.
  std::string even_feature_layers(const std::string& width) {
    const std::string linear = "{linear: {out: " + width + one_of({"", ", bias: false"}) + "}}";
    switch (random_() % 7) {
      case 0:
        return activation();
      case 6: {
        const std::string layers = "{linear: {out: " + width + ", @}}, {layernorm: {@n}}";
        return sharing(layers);
      }
      case 5:
        return branches([&](const std::string& keys) { return "{linear: {out: " + width + keys + "}}"; });
      case 1:
        return "{dropout: {p: 0.25}}";
      case 2:
        return one_of(
            {"layernorm", "{layernorm: {affine: false}}", "rmsnorm", "batchnorm1d", "{groupnorm: {groups: 1}}"});
      case 3:
        return "{residual: {layers: [layernorm, " + linear + ", " + activation() + ", " + linear + "]}}";
      default:
        return "{repeat: {times: 2, layers: [" + linear + ", " + activation() + "]}}";
    }
  }
  std::string feature_layers() {
    std::string text;
    for (unsigned blocks = 1 + random_() % 3; blocks > 0; --blocks) {
      const std::string width = number(3, 40);
      text += "{linear: {out: " + width + "}}, " + activation() + ", ";
      for (unsigned count = random_() % 3; count > 0; --count) text += even_feature_layers(width) + ", ";
    }
    return text;
  }

  std::string convolution(const std::string& out, const std::string& further = "") {
    return "{conv2d: {out: " + out + ", kernel: 3, padding: 1" + further + one_of({"", ", bias: false"}) + "}}";
  }
  /// Behind a convolution, with the comma, or nothing.
  std::string norm(const std::string& width) {
    return one_of({"batchnorm2d, ", "", "{groupnorm: {groups: 2}}, ", "{groupnorm: {groups: " + width + "}}, ",
                   "{instancenorm2d: {affine: true}}, ", "instancenorm2d, "});
  }
  /// Squeeze and excite: each channel by a number that is made of its image.
  std::string gated(const std::string& width) {
    const std::string n = std::to_string(++num_branches_);
    return "{conv2d: {out: " + width + ", kernel: 1, name: x" + n + "}}, {prelu: {num: " + width + ", name: y" + n +
           "}}, global_avgpool, {linear: {out: 3}}, relu, {linear: {out: " + width + "}}, {" +
           one_of({"sigmoid", "hardsigmoid"}) + ": {name: g" + n + "}}, {multiply: {from: [" + one_of({"x", "y"}) + n +
           ", g" + n + "]}}";
  }
  std::string image_layers() {
    const std::string width = one_of({"4", "6", "8"});
    std::string text = convolution(width) + ", " + norm(width) + activation() + ", ";
    for (unsigned count = random_() % 3; count > 0; --count) {
      const std::string block = convolution(width) + ", batchnorm2d, relu, " + convolution(width) + ", batchnorm2d";
      switch (random_() % 12) {
        case 11: {
          const std::string layers = "{conv2d: {out: " + width + ", kernel: 3, padding: 1, bias: false, @}}, {" +
                                     one_of({"batchnorm2d", "instancenorm2d"}) + ": {affine: true, @n}}";
          text += sharing(layers) + ", ";
          break;
        }
        case 10:
          text += gated(width) + ", ";
          break;
        case 0:
          text += "{residual: {layers: [" + block + "]}}, relu, ";
          break;
        case 5:
          text += branches([&](const std::string& keys) { return convolution(width, keys); }) + ", ";
          break;
        case 1:
          text += "{residual: {layers: [" + convolution(width, ", stride: 2") +
                  ", batchnorm2d], shortcut: [{conv2d: {out: " + width + ", kernel: 1, stride: 2}}]}}, relu, ";
          break;
        case 2:
          text += "{dropout: {p: 0.25}}, ";
          break;
        case 3:
          text += convolution(width, ", groups: 2") + ", " + norm(width) + "relu, ";
          break;
        case 6:
          text += "{upsample: {scale: 2" + one_of({"", ", mode: bilinear", ", mode: bilinear, align_corners: true"}) +
                  "}}, " + convolution(width, ", stride: 2") + ", relu, ";
          break;
        case 9:
          text += "{conv_transpose2d: {out: " + width + ", kernel: 3, stride: 2, padding: 1" +
                  one_of({"", ", output_padding: 1", ", groups: 2, bias: false"}) + "}}, relu, " +
                  convolution(width, ", stride: 2") + ", ";
          break;
        case 7:
          text += "{pad: {size: [1, 0, 2, 1]" + one_of({"", ", mode: replicate", ", value: 0.5"}) +
                  "}}, {conv2d: {out: " + width + ", kernel: 2}}, ";
          break;
        case 8:
          text += "{adaptive_avgpool2d: {size: [" + number(4, 9) + ", 5]}}, ";
          break;
        default:
          text += "{avgpool2d: {kernel: 2, stride: 1" + one_of({"", ", ceil_mode: true"}) + "}}, ";
      }
    }
    return text + one_of({"{maxpool2d: {kernel: 2}}, flatten, ", "global_avgpool, ", "flatten, "});
  }

  /// Layers that leave an image its size, with a result of so many channels at each pixel.
  std::string pixel_layers(const std::string& out) {
    const std::string width = one_of({"4", "6"});
    std::string text = convolution(width) + ", " + one_of({"batchnorm2d, ", ""}) + activation() + ", ";
    for (unsigned count = random_() % 3; count > 0; --count) {
      if (one_in(2)) {
        text += branches([&](const std::string& keys) { return convolution(width, keys); }) + ", ";
      } else {
        text += "{residual: {layers: [" + convolution(width) + ", batchnorm2d]}}, " + activation() + ", ";
      }
    }
    return text + one_of({"", "{conv2d: {out: 5, kernel: 1}}, "}) + "{linear: {out: " + out + "}}";
  }

  /// A loss of classes of pixels; `single`: whether it is a cross-entropy alone.
  std::string pixel_loss(bool& single) {
    const std::string ignored = one_of({"", ", ignore_index: 1", ", ignore_index: 255"});
    const std::string cross_entropy = "{type: cross_entropy" + ignored, dice = "{type: dice" + ignored;
    const unsigned which = random_() % 3;
    single = which == 0;
    if (single) return cross_entropy + one_of({"}", ", label_smoothing: 0.1}"});
    if (which == 1) return dice + ", smooth: 0.5}";
    return "[" + cross_entropy + ", weight: 0.5}, " + dice + "}" + one_of({"", ", " + cross_entropy + "}"}) + "]";
  }

  /// Layers of tokens: places or rotation, attention of one operand or three, gated units or others, and a head that
  /// may be the embedding again.
  std::string token_layers(const std::string& vocabulary, unsigned length) {
    const unsigned kv_heads = 1 + random_() % 2, heads = kv_heads * (1 + random_() % 2);
    const std::string width = std::to_string(4 * heads), narrow = std::to_string(4 * kv_heads);
    const std::string norm = one_of({"layernorm", "rmsnorm"}), bias = one_of({"", ", bias: false"});
    const std::string dropout = one_of({"", "", ", {dropout: {p: 0.1}}"});
    const auto linear = [&](const std::string& out, const std::string& keys = "") {
      return "{linear: {out: " + out + bias + keys + "}}";
    };
    const bool is_rotary = one_in(2);
    std::string attention = "{attention: {heads: " + std::to_string(heads) + ", kv_heads: " + std::to_string(kv_heads);
    attention += one_of({"", ", causal: true", ", causal: true, window: " + number(1, length + 1)});
    if (is_rotary) attention += ", rotary_base: 100";
    if (!dropout.empty()) attention += ", dropout: 0.2";
    const std::string mixed = one_in(2) ? linear(std::to_string(4 * (heads + 2 * kv_heads))) + ", " + attention + "}}"
                                        : linear(width, ", name: q") + ", " + linear(narrow, ", name: k, from: first") +
                                              ", " + linear(narrow, ", name: v, from: first") + ", " + attention +
                                              ", from: [q, k, v]}}";
    const std::string hidden = number(3, 30);
    const std::string fed = one_in(2)
                                ? linear(hidden, ", name: gate") + ", " + linear(hidden, ", name: up, from: second") +
                                      ", {" + one_of({"swiglu", "geglu"}) + ": {from: [gate, up]}}"
                                : linear(hidden) + ", " + activation();
    std::string text = "{embedding: {num: " + vocabulary + ", dim: " + width + ", name: wte}}";
    if (!is_rotary) text += ", {position_embedding: {length: " + number(length, length + 3) + "}}";
    text += dropout + ", {repeat: {times: " + number(1, 2) + ", layers: [{residual: {layers: [{" + norm +
            ": {name: first}}, " + mixed + ", " + linear(width) + dropout + "]}}, {residual: {layers: [{" + norm +
            ": {name: second}}, " + fed + ", " + linear(width) + dropout + "]}}]}}, " + norm;
    return text + ", {linear: {out: " + vocabulary + one_of({", bias: false, share: wte", ", bias: false", ""}) + "}}";
  }

  /// Techniques that change numbers. 16 bits and what goes with them, storage, the cut of a batch.
  std::string numbers(bool is_classifier, bool needs_two_samples = false) {
    const std::string amp = one_of({"off", "off", "fp16", "bf16"});
    const bool is_adam = one_in(2);
    const std::string batch_size = needs_two_samples ? one_of({"4", "5", "22"}) : one_of({"1", "4", "5", "7", "22"});
    std::string train = "train: {steps: 6, batch_size: " + batch_size + ", amp: " + amp;
    if (one_in(4)) train += ", accumulation_steps: " + number(2, 3);
    if (one_in(5)) train += ", clip_norm: 0.5";
    if (one_in(4)) train += ", eval_batch_size: 4";
    if (one_in(3)) train += ", eval_every: " + number(1, 4);
    std::string memory = "memory: {limit: 1GiB";
    if (is_adam && one_in(3)) memory += ", moments: 8bit";
    if (amp != "off" && one_in(3)) memory += ", gradients: 16bit";
    if (amp == "bf16" && one_in(3)) memory += ", master_weights: false";
    if (is_classifier && one_in(4)) memory += ", chunked_loss: 2";
    const std::string optimizer =
        is_adam ? one_of({"{type: adam, lr: 0.01}", "{type: adamw, lr: 0.01, weight_decay: 0.1}"})
                : one_of({"{type: sgd, lr: 0.01}", "{type: sgd, lr: 0.01, momentum: 0.9, nesterov: true}"});
    const std::string schedule = one_of({"constant", "cosine, warmup_steps: 2", "one_cycle", "step, every: 2"});
    if (memory.find("master_weights") == std::string::npos && one_in(4))
      train += one_of({"}\naverage: {type: ema, decay: 0.1", "}\naverage: {type: swa, every: 1"});
    return train + "}\n" + memory + "}\noptimizer: " + optimizer + "\nschedule: {type: " + schedule + "}\n";
  }

 private:
  std::mt19937& random_;
  int num_branches_ = 0;
};

/// What draws a data set of images whose batches may be mixed, in some of its texts, without drawing more.
inline std::string mixed_sometimes(std::string text) {
  const char* const mixing = text.size() % 4 == 0   ? ", transforms: {train: [mixup, cutmix: {alpha: 0.5, p: 0.7}]}"
                             : text.size() % 4 == 1 ? ", transforms: {train: [mixup: {alpha: 0.2}]}"
                                                    : "";
  text.insert(text.rfind('}'), mixing);
  return text;
}

/// Some of them with a kind of layer frozen beside another that is trained.
inline std::string frozen_sometimes(std::string text) {
  if (text.size() % 3 != 0) return text;
  const auto has = [&](const char* kind) { return text.find(kind) != std::string::npos; };
  const bool has_linear = has("{linear:");
  std::vector<std::string> kinds;
  if (has_linear && has("{conv2d:")) kinds = {"conv2d", "linear"};
  if (has_linear && has("{layernorm:")) kinds.emplace_back("layernorm");
  if (has_linear && has("batchnorm2d")) kinds.emplace_back("conv2d, batchnorm2d");
  if (has_linear && has("{embedding:")) kinds.emplace_back("embedding");
  if (has("chunked_loss")) {  // with which the last layer's weight must learn
    std::erase(kinds, "linear");
    if (has("share: ")) std::erase(kinds, "embedding");
  }
  if (kinds.empty()) return text;
  const std::size_t drawn = text.size() / 3;
  const char* const norms[] = {"off", "parameters", "on"};
  return text + "freeze: [" + kinds[drawn % kinds.size()] + "]\nfreeze_norms: " + norms[drawn / 4 % 3] + "\n";
}

/// As generated_network, of tokens.
inline std::string generated_token_network(NetworkDraw& draw) {
  const std::string length = draw.number(1, 9), vocabulary = draw.number(2, 40);
  std::string text = "name: generated\nseed: " + draw.number(0, 1000) +
                     "\ndata: {type: synthetic, samples: 22, sequence_length: " + length + ", classes: " + vocabulary +
                     ", validation_samples: " + draw.number(1, 9) + draw.one_of({"", "", ", document_token: 1"}) +
                     "}\n";
  text += draw.one_of({"", "", "loss: {type: cross_entropy, label_smoothing: 0.1}\n",
                       "loss: {type: cross_entropy, ignore_index: 1}\n"});
  text += "model: {layers: [" + draw.token_layers(vocabulary, static_cast<unsigned>(std::stoi(length))) + "]}\n";
  return text + draw.numbers(true);
}

/// A tiny experiment of 6 steps, as YAML, of any kind of layer, loss and technique that changes numbers. A run of it
/// takes milliseconds.
inline std::string generated_whole_network(std::mt19937& random) {
  NetworkDraw draw(random);
  if (draw.one_in(4)) return generated_token_network(draw);
  const std::string classes = draw.number(2, 6);
  const bool has_images = draw.one_in(3), is_classifier = !draw.one_in(3);
  const bool has_pixels = has_images && draw.one_in(2);  // as targets
  std::string text =
      "name: generated\nseed: " + draw.number(0, 1000) + "\ndata: {type: synthetic, samples: 22, shape: [";
  const std::string channels = draw.number(1, 3);
  text += has_images ? "8, 8, " + channels : draw.number(1, 20);
  if (has_pixels) text += is_classifier ? "], target_shape: [8, 8" : "], target_shape: [8, 8, " + channels;
  text += is_classifier ? "], classes: " + classes : "], target_type: numeric";
  text += ", validation_samples: " + draw.number(1, 9);
  if (draw.one_in(4)) text += ", drop_last: true";
  text += "}\n";
  if (has_pixels && is_classifier) {
    bool is_cross_entropy = false;
    text += "loss: " + draw.pixel_loss(is_cross_entropy) + "\n";
    text += "model: {layers: [" + draw.pixel_layers(classes) + "]}\n";
    return text + draw.numbers(is_cross_entropy);
  }
  if (has_pixels) {
    text += draw.one_of({"loss: l1\n", "loss: dice\n", "loss: [mse, {type: l1, weight: 0.1}]\n",
                         "loss: [bce_with_logits, {type: dice, weight: 2}]\n"});
    return text + "model: {layers: [" + draw.pixel_layers(channels) + "]}\n" + draw.numbers(false);
  }
  if (has_images) text = mixed_sometimes(std::move(text));
  if (is_classifier && draw.one_in(4)) text += "loss: {type: cross_entropy, label_smoothing: 0.1}\n";
  if (!is_classifier)
    text += draw.one_of({"loss: mse\n", "loss: l1\n", "loss: {smooth_l1: {beta: 0.1}}\n", "loss: bce_with_logits\n"});
  text += "model: {layers: [" + (has_images ? draw.image_layers() : draw.feature_layers());
  text += "{linear: {out: " + (is_classifier ? classes : "1") + "}}]}\n";
  // Of one sample, also of an odd last batch, features have no variance.
  return text + draw.numbers(is_classifier, text.find("batchnorm1d") != std::string::npos);
}

inline std::string generated_network(std::mt19937& random) { return frozen_sometimes(generated_whole_network(random)); }

}  // namespace trainer
