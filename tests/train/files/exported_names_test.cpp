#include "engine/train/files/exported_names.h"

#include <catch2/catch.hpp>

#include "engine/errors.h"
#include "tests/refusal.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

NameMap map_of(std::vector<TextPair> rename, std::optional<std::vector<TextPair>> save = std::nullopt) {
  NameMap map;
  map.name = "theirs";
  map.rename = std::move(rename);
  map.save = std::move(save);
  return map;
}

std::vector<std::string> written_names(const NameMap& map, const std::vector<std::string>& names) {
  std::vector<std::string> written;
  for (const ExportedName& one : exported_names(map, names)) written.push_back(one.name);
  return written;
}

std::string names_mistake(const NameMap& map, const std::vector<std::string>& names) {
  return refusal_of<ConfigError>([&] { exported_names(map, names); });
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("names are written by what a map says, and turned as it reads them") {
  NameMap map = map_of({{R"(^(?:model\.)?)", ""}}, {{{R"(^(layers|norm)\.)", R"(model.\1.)"}}});
  map.transpose = {"layers.*.fc.weight", "layers.*.fc.bias"};
  map.three_axes = {"norm"};
  const std::vector<ExportedName> exported =
      exported_names(map, Names{"layers.0.fc.weight", "norm.weight", "head.weight"});
  CHECK(exported[0].name == "model.layers.0.fc.weight");
  CHECK(exported[0].is_transposed);
  CHECK(exported[1].name == "model.norm.weight");
  CHECK(exported[1].has_three_axes);
  CHECK(exported[2].name == "head.weight");
  CHECK_FALSE(exported[2].is_transposed);
  CHECK(written_names(map_of({}), {"a.weight"}) == Names{"a.weight"});
  CHECK(written_names(map_of({{R"(^(?:model\.)?)", ""}}, {std::vector<TextPair>{}}), {"a"}) == Names{"a"});
}

TEST_CASE("a renaming that can be undone in one way is undone") {
  // Names that begin with "net." are the model's alone, and the file has them without.
  CHECK(written_names(map_of({{"^", "net."}}), {"net.a.weight", "net.b"}) == Names{"a.weight", "b"});
  CHECK(written_names(map_of({{R"(^)", "net."}, {R"(\.kernel$)", ".kernel_"}}), {"net.a.kernel_"}) ==
        Names{"a.kernel"});
}

TEST_CASE("names that would not be read back are refused, with the names") {
  // 'module.fc' and 'fc' are both read as 'fc'.
  CHECK_THAT(names_mistake(map_of({{R"(^module\.)", ""}}), {"fc"}),
             Contains("`rename` makes 'fc' of 'module.fc' as well as of 'fc'") && Contains("expected `save`"));
  CHECK_THAT(names_mistake(map_of({{R"(layer(\d+))", R"(stage\1)"}}), {"fc.layer1"}),
             Contains("`rename` has an expression of several texts") && Contains("expected `save`"));
  CHECK_THAT(names_mistake(map_of({{R"(^(?:net\.)?)", ""}}), {"fc"}), Contains("an expression of several texts"));
  CHECK_THAT(names_mistake(map_of({{R"(\.gamma$)", ".weight"}}), {"a.bias.gamma"}),
             Contains("nothing is known of which `rename` makes 'a.bias.gamma'"));
  // Both would be 'a', so one of them is not read back.
  CHECK_THAT(names_mistake(map_of({}, {{{R"(\d)", ""}}}), {"a", "a1"}),
             Contains("'a1' would be written as 'a', which `rename` makes 'a' of"));
  CHECK_THAT(names_mistake(map_of({}, {{{".*", ""}}}), {"a"}), Contains("nothing is left of one"));
  NameMap ignoring = map_of({{R"(^(?:model\.)?)", ""}}, {std::vector<TextPair>{}});
  ignoring.ignore = {"head"};
  CHECK_THAT(names_mistake(ignoring, {"body.weight", "head.weight"}),
             Contains("'head.weight' would be written as 'head.weight', which it ignores"));
}

TEST_CASE("a map is found by its name") {
  std::vector<NameMap> maps(2);
  maps[0].name = "hub";
  maps[1].name = "torchvision";
  CHECK(&find_map(maps, "torchvision") == &maps[1]);
  CHECK_THAT(refusal_of<ConfigError>([&] { find_map(maps, "hubb"); }),
             Contains("no map 'hubb'") && Contains("hub, torchvision") && Contains("did you mean 'hub'?"));
  CHECK_THAT(refusal_of<ConfigError>([&] { find_map({}, "hub"); }), Contains("the model has none"));
}
