#include "engine/train/files/weights_match.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "engine/config/diagnostic.h"
#include "engine/config/text/rewrite.h"
#include "engine/config/text/utf8_text.h"
#include "engine/graph/layer_pattern.h"
#include "engine/train/files/nearest_tensor.h"
#include "engine/train/files/saved_tensors.h"

namespace trainer {
namespace {

bool is_counter(std::string_view name) {
  return name == "num_batches_tracked" || name.ends_with(".num_batches_tracked");
}

bool has_numbers(const WeightTensor& tensor) {
  const DType type = tensor.type.dtype;
  return !tensor.is_foreign && (type == DType::f32 || type == DType::f16 || type == DType::bf16 || type == DType::f64);
}

/// Whether they are alike but for axes of length 1, as of PyTorch's class tokens and places, (1, tokens, C).
bool are_alike(const Shape& shape, const Shape& other) {
  const auto without_ones = [](const Shape& of) {
    std::vector<std::int64_t> dims;
    std::copy_if(of.begin(), of.end(), std::back_inserter(dims), [](std::int64_t dim) { return dim != 1; });
    return dims;
  };
  return without_ones(shape) == without_ones(other);
}

bool are_swapped(const Shape& shape, const Shape& other) {
  return shape.rank() == 2 && other.rank() == 2 && shape[0] == other[1] && shape[1] == other[0];
}

[[noreturn]] void refuse_key(std::string_view key, const SourceLocation& location, const std::string& message,
                             std::string_view expectation, std::string_view suggestion = "") {
  const std::string text = fmt::format("'{}': {}", key, message);
  if (location.file.empty()) throw ConfigError(fmt::format("{}; expected {}", text, expectation));
  throw located_error(location, text, expectation, suggestion);
}

/// Names that a key gives, and which of them named something.
class NamePatterns {
 public:
  NamePatterns(std::string key, const std::vector<std::string>& patterns, const SourceLocation& location)
      : key_(std::move(key)), patterns_(patterns), location_(location), used_(patterns.size(), false) {}

  bool names(std::string_view name) {
    bool is_named = false;
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      if (!matches_layer(patterns_[i], name, {})) continue;
      used_[i] = is_named = true;
    }
    return is_named;
  }

  void require_all_used(const std::vector<std::string>& known, std::string_view owner) const {
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      if (used_[i]) continue;
      refuse_key(key_, location_, fmt::format("no tensor of {} is named by '{}'", owner, shortened(patterns_[i])),
                 "a name, a path above it, or `*` for anything, as the table of `check` lists them",
                 nearest_tensor_name(patterns_[i], known));
    }
  }

  const std::string& key() const { return key_; }
  const SourceLocation& location() const { return location_; }

 private:
  std::string key_;
  const std::vector<std::string>& patterns_;
  const SourceLocation& location_;
  std::vector<bool> used_;
};

/// Why what a frozen network's file has is not loaded.
constexpr const char* beyond_note = "not of the layers that are built";

/// What says how a file is read.
std::string key_of(const std::string& network) { return network.empty() ? "weights" : network + ".weights"; }

std::string owner_of(const std::string& network) {
  return network.empty() ? "the model" : fmt::format("the network of '{}'", network);
}

/// Whether one side alone has it and it might be what the other side calls otherwise.
bool is_alone(const WeightsRow& row) {
  return row.status == WeightsStatus::mismatched ? !row.shape || !row.file_shape
                                                 : row.status == WeightsStatus::ignored && row.note == beyond_note;
}

class WeightsMatcher {
 public:
  /// `network`: of a frozen one; empty: `model` are the tensors of the model, whose layers are `layers`.
  WeightsMatcher(const WeightsConfig& config, const WeightFiles& files, std::vector<SavedTensor> model,
                 std::span<const Layer> layers, std::string network)
      : config_(config),
        files_(files),
        model_(std::move(model)),
        network_(std::move(network)),
        key_(key_of(network_)),
        transpose_(key_ + ".transpose", config.transpose, config.transpose_location),
        ignore_(key_ + ".ignore", config.ignore, config.ignore_location),
        fresh_(key_ + ".new", config.fresh, config.fresh_location) {
    for (const SavedTensor& saved : model_) known_.insert(saved.tensor.name);
    for (const Layer& layer : layers)
      if (!layer.shares.empty()) owners_[layer.path] = layer.shares;
  }

  WeightsMatch match() {
    rename();
    find_places();
    WeightsMatch match{.path = files_.path(), .files = {}, .network = network_, .rows = {}};
    for (const SafetensorsFile& file : files_.files()) match.files.push_back(file.path());
    for (const SavedTensor& saved : model_) add_model_row(saved, match.rows);
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (!is_taken_[i]) add_file_row(i, match.rows);
    if (config_.strict) {
      transpose_.require_all_used(model_names(), owner_of(network_));
      fresh_.require_all_used(model_names(), "the model");
      if (!is_optional(WeightsNames::ignore)) ignore_.require_all_used(names_, "the file");
    }
    if (config_.strict || is_frozen()) find_nearest(match.rows);
    return match;
  }

