#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/config/fields/rule.h"
#include "engine/config/fields/value.h"
#include "engine/config/key_effects.h"
#include "engine/config/layer_spec.h"

namespace trainer {

/// What a number of a layer says of its model's size.
enum class SizeOf : std::uint8_t {
  width,
  depth,  ///< how often layers stand one after the other
};

/// One key of the configuration. Parsing, validation, defaults, `config show`, `config explain`, the JSON Schema and
/// the reference page are all made from these. Owner is the struct the key ends up in.
template <class Owner>
struct Field : KeyEffects {
  Rule rule;
  std::string help;  ///< one sentence without a full stop
  std::function<void(Owner&, const Value&)> set;
  std::function<Value(const Owner&)> get;
  /// Instead of set and get where the rule is a layer list.
  std::function<std::vector<LayerSpec>&(Owner&)> layers;
  std::function<const std::vector<LayerSpec>&(const Owner&)> const_layers;
  /// Where the value is a list of maps with fields of their own: reads it from a node, and makes the node that it is
  /// read from; null: nothing to show.
  std::function<void(Owner&, const Node&, SourceSet&)> read;
  std::function<Node(const Owner&)> node;
  /// Where the value stands, if it is an integer.
  std::function<std::int64_t&(Owner&)> integer;
  std::optional<SizeOf> size_of;  ///< of an integer that may be lowered where a model does not fit
  std::string default_text;       ///< told instead of the struct's own default; may be empty
  bool is_required = false;
  std::vector<std::string> only_for;  ///< values of `decided_by` that have this key; empty: all
  std::string decided_by;             ///< the key that only_for speaks of; empty: the `type` of the section
  std::vector<std::pair<std::string, std::string>> type_defaults;  ///< (type, YAML) where a type has its own default
  std::vector<std::string> synonyms;                               ///< what other programs call it, for suggestions

  /// The key whose value decides whether this one applies and what it defaults to.
  std::string deciding_key() const { return decided_by.empty() ? key.substr(0, key.find('.')) + ".type" : decided_by; }
  bool applies_to(const std::string& type) const {
    return only_for.empty() || std::find(only_for.begin(), only_for.end(), type) != only_for.end();
  }

  Field&& required() && {
    return with([](Field& f) { f.is_required = true; });
  }
  Field&& defaults_to(const std::string& text) && {
    return with([&](Field& f) { f.default_text = text; });
  }
  Field&& only(const std::vector<std::string>& types) && {
    return with([&](Field& f) { f.only_for = types; });
  }
  Field&& only_with(const std::string& decisive_key, const std::vector<std::string>& values) && {
    return with([&](Field& f) {
      f.decided_by = decisive_key;
      f.only_for = values;
    });
  }
  Field&& default_for(const std::string& type, const std::string& text) && {
    return with([&](Field& f) { f.type_defaults.emplace_back(type, text); });
  }
  Field&& of_device() && {
    return with([](Field& f) { f.is_of_device = true; });
  }
  Field&& technique(NumbersEffect numbers) && {
    return with([&](Field& f) { f.technique_numbers = numbers; });
  }
  Field&& is(SizeOf size) && {
    return with([&](Field& f) { f.size_of = size; });
  }
  Field&& also_called(const std::vector<std::string>& words) && {
    return with([&](Field& f) { f.synonyms = words; });
  }

 private:
  template <class Change>
  Field&& with(const Change& change) {
    change(*this);
    return std::move(*this);
  }
};

/// Converts between a member of a struct and a Value. An enum's rule is an EnumRule of it.
template <class Member, class MemberRule>
void assign(Member& member, const Value& value, const MemberRule& rule) {
  if constexpr (std::is_enum_v<Member>) {
    member = rule.value_of(std::get<std::string>(value));
  } else if constexpr (std::integral<Member> && !std::is_same_v<Member, bool>) {
    member = static_cast<Member>(std::get<std::int64_t>(value));
  } else if constexpr (std::is_same_v<Member, GroupNumbers>) {
    const auto* const number = std::get_if<double>(&value);
    member = number != nullptr ? GroupNumbers{.number = *number} : std::get<GroupNumbers>(value);
  } else {
    member = std::get<Member>(value);
  }
}
template <class Member, class MemberRule>
requires std::is_enum_v<Member>
void assign(std::vector<Member>& members, const Value& value, const MemberRule& rule) {
  members.clear();
  for (const std::string& name : std::get<std::vector<std::string>>(value)) members.push_back(rule.value_of(name));
}
template <class Member, class MemberRule>
void assign(std::optional<Member>& member, const Value& value, const MemberRule& rule) {
  assign(member.emplace(), value, rule);
}

template <class Member, class MemberRule>
Value value_of(const Member& member, const MemberRule& rule) {
  if constexpr (std::is_enum_v<Member>) {
    return rule.name_of(member);
  } else if constexpr (std::integral<Member> && !std::is_same_v<Member, bool>) {
    return static_cast<std::int64_t>(member);
  } else if constexpr (std::is_same_v<Member, bool> || std::is_same_v<Member, double> || std::is_same_v<Member, Pair> ||
                       std::is_same_v<Member, Sides>) {
    return member;
  } else if constexpr (std::is_same_v<Member, GroupNumbers>) {
    return member.is_same_for_all() ? Value(member.number) : Value(member);
  } else {  // strings and lists
    return member.empty() ? Value() : Value(member);
  }
}
/// One alone is shown as a word.
template <class Member, class MemberRule>
requires std::is_enum_v<Member> Value value_of(const std::vector<Member>& members, const MemberRule& rule) {
  std::vector<std::string> names;
  names.reserve(members.size());
  for (const Member member : members) names.push_back(rule.name_of(member));
  if (names.size() == 1) return std::move(names.front());
  return names.empty() ? Value() : Value(std::move(names));
}
template <class Member, class MemberRule>
Value value_of(const std::optional<Member>& member, const MemberRule& rule) {
  return member ? value_of(*member, rule) : Value();
}

/// A field whose value is what `access(owner)` refers to.
template <class Owner, class Access, class MemberRule>
Field<Owner> field(const std::string& key, const Access& access, MemberRule rule, const std::string& help) {
  Field<Owner> result;
  result.key = key;
  result.set = [access, rule](Owner& owner, const Value& value) { assign(access(owner), value, rule); };
  result.get = [access, rule](const Owner& owner) { return value_of(access(owner), rule); };
  if constexpr (std::same_as<decltype(access(std::declval<Owner&>())), std::int64_t&>) result.integer = access;
  result.rule = std::move(rule);
  result.help = help;
  return result;
}

/// A field that is the list of layers which `access(owner)` refers to.
template <class Owner, class Access>
Field<Owner> layers_field(const std::string& key, const Access& access, const std::string& help) {
  Field<Owner> result;
  result.key = key;
  result.rule = layer_list();
  result.help = help;
  result.layers = [access](Owner& owner) -> std::vector<LayerSpec>& { return access(owner); };
  result.const_layers = [access](const Owner& owner) -> const std::vector<LayerSpec>& { return access(owner); };
  return result;
}

}  // namespace trainer
