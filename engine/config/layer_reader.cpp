#include "engine/config/layer_reader.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/fields/layer_fields.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/suggestion.h"
#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/references.h"

namespace trainer {
namespace {

constexpr std::size_t longest_path = 1024;

std::string inputs_expected(const LayerKind& kind) {
  if (!kind.takes_several()) return "a layer: from: a";
  const std::string number = kind.max_inputs == any_number ? fmt::format("at least {}", kind.min_inputs)
                             : kind.min_inputs == kind.max_inputs
                                 ? fmt::format("{}", kind.min_inputs)
                                 : fmt::format("{} to {}", kind.min_inputs, kind.max_inputs);
  return fmt::format("{}{} layers: from: [a, b{}]", kind.takes_one ? "a layer, or " : "", number,
                     kind.min_inputs == 3 ? ", c" : "");
}

bool is_layer_name(std::string_view name) {
  const bool has_valid_letters = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c < 0x80 && std::isalnum(c) != 0) || c == '_' || c == '-';
  });
  // Numbers are the positions of layers without a name.
  return has_valid_letters &&
         !std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_layer_path(const Node& node) {
  return node.kind == NodeKind::scalar && !node.text.empty() && node.text.size() <= longest_path &&
         std::all_of(node.text.begin(), node.text.end(), [](unsigned char c) {
           return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.');
         });
}

class LayerReader {
 public:
  explicit LayerReader(SourceSet& sources) : sources_(sources) {}