 private:
  std::span<const WeightTensor> tensors() const { return files_.tensors(); }

  bool is_optional(WeightsNames key) const {
    return std::find(config_.optional.begin(), config_.optional.end(), key) != config_.optional.end();
  }

  std::vector<std::string> model_names() const {
    std::vector<std::string> names;
    for (const SavedTensor& saved : model_) names.push_back(saved.tensor.name);
    return names;
  }

  void rename() {
    for (const WeightTensor& tensor : tensors()) names_.push_back(tensor.name);
    for (const TextPair& texts : config_.rename) {
      const Rewrite rewrite(texts);
      bool has_any = false;
      for (std::string& name : names_) {
        require_short(name, texts);
        has_any = rewrite.apply(name) || has_any;
        require_short(name, texts);
        if (name.empty()) refuse_rename(texts, "leaves nothing of a name", "a replacement that keeps a part of it");
      }
      if (!has_any && config_.strict && !is_optional(WeightsNames::rename)) {
        refuse_rename(texts, fmt::format("matches none of the {} names of {}", names_.size(), shortened(files_.path())),
                      "an expression that matches, or none");
      }
    }
  }

  void require_short(const std::string& name, const TextPair& texts) const {
    if (name.size() > Rewrite::longest_result) {
      refuse_rename(texts, fmt::format("meets or makes a name of {} bytes", name.size()),
                    fmt::format("names of at most {} bytes", Rewrite::longest_result));
    }
  }

  [[noreturn]] void refuse_rename(const TextPair& texts, const std::string& what, std::string_view expectation) const {
    refuse_key(key_ + ".rename", config_.rename_location, fmt::format("'{}' {}", shortened(texts[0]), what),
               expectation);
  }

