#include "engine/train/files/exported_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "engine/config/diagnostic.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/rewrite.h"
#include "engine/config/text/utf8_text.h"
#include "engine/graph/layer_pattern.h"

namespace trainer {
namespace {

bool names_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_layer(pattern, name, {}); });
}

class NamesOfMap {
 public:
  explicit NamesOfMap(const NameMap& map) : map_(map) {
    for (const TextPair& texts : map.rename) rename_.emplace_back(texts);
    if (map.save) {
      for (const TextPair& texts : *map.save) save_.emplace_back(texts);
      return;
    }
    const std::vector<TextPair> last_first(map.rename.rbegin(), map.rename.rend());
    for (const TextPair& texts : last_first) {
      const std::optional<TextPair> undone = backwards(texts);
      if (!undone)
        can_undo_ = false;
      else if (can_undo_)
        save_.emplace_back(*undone);
    }
  }

  std::string written(const std::string& name) const {
    if (!map_.save && !can_undo_)
      refuse("`rename` has an expression of several texts, so it does not tell which one to write",
             "`save`, which says how names are written");
    std::string rewritten = rewrite(save_, name);
    if (map_.save) {
      const std::string again = rewrite(rename_, rewritten);
      if (again != name)
        refuse(fmt::format("'{}' would be written as '{}', which `rename` makes '{}' of", shortened(name),
                           shortened(rewritten), shortened(again)),
               "in `save`, what `rename` undoes");
      return rewritten;
    }
    const bool fits = rewrite(rename_, rewritten) == name, own_fits = rewrite(rename_, name) == name;
    if (fits && own_fits && rewritten != name)
      refuse(fmt::format("`rename` makes '{0}' of '{1}' as well as of '{0}', so it does not tell which to write",
                         shortened(name), shortened(rewritten)),
             "`save`, which says how names are written");
    if (!fits && !own_fits)
      refuse(fmt::format("nothing is known of which `rename` makes '{}'", shortened(name)),
             "`save`, which says how names are written");
    return fits ? rewritten : name;
  }

  [[noreturn]] void refuse(const std::string& what, std::string_view expectation) const {
    const std::string message = fmt::format("names cannot be written by the map '{}': {}", shortened(map_.name), what);
    if (map_.location.file.empty()) throw ConfigError(fmt::format("{}; expected {}", message, expectation));
    throw located_error(map_.location, message, expectation);
  }

 private:
  std::string rewrite(const std::vector<Rewrite>& rewrites, std::string name) const {
    for (const Rewrite& one : rewrites) {
      require_short(name);
      one.apply(name);
    }
    require_short(name);
    if (name.empty()) refuse("nothing is left of one", "a replacement that keeps a part of it");
    return name;
  }

  void require_short(const std::string& name) const {
    if (name.size() > Rewrite::longest_result)
      refuse(fmt::format("one has {} bytes", name.size()),
             fmt::format("names of at most {} bytes", Rewrite::longest_result));
  }

  const NameMap& map_;
  std::vector<Rewrite> rename_, save_;
  bool can_undo_ = true;  ///< `rename`, by `save_`
};

}  // namespace

std::vector<ExportedName> exported_names(const NameMap& map, std::span<const std::string> names) {
  const NamesOfMap of_map(map);
  std::vector<ExportedName> exported;
  for (const std::string& name : names) {
    ExportedName one{of_map.written(name), names_any(map.transpose, name), names_any(map.three_axes, name)};
    if (names_any(map.ignore, one.name) || names_any(map.ignore, name))
      of_map.refuse(
          fmt::format("'{}' would be written as '{}', which it ignores", shortened(name), shortened(one.name)),
          "names that are not in `ignore`");
    exported.push_back(std::move(one));
  }
  return exported;
}

const NameMap& find_map(const std::vector<NameMap>& maps, const std::string& name) {
  std::vector<std::string> names;
  for (const NameMap& map : maps) {
    if (map.name == name) return map;
    names.push_back(map.name);
  }
  if (names.empty())
    throw ConfigError(fmt::format("there is no map '{}': the model has none (model.maps)", shortened(name)));
  const std::string_view meant = nearest(name, names);
  throw ConfigError(fmt::format("there is no map '{}'; the model has {}{}", shortened(name), fmt::join(names, ", "),
                                meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant)));
}

}  // namespace trainer