  std::vector<LayerSpec> read_list(const Node& node, const std::string& key) {
    std::vector<LayerSpec> layers;
    if (node.kind != NodeKind::sequence) {
      sources_.report(node.mark,
                      fmt::format("'{}' {}", key, node.kind == NodeKind::null ? "has no value" : "is not a list"),
                      "a list of layers, each after '- '");
      return layers;
    }
    std::set<std::string> names;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      LayerSpec layer;
      const bool read = read_layer(node.items[i], fmt::format("{}.{}", key, i), layer);
      follow_rank(layer.kind);
      if (!read) continue;
      if (!layer.name.empty() && !names.insert(layer.name).second) {
        sources_.report(name_mark_, fmt::format("two layers of this list are called '{}'", layer.name),
                        "a name of its own");
      }
      if (layer.name == "in") {
        sources_.report(name_mark_, "'in' already stands for the input of each list of layers", "another name");
      }
      if (key == "model.layers" && (layer.name == "input" || layer.name == "loss")) {
        sources_.report(name_mark_, fmt::format("the model's {0} is already called '{0}'", layer.name), "another name");
      }
      layers.push_back(std::move(layer));
    }
    return layers;
  }

 private:
  bool read_layer(const Node& node, const std::string& key, LayerSpec& layer) {
    if (node.kind == NodeKind::scalar) {
      if (!start(node.text, node.mark, layer) || !check_required(layer, node.mark, {})) return false;
      check_layer(layer, node, node.mark);
      return true;
    }
    if (node.kind != NodeKind::map || node.entries.empty()) {
      sources_.report(node.mark, fmt::format("'{}' is not a layer", key),
                      "a name, such as relu, or a name with keys, such as linear: {out: 10}");
      return false;
    }
    const MapEntry& first = node.entries.front();
    if (node.entries.size() > 1) {
      report_several_keys(node);
      return false;
    }
    if (!start(first.key, first.key_mark, layer)) return false;
    const Node& keys = first.value;
    if (keys.kind != NodeKind::map && keys.kind != NodeKind::null) {
      report_no_map(first);
      return false;
    }
    return read_keys(keys, key, first.key_mark, layer);
  }

  bool start(const std::string& name, const Mark& mark, LayerSpec& layer) {
    const LayerKind* kind = find_layer_kind(name);
    if (kind == nullptr) {
      const std::vector<std::string> names = layer_kind_names();
      sources_.report(mark, fmt::format("unknown layer '{}'", shortened(name)),
                      fmt::format("one of {}", fmt::join(names, ", ")), suggest_layer(name, of_features_));
      return false;
    }
    layer.kind = kind->name;
    layer.spec = kind->initial;
    layer.location = sources_.location(mark);
    return true;
  }

  /// What the layers read so far tell of the input of the next.
  void follow_rank(std::string_view kind) {
    if (kind == "linear" || kind == "flatten" || kind == "global_avgpool" || kind == "batchnorm1d") of_features_ = true;
    if (kind == "conv2d" || kind == "batchnorm2d" || kind == "maxpool2d" || kind == "avgpool2d") of_features_ = false;
  }

  void report_several_keys(const Node& node) {
    const MapEntry& first = node.entries.front();
    const MapEntry& second = node.entries[1];
    const LayerKind* kind = find_layer_kind(first.key);
    const bool is_own_key = kind != nullptr && first.value.kind == NodeKind::null;
    if (is_own_key) {
      sources_.report(second.key_mark,
                      fmt::format("'{}' stands beside '{}', not in it", shortened(second.key), first.key),
                      fmt::format("{}: {{{}: …}}, or two more spaces before '{}'", first.key, shortened(second.key),
                                  shortened(second.key)));
    } else {
      sources_.report(second.key_mark, "a layer has one key, its kind",
                      kind != nullptr && second.key == "name" ? fmt::format("name inside: {}: {{name: …}}", first.key)
                                                              : "'- ' before each layer");
    }
  }

  void report_no_map(const MapEntry& entry) {
    const LayerKind* kind = find_layer_kind(entry.key);
    sources_.report(entry.value.mark, fmt::format("the keys of '{}' are missing", entry.key), kind->example);
  }

  bool read_keys(const Node& node, const std::string& key, const Mark& kind_mark, LayerSpec& layer) {
    const LayerKind& kind = *find_layer_kind(layer.kind);
    std::set<std::string> given;
    bool holds = true;
    for (const MapEntry& entry : node.entries) {
      given.insert(entry.key);
      if (entry.value.kind == NodeKind::null && !entry.value.absent) {
        given.erase(entry.key);
        if (is_key(kind, entry.key)) continue;
      }
      if (entry.key == "name") {
        holds = read_name(entry, layer) && holds;
        continue;
      }
      if (entry.key == "from") {
        holds = read_from(kind, entry, layer) && holds;
        continue;
      }
      if (entry.key == "share" && kind.has_parameters) {
        holds = read_share(entry, layer) && holds;
        continue;
      }
      const auto field =
          std::find_if(kind.fields.begin(), kind.fields.end(), [&](const auto& each) { return each.key == entry.key; });
      if (field == kind.fields.end()) {
        report_unknown(kind, entry);
        holds = false;
      } else if (field->layers) {
        field->layers(layer) = read_list(entry.value, fmt::format("{}.{}.{}", key, kind.name, entry.key));
        if (field->is_required && entry.value.kind == NodeKind::sequence && entry.value.items.empty()) {
          sources_.report(entry.key_mark, fmt::format("'{}' of '{}' is empty", entry.key, kind.name),
                          "at least one layer");
        }
      } else if (const auto value = read_value(entry.value, field->rule, entry.key, sources_)) {
        field->set(layer, *value);
      } else {
        holds = false;
      }
    }
    if (!check_required(layer, kind_mark, given) || !holds) return holds;
    if (!layer.share.empty() && given.contains("init"))
      sources_.report(node.find("init")->mark, "'init' stands beside 'share', whose layer says how they start",
                      "one of them");
    follow_kernel(layer, given);
    check_layer(layer, node, kind_mark);
    return true;
  }

  static bool is_key(const LayerKind& kind, const std::string& key) {
    const std::vector<std::string> keys = kind.keys();
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  }

  bool read_name(const MapEntry& entry, LayerSpec& layer) {
    name_mark_ = entry.value.mark;
    if (entry.value.is_broken) return false;
    if (entry.value.kind != NodeKind::scalar || entry.value.text.empty() || !is_layer_name(entry.value.text)) {
      sources_.report(entry.value.mark, fmt::format("'{}' is no name for a layer", shortened(entry.value.text)),
                      "letters, digits, '_' and '-', not digits alone");
      return false;
    }
    layer.name = entry.value.text;
    return true;
  }

  bool read_from(const LayerKind& kind, const MapEntry& entry, LayerSpec& layer) {
    const Node& value = entry.value;
    const auto refuse = [&](const Mark& mark, const std::string& what) {
      sources_.report(mark, what, inputs_expected(kind));
      return false;
    };
    layer.from_location = sources_.location(value.mark);
    if (value.is_broken ||
        std::any_of(value.items.begin(), value.items.end(), [](const Node& n) { return n.is_broken; }))
      return false;
    if (kind.takes_one && (!kind.takes_several() || value.kind != NodeKind::sequence)) {
      if (!is_layer_path(value)) return refuse(value.mark, "'from' names no layer");
      layer.from = {value.text};
      return true;
    }
    const auto num_inputs = static_cast<std::int64_t>(value.items.size());
    if (value.kind != NodeKind::sequence || num_inputs < kind.min_inputs || num_inputs > kind.max_inputs)
      return refuse(value.mark,
                    fmt::format("'{}' takes {}", kind.name,
                                kind.takes_one ? fmt::format("one layer, or {}", kind.max_inputs) : "several layers"));
    for (const Node& item : value.items) {
      if (!is_layer_path(item)) return refuse(item.mark, "'from' names no layer");
      // What takes one layer alone takes it for each of its inputs too, such as attention without products in front.
      if (!kind.takes_one && std::find(layer.from.begin(), layer.from.end(), item.text) != layer.from.end())
        return refuse(item.mark, fmt::format("'from' names '{}' twice", shortened(item.text)));
      layer.from.push_back(item.text);
    }
    return true;
  }

  bool read_share(const MapEntry& entry, LayerSpec& layer) {
    if (entry.value.is_broken) return false;
    layer.share_location = sources_.location(entry.value.mark);
    if (!is_layer_path(entry.value)) {
      sources_.report(entry.value.mark, "'share' names no layer", "a layer before it: share: a");
      return false;
    }
    layer.share = entry.value.text;
    return true;
  }

  void report_unknown(const LayerKind& kind, const MapEntry& entry) {
    if (entry.key == "share") {
      sources_.report(entry.key_mark, fmt::format("'{}' has no parameters that could be shared", kind.name),
                      "no 'share'");
      return;
    }
    sources_.report(entry.key_mark, fmt::format("unknown key '{}' in '{}'", shortened(entry.key), kind.name),
                    fmt::format("one of {}", fmt::join(kind.keys(), ", ")),
                    suggest_key(entry.key, kind.fields, kind.keys()));
  }

  bool check_required(const LayerSpec& layer, const Mark& mark, const std::set<std::string>& given) {
    const LayerKind& kind = *find_layer_kind(layer.kind);
    bool holds = true;
    if (!kind.takes_one && !given.contains("from")) {
      sources_.report(mark, fmt::format("'{}' needs 'from'", kind.name), kind.example);
      holds = false;
    }
    for (const auto& field : kind.fields) {
      if (!field.is_required || given.contains(field.key)) continue;
      sources_.report(mark, fmt::format("'{}' needs '{}'", kind.name, field.key), kind.example);
      holds = false;
    }
    return holds;
  }

  static void follow_kernel(LayerSpec& layer, const std::set<std::string>& given) {
    if (given.contains("stride")) return;
    if (auto* pool = std::get_if<MaxPool2dSpec>(&layer.spec)) pool->stride = pool->kernel;
    if (auto* pool = std::get_if<AvgPool2dSpec>(&layer.spec)) pool->stride = pool->kernel;
  }

  void check_layer(const LayerSpec& layer, const Node& node, const Mark& kind_mark) {
    const auto mark_of = [&](std::string_view key) {
      const Node* value = node.find(key);
      return value == nullptr ? kind_mark : value->mark;
    };
    if (const auto* repeat = std::get_if<RepeatSpec>(&layer.spec)) {
      if (num_expanded_layers(repeat->layers) <= most_layers && num_expanded_layers({&layer, 1}) > most_layers) {
        sources_.report(mark_of("times"),
                        fmt::format("more than {} layers once every repeat is written out", most_layers),
                        "fewer times");
      }
    }
    if (const auto* conv = std::get_if<Conv2dSpec>(&layer.spec))
      check_groups(conv->groups, conv->out, mark_of("groups"));
    if (const auto* conv = std::get_if<ConvTranspose2dSpec>(&layer.spec)) {
      check_groups(conv->groups, conv->out, mark_of("groups"));
      if (conv->output_padding[0] >= conv->stride[0] || conv->output_padding[1] >= conv->stride[1])
        sources_.report(mark_of("output_padding"), "'output_padding' is not below 'stride'",
                        fmt::format("at most {}", std::min(conv->stride[0], conv->stride[1]) - 1));
    }
    if (const auto* attention = std::get_if<AttentionSpec>(&layer.spec)) check_attention(*attention, mark_of);
    if (const auto* upsample = std::get_if<UpsampleSpec>(&layer.spec)) check_upsample(*upsample, mark_of, kind_mark);
    if (const auto* pad = std::get_if<PadSpec>(&layer.spec); pad != nullptr && pad->mode != PadMode::zeros) {
      if (pad->value != 0)
        sources_.report(mark_of("value"), "'value' is for 'mode: zeros'", "no 'value', or 'mode: zeros'");
    }
    if (const auto* pool = std::get_if<MaxPool2dSpec>(&layer.spec))
      check_padding(pool->kernel, pool->padding, mark_of("padding"));
    if (const auto* pool = std::get_if<AvgPool2dSpec>(&layer.spec))
      check_padding(pool->kernel, pool->padding, mark_of("padding"));
  }

  template <typename MarkOf>
  void check_attention(const AttentionSpec& attention, const MarkOf& mark_of) {
    if (attention.heads % attention.kv_heads.value_or(attention.heads) != 0)
      sources_.report(mark_of("kv_heads"),
                      fmt::format("{} heads of keys do not divide {} of queries", *attention.kv_heads, attention.heads),
                      "a divisor of 'heads'");
    if (attention.window && !attention.causal)
      sources_.report(mark_of("window"), "'window' is for 'causal: true'", "'causal: true', or no 'window'");
    if (attention.rotary_factor && !attention.rotary_base)
      sources_.report(mark_of("rotary_factor"), "'rotary_factor' stretches what 'rotary_base' rotates",
                      "'rotary_base', or no 'rotary_factor'");
    const std::pair<const char*, bool> stretching[] = {
        {"rotary_low_freq_factor", attention.rotary_low_freq_factor.has_value()},
        {"rotary_high_freq_factor", attention.rotary_high_freq_factor.has_value()},
        {"rotary_original_length", attention.rotary_original_length.has_value()}};
    for (const auto& [key, is_given] : stretching)
      if (is_given && !attention.rotary_factor)
        sources_.report(mark_of(key), fmt::format("'{}' is for 'rotary_factor'", key), "'rotary_factor' beside it");
    const RotaryStretch stretch = attention.rotary_stretch();
    if (stretch.low_freq_factor >= stretch.high_freq_factor)
      sources_.report(mark_of(attention.rotary_low_freq_factor ? "rotary_low_freq_factor" : "rotary_high_freq_factor"),
                      fmt::format("'rotary_low_freq_factor' is {}, not below 'rotary_high_freq_factor', {}",
                                  stretch.low_freq_factor, stretch.high_freq_factor),
                      "fewer turns for slow rotations than for fast ones");
  }

  template <typename MarkOf>
  void check_upsample(const UpsampleSpec& upsample, const MarkOf& mark_of, const Mark& kind_mark) {
    const std::string_view expectation = "one of scale, such as 2, and size, such as [64, 64]";
    if (upsample.scale && upsample.size)
      sources_.report(mark_of("size"), "'upsample' has both 'scale' and 'size'", std::string(expectation));
    if (!upsample.scale && !upsample.size)
      sources_.report(kind_mark, "'upsample' needs 'scale' or 'size'", std::string(expectation));
    if (upsample.align_corners && upsample.mode == Interpolation::nearest)
      sources_.report(mark_of("align_corners"), "'align_corners' is for 'mode: bilinear'",
                      "'mode: bilinear', or no 'align_corners'");
  }

  void check_groups(std::int64_t groups, std::int64_t out, const Mark& mark) {
    if (out % groups != 0)
      sources_.report(mark, fmt::format("{} groups do not divide {} output channels", groups, out),
                      "a divisor of 'out'");
  }

  void check_padding(const Pair& kernel, const Pair& padding, const Mark& mark) {
    if (padding[0] * 2 <= kernel[0] && padding[1] * 2 <= kernel[1]) return;
    sources_.report(mark, "padding is more than half the kernel",
                    fmt::format("at most {}", std::min(kernel[0], kernel[1]) / 2));
  }

  SourceSet& sources_;
  Mark name_mark_;
  bool of_features_ = false;
};