  /// Where each name is, but for the ignored ones.
  void find_places() {
    is_ignored_.assign(names_.size(), false);
    is_taken_.assign(names_.size(), false);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const std::string& original = tensors()[i].name;
      const bool by_file_name = ignore_.names(original);
      is_ignored_[i] = (names_[i] != original && ignore_.names(names_[i])) || by_file_name || is_counter(original);
      if (is_ignored_[i]) continue;
      const auto [place, is_new] = places_.emplace(names_[i], i);
      if (is_new) continue;
      refuse_key(key_ + ".rename", config_.rename_location,
                 fmt::format("'{}' and '{}' of the file are both named '{}'", shortened(tensors()[place->second].name),
                             shortened(original), shortened(names_[i])),
                 "one name for each, or one of them in " + key_ + ".ignore");
    }
  }

  void take_from_file(WeightsRow& row, std::size_t i) const {
    const WeightTensor& tensor = tensors()[i];
    row.file_name = tensor.name;
    row.file_shape = tensor.type.shape;
    row.file_dtype = tensor.dtype;
    row.tensor = static_cast<std::int32_t>(i);
  }

  void add_model_row(const SavedTensor& saved, std::vector<WeightsRow>& rows) {
    WeightsRow row;
    row.name = saved.tensor.name;
    row.shape = saved.tensor.type.shape;
    const bool swaps = transpose_.names(row.name);
    if (swaps && row.shape->rank() > 2) {
      refuse_key(transpose_.key(), transpose_.location(),
                 fmt::format("'{}' is {}, no matrix", shortened(row.name), row.shape->to_string()),
                 "tensors of two axes, or of one, which stay as they are");
    }
    row.is_transposed = swaps && row.shape->rank() == 2;
    const bool is_fresh = fresh_.names(row.name);
    const auto place = places_.find(row.name);
    if (is_fresh || place == places_.end()) {
      row.status = is_fresh || (!config_.strict && !is_frozen()) ? WeightsStatus::fresh : WeightsStatus::mismatched;
      row.is_transposed = false;
      if (row.status == WeightsStatus::mismatched)
        row.note = is_frozen() ? "only the network has it" : "only the model has it";
      rows.push_back(std::move(row));
      return;
    }
    is_taken_[place->second] = true;
    take_from_file(row, place->second);
    row.note = mistake_in(row, tensors()[place->second]);
    row.status = row.note.empty() ? WeightsStatus::loaded : WeightsStatus::mismatched;
    rows.push_back(std::move(row));
  }

  /// Of a tensor that both have; empty: nothing.
  std::string mistake_in(const WeightsRow& row, const WeightTensor& tensor) const {
    if (!has_numbers(tensor)) return fmt::format("the file's is {}, no floating-point numbers", tensor.dtype);
    const Shape& wanted = *row.shape;
    const Shape& found = *row.file_shape;
    if (row.is_transposed ? are_swapped(wanted, found) : are_alike(wanted, found)) return "";
    return fmt::format("the file's is {}, the {} {}{}", found.to_string(), is_frozen() ? "network's" : "model's",
                       wanted.to_string(), row.is_transposed ? fmt::format(", which {}.transpose swaps", key_) : "");
  }

  void add_file_row(std::size_t i, std::vector<WeightsRow>& rows) const {
    WeightsRow row;
    row.name = names_[i];
    take_from_file(row, i);
    if (is_ignored_[i]) {
      row.status = WeightsStatus::ignored;
      if (is_counter(row.file_name)) row.note = "a counter that nothing reads";
    } else if (known_.contains(row.name)) {
      row.status = WeightsStatus::ignored;
      row.note = "the model's is new";
    } else if (!config_.strict) {
      row.status = WeightsStatus::ignored;
      row.note = is_frozen() ? beyond_note : "only the file has it";
    } else {
      row.note = "only the file has it";
      const auto owner = owners_.find(row.name.substr(0, row.name.rfind('.')));
      if (owner != owners_.end())
        row.note +=
            fmt::format(", since layer '{}' uses the parameters of '{}': weights.ignore", owner->first, owner->second);
    }
    rows.push_back(std::move(row));
  }

  /// Of those that one side alone has, the nearest of the other side's.
  static void find_nearest(std::vector<WeightsRow>& rows) {
    std::vector<std::string> of_model, of_file;
    for (const WeightsRow& row : rows) {
      if (is_alone(row) && !row.shape) of_file.push_back(row.name);
      if (row.status == WeightsStatus::mismatched && !row.file_shape) of_model.push_back(row.name);
    }
    std::size_t num_sought = 0;
    for (WeightsRow& row : rows) {
      if (row.status != WeightsStatus::mismatched || (row.shape && row.file_shape)) continue;
      if (++num_sought > most_sought) return;
      row.nearest = nearest_tensor_name(row.name, row.shape ? of_file : of_model);
    }
  }

  bool is_frozen() const { return !network_.empty(); }

  static constexpr std::size_t most_sought = 200;  ///< each of which is compared with many names

  const WeightsConfig& config_;
  const WeightFiles& files_;
  const std::vector<SavedTensor> model_;
  const std::string network_, key_;
  NamePatterns transpose_, ignore_, fresh_;
  std::set<std::string, std::less<>> known_;   ///< the model's names
  std::map<std::string, std::string> owners_;  ///< by the path of a layer: whose parameters it uses
  std::vector<std::string> names_;             ///< of the file's tensors, renamed
  std::vector<bool> is_ignored_, is_taken_;
  std::map<std::string, std::size_t, std::less<>> places_;
};

/// "[a, b]", of at most six; empty where there are none or more, or one that YAML or a pattern would take for more.
std::string name_list(const std::vector<std::string>& names) {
  constexpr std::size_t most = 6, most_letters = 120;
  const auto is_plain = [](const std::string& name) {
    return !name.empty() && name.size() <= most_letters && std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return (c < 0x80 && std::isalnum(c) != 0) || c == '.' || c == '_' || c == '-' || c == '/';
    });
  };
  if (!std::all_of(names.begin(), names.end(), is_plain)) return "";
  return names.empty() || names.size() > most ? "" : fmt::format("[{}]", fmt::join(names, ", "));
}

std::string keyed_names(std::string_view key, const std::vector<std::string>& names) {
  const std::string list = name_list(names);
  return list.empty() ? std::string(key) : fmt::format("{}: {}", key, list);
}

bool is_square(const Shape& shape) { return shape.rank() == 2 && shape[0] == shape[1]; }

