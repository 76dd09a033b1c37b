#pragma once

#include <string>

#include "engine/config/fields/field.h"

namespace trainer {

/// A key that is gone once what it says is written out: what the owner holds does not tell it.
template <class Owner>
Field<Owner> written_out(const std::string& key, const Rule& rule, const std::string& help) {
  Field<Owner> result;
  result.key = key;
  result.rule = rule;
  result.help = help;
  result.set = [](Owner&, const Value&) {};
  result.get = [](const Owner&) { return Value(); };
  return result;
}

}  // namespace trainer