Node scalar(std::string text) {
  Node node;
  node.kind = NodeKind::scalar;
  node.quoted = true;
  node.text = std::move(text);
  return node;
}

Node node_of_from(const std::vector<std::string>& from) {
  if (from.size() == 1) return scalar(from.front());
  Node list;
  list.kind = NodeKind::sequence;
  for (const std::string& name : from) list.items.push_back(scalar(name));
  return list;
}

Node node_of_layer(const LayerSpec& layer) {
  const LayerKind* kind = find_layer_kind(layer.kind);
  Node keys;
  keys.kind = NodeKind::map;
  for (const auto& field : kind->fields) {
    Node value;
    if (field.layers) {
      value = node_of_layers(field.const_layers(layer));
      if (value.items.empty()) continue;
    } else {
      value = node_of(field.get(layer));
    }
    if (value.kind != NodeKind::null) keys.entries.push_back({field.key, {}, std::move(value)});
  }
  if (!layer.name.empty()) keys.entries.push_back({"name", {}, scalar(layer.name)});
  if (!layer.from.empty()) keys.entries.push_back({"from", {}, node_of_from(layer.from)});
  if (!layer.share.empty()) keys.entries.push_back({"share", {}, scalar(layer.share)});
  if (keys.entries.empty()) return scalar(layer.kind);
  Node node;
  node.kind = NodeKind::map;
  node.entries.push_back({layer.kind, {}, std::move(keys)});
  return node;
}

}  // namespace

