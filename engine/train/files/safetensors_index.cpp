#include "engine/train/files/safetensors_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"
#include "engine/train/files/durable_file.h"

namespace trainer {
namespace {

DataError damaged_index(const std::string& path, std::string_view what) {
  return DataError(fmt::format("{}: not a usable index of safetensors files: {}", path, what));
}

/// What keeps a text from being the name of a shard; empty: nothing.
std::string_view mistake_in_shard_name(const std::string& name) {
  constexpr std::size_t longest = 255;
  if (name.empty()) return "is empty";
  if (name.size() > longest) return "is longer than a file's name can be";
  if (name.find('/') != std::string::npos || name.find('\\') != std::string::npos || name.front() == '.')
    return "is not the name of a file beside the index";
  if (!mistake_in_text(name).empty() || name.find('\n') != std::string::npos) return "cannot name a file";
  if (!name.ends_with(".safetensors")) return "is not a .safetensors file";
  return "";
}

/// Takes the index event by event, so that a hostile one costs no more memory than its own length. What stands beside
/// the map of names is passed over, whatever it holds.
class IndexHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::map<std::string, std::string, std::less<>> weight_map;
  bool has_map = false;
  std::string problem;

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_integer(number_integer_t) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("binary data"); }
  bool string(string_t& value) override {
    if (!is_in_map_) return other("text");
    if (const std::string_view mistake = mistake_in_shard_name(value); !mistake.empty())
      return fail(fmt::format("'{}', which holds '{}', {}", shortened(value), shortened(name_), mistake));
    weight_map.emplace(name_, value);
    return true;
  }
  bool start_object(std::size_t) override {
    if (is_in_map_) return other("an object");
    if (depth_ == 1 && is_map_next_) is_in_map_ = has_map = true;
    return descend();
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      is_map_next_ = name == "weight_map";
      if (is_map_next_ && has_map) return fail("'weight_map' occurs twice");
    } else if (is_in_map_) {
      if (weight_map.contains(name)) return fail(fmt::format("'{}' occurs twice in 'weight_map'", shortened(name)));
      name_ = name;
    }
    return true;
  }
  bool end_object() override {
    is_in_map_ = false;
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return other("a list") && descend(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("it is not JSON (byte {})", position));
  }

 private:
  bool fail(std::string what) {
    problem = std::move(what);
    return false;
  }
  /// A value that is neither the map nor the name of a file.
  bool other(std::string_view what) {
    if (depth_ == 0) return fail(fmt::format("it is {}, not an object", what));
    if (is_in_map_)
      return fail(fmt::format("'weight_map' gives '{}' {}, not the name of a file", shortened(name_), what));
    if (depth_ == 1 && is_map_next_) return fail(fmt::format("'weight_map' is {}, not an object", what));
    return true;
  }
  bool descend() {
    ++depth_;
    return true;
  }

  std::string name_;  ///< the tensor that is read
  std::int64_t depth_ = 0;
  bool is_map_next_ = false, is_in_map_ = false;
};

}  // namespace

SafetensorsIndex read_safetensors_index(const std::string& path) {
  const std::string text = read_text_file(path, SafetensorsIndex::max_bytes);
  IndexHandler handler;
  if (!nlohmann::json::sax_parse(text, &handler)) throw damaged_index(path, handler.problem);
  if (!handler.has_map) throw damaged_index(path, "it has no 'weight_map'");
  if (handler.weight_map.empty()) throw damaged_index(path, "its 'weight_map' is empty");
  SafetensorsIndex index;
  for (const auto& [name, shard] : handler.weight_map) index.shards.push_back(shard);
  std::sort(index.shards.begin(), index.shards.end());
  index.shards.erase(std::unique(index.shards.begin(), index.shards.end()), index.shards.end());
  if (index.shards.size() > SafetensorsIndex::max_shards) {
    throw damaged_index(path, fmt::format("it names {} files, at most {} are supported", index.shards.size(),
                                          SafetensorsIndex::max_shards));
  }
  for (const auto& [name, shard] : handler.weight_map) {
    const auto found = std::lower_bound(index.shards.begin(), index.shards.end(), shard);
    index.places.emplace(name, static_cast<std::size_t>(found - index.shards.begin()));
  }
  return index;
}

bool is_safetensors_index(std::string_view path) { return path.ends_with(".json"); }

}  // namespace trainer