/// What would help, a line each.
std::string help_for(const WeightsMatch& match) {
  std::vector<std::string> swapped, of_another_size, of_file, of_model;
  std::string square;  ///< the first that is loaded as it is, though nothing tells whether its axes are swapped
  const std::string key = key_of(match.network);
  const bool is_frozen = !match.network.empty();
  for (const WeightsRow& row : match.rows) {
    if (is_alone(row) && !row.shape) of_file.push_back(row.name);
    if (square.empty() && row.status == WeightsStatus::loaded && !row.is_transposed && row.shape &&
        is_square(*row.shape))
      square = row.name;
    if (row.status != WeightsStatus::mismatched || !row.shape) continue;
    if (!row.file_shape) {
      of_model.push_back(row.name);
    } else if (!row.is_transposed && are_swapped(*row.shape, *row.file_shape)) {
      swapped.push_back(row.name);
    } else if (!are_alike(*row.shape, *row.file_shape)) {
      of_another_size.push_back(row.name);
    }
  }
  std::string text;
  const char* const whose = is_frozen ? "network's" : "model's";
  if (std::string prefix = common_prefix(of_file, of_model); !prefix.empty()) {
    for (std::size_t dot = prefix.find('.'); dot != std::string::npos; dot = prefix.find('.', dot + 2))
      prefix.insert(dot, 1, '\\');
    text += fmt::format("\n{}.rename: [['^{}', '']] makes the file's names the {}", key, prefix, whose);
    of_file.clear();
    of_model.clear();
  } else if (prefix = common_prefix(of_model, of_file); !prefix.empty() && match.count(WeightsStatus::loaded) == 0) {
    text += fmt::format("\n{}.rename: [['^', '{}']] makes the file's names the {}", key, prefix, whose);
    of_file.clear();
    of_model.clear();
  }
  if (!swapped.empty()) {
    text += fmt::format("\n{} swaps the two axes of what is loaded", keyed_names(key + ".transpose", swapped));
    if (!square.empty())
      text += fmt::format(
          "; square ones may need it too, which no size tells, such as {}: {}.map names a map of the model file that "
          "knows, where it has one",
          square, key);
  }
  if (is_frozen && !of_another_size.empty())
    text += "\nits layers must be those that the file was made of, and the images must have as many channels";
  if (is_frozen) return text;
  if (!of_another_size.empty())
    text += fmt::format("\n{} starts anew what has another size", keyed_names(key + ".new", of_another_size));
  if (!of_file.empty())
    text += fmt::format("\n{} leaves in the file what the model has not", keyed_names(key + ".ignore", of_file));
  if (!of_model.empty())
    text += fmt::format("\n{} starts anew what the file has not", keyed_names(key + ".new", of_model));
  return text;
}

std::string mismatch_text(const WeightsMatch& match) {
  constexpr std::size_t most_shown = 20;
  const std::int64_t num_mismatched = match.count(WeightsStatus::mismatched);
  std::string text = fmt::format("{} and {} do not match: {} of {} tensors", shortened(match.path, 200),
                                 owner_of(match.network), num_mismatched, match.rows.size());
  std::size_t num_shown = 0;
  for (const WeightsRow& row : match.rows) {
    if (row.status != WeightsStatus::mismatched) continue;
    if (++num_shown > most_shown) continue;
    text += fmt::format("\n  {}: {}", shortened(row.name, 100), row.note);
    if (row.file_shape && row.file_name != row.name) text += fmt::format(", as '{}'", shortened(row.file_name, 100));
    if (!row.shape != !row.file_shape)
      text += fmt::format(", {}", (row.shape ? row.shape : row.file_shape)->to_string());
    if (!row.nearest.empty())
      text += fmt::format("; the {} nearest is '{}'",
                          row.shape               ? "file's"
                          : match.network.empty() ? "model's"
                                                  : "network's",
                          shortened(row.nearest, 100));
  }
  if (num_shown > most_shown) text += fmt::format("\n  and {} more", num_shown - most_shown);
  if (num_mismatched == 0)
    return fmt::format("none of the tensors of {} is one of {}", match.path,
                       match.network.empty() ? "the model's" : owner_of(match.network));
  return text + help_for(match);
}

}  // namespace

std::string_view name_of(WeightsStatus status) {
  switch (status) {
    case WeightsStatus::loaded:
      return "loaded";
    case WeightsStatus::fresh:
      return "new";
    case WeightsStatus::ignored:
      return "ignored";
    case WeightsStatus::mismatched:
      return "mismatched";
  }
  return "";
}

std::int64_t WeightsMatch::count(WeightsStatus status) const {
  return std::count_if(rows.begin(), rows.end(), [&](const WeightsRow& row) { return row.status == status; });
}

WeightsMismatch::WeightsMismatch(WeightsMatch match) : DataError(mismatch_text(match)), match_(std::move(match)) {}

WeightsMatch match_weights(const WeightsConfig& config, const WeightFiles& files, const Program& program) {
  return WeightsMatcher(config, files, model_tensors(program), program.layers, "").match();
}

WeightsMatch match_weights(const WeightsConfig& config, const WeightFiles& files, const Graph& graph) {
  return WeightsMatcher(config, files, model_tensors(graph), graph.layers, "").match();
}

WeightsMatch match_frozen_weights(const WeightsConfig& config, const WeightFiles& files,
                                  std::vector<SavedTensor> tensors, const std::string& network) {
  return WeightsMatcher(config, files, std::move(tensors), {}, network).match();
}

void require_match(const WeightsMatch& match) {
  if (match.count(WeightsStatus::mismatched) > 0 || match.count(WeightsStatus::loaded) == 0)
    throw WeightsMismatch(match);
}

}  // namespace trainer