std::string suggest_layer(const std::string& name, bool of_features) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  std::erase(lower, '_');
  std::erase(lower, '-');
  constexpr std::pair<std::string_view, std::string_view> synonyms[] = {{"dense", "linear"},
                                                                        {"fc", "linear"},
                                                                        {"conv", "conv2d"},
                                                                        {"swish", "silu"},
                                                                        {"leakyrelu", "leaky_relu"},
                                                                        {"lrelu", "leaky_relu"},
                                                                        {"hswish", "hardswish"},
                                                                        {"hardsilu", "hardswish"},
                                                                        {"hsigmoid", "hardsigmoid"},
                                                                        {"cat", "concat"},
                                                                        {"embed", "embedding"},
                                                                        {"wte", "embedding"},
                                                                        {"wpe", "position_embedding"},
                                                                        {"positionalembedding", "position_embedding"},
                                                                        {"concatenate", "concat"},
                                                                        {"mul", "multiply"},
                                                                        {"product", "multiply"},
                                                                        {"gate", "multiply"},
                                                                        {"sum", "add"},
                                                                        {"plus", "add"},
                                                                        {"maxpool", "maxpool2d"},
                                                                        {"ln", "layernorm"},
                                                                        {"rms", "rmsnorm"},
                                                                        {"multiheadattention", "attention"},
                                                                        {"mha", "attention"},
                                                                        {"selfattention", "attention"},
                                                                        {"crossattention", "attention"},
                                                                        {"sdpa", "attention"},
                                                                        {"rmsnormalization", "rmsnorm"},
                                                                        {"gn", "groupnorm"},
                                                                        {"groupnormalization", "groupnorm"},
                                                                        {"instancenorm", "instancenorm2d"},
                                                                        {"maxpooling2d", "maxpool2d"},
                                                                        {"avgpool", "avgpool2d"},
                                                                        {"avgpooling2d", "avgpool2d"},
                                                                        {"gap", "global_avgpool"},
                                                                        {"globalavgpool2d", "global_avgpool"},
                                                                        {"adaptiveavgpool2d", "adaptive_avgpool2d"},
                                                                        {"convtranspose2d", "conv_transpose2d"},
                                                                        {"convtranspose", "conv_transpose2d"},
                                                                        {"conv2dtranspose", "conv_transpose2d"},
                                                                        {"deconv2d", "conv_transpose2d"},
                                                                        {"deconv", "conv_transpose2d"},
                                                                        {"deconvolution", "conv_transpose2d"},
                                                                        {"depthwiseconv2d", "conv2d"},
                                                                        {"adaptiveavgpool", "adaptive_avgpool2d"},
                                                                        {"interpolate", "upsample"},
                                                                        {"resize", "upsample"},
                                                                        {"upsampling2d", "upsample"},
                                                                        {"upsamplingnearest2d", "upsample"},
                                                                        {"upsamplingbilinear2d", "upsample"},
                                                                        {"zeropad2d", "pad"},
                                                                        {"zeropadding2d", "pad"},
                                                                        {"constantpad2d", "pad"},
                                                                        {"reflectionpad2d", "pad"},
                                                                        {"replicationpad2d", "pad"},
                                                                        {"globalavgpool", "global_avgpool"}};
  if (lower == "bn" || lower == "batchnorm") return of_features ? "batchnorm1d" : "batchnorm2d";
  for (const auto& [word, kind] : synonyms) {
    if (lower == word) return std::string(kind);
  }
  return std::string(nearest(name, layer_kind_names()));
}

std::vector<LayerSpec> read_layers(const Node& node, const std::string& key, SourceSet& sources) {
  return LayerReader(sources).read_list(node, key);
}

std::int64_t num_expanded_layers(std::span<const LayerSpec> layers) {
  std::int64_t total = 0;
  for (const LayerSpec& layer : layers) {
    std::int64_t count = 1;
    if (const auto* residual = std::get_if<ResidualSpec>(&layer.spec)) {
      count += num_expanded_layers(residual->layers) + num_expanded_layers(residual->shortcut);
    } else if (const auto* sequential = std::get_if<SequentialSpec>(&layer.spec)) {
      count += num_expanded_layers(sequential->layers);
    } else if (const auto* repeat = std::get_if<RepeatSpec>(&layer.spec)) {
      // Both factors are below 2^31, so the product is exact.
      count += std::max<std::int64_t>(1, num_expanded_layers(repeat->layers)) * repeat->times;
    }
    total = std::min(total + count, most_layers + 1);
  }
  return total;
}

Node node_of_layers(const std::vector<LayerSpec>& layers) {
  Node node;
  node.kind = NodeKind::sequence;
  for (const LayerSpec& layer : layers) node.items.push_back(node_of_layer(layer));
  return node;
}

}  // namespace trainer
