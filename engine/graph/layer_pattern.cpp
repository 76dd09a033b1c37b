#include "engine/graph/layer_pattern.h"

#include <fmt/format.h>

#include <cstddef>

#include "engine/config/diagnostic.h"
#include "engine/config/text/glob.h"
#include "engine/config/text/nearest_word.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

[[noreturn]] void refuse(const std::string& pattern, const std::vector<Layer>& layers, std::string_view key,
                         const SourceLocation& location) {
  const std::string message = fmt::format("'{}': no layer matches '{}'", key, pattern);
  const std::string expectation =
      fmt::format("a path or kind of a layer, as `{}` lists them, with `*` for anything", trainer_command("summary"));
  if (location.file.empty()) throw ConfigError(message + "; expected " + expectation);
  std::vector<std::string> words;
  for (const Layer& layer : layers) {
    words.push_back(layer.path);
    words.push_back(layer.kind);
  }
  throw located_error(location, message, expectation, nearest(pattern, words));
}

}  // namespace

bool matches_layer(std::string_view pattern, std::string_view path, std::string_view kind) {
  if (matches_glob(pattern, kind)) return true;
  for (std::size_t end = path.size(); end != std::string_view::npos && end > 0; end = path.rfind('.', end - 1))
    if (matches_glob(pattern, path.substr(0, end))) return true;
  return false;
}

std::vector<bool> matching_layers(std::span<const std::string> patterns, const std::vector<Layer>& layers,
                                  std::string_view key, const SourceLocation& location) {
  std::vector<bool> matching(layers.size(), false);
  for (const std::string& pattern : patterns) {
    bool has_any = false;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!matches_layer(pattern, layers[i].path, layers[i].kind)) continue;
      matching[i] = true;
      has_any = true;
    }
    if (!has_any) refuse(pattern, layers, key, location);
  }
  return matching;
}

}  // namespace trainer
