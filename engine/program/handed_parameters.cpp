#include "engine/program/handed_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/config/diagnostic.h"

namespace trainer {

void check_parameters_go_on(const Program& before, const Program& after, const StageConfig& stage) {
  const auto own = [](const Program& program) {
    std::vector<const Parameter*> parameters;
    for (const Parameter& parameter : program.parameters)
      if (!parameter.is_frozen()) parameters.push_back(&parameter);
    return parameters;
  };
  const std::vector<const Parameter*> former = own(before), now = own(after);
  const auto refuse = [&](const std::string& what) {
    throw located_error(stage.location,
                        fmt::format("stage '{}' has other parameters than the stage before it: {}", stage.name, what),
                        "keys that leave the model's parameters as they are");
  };
  for (std::size_t i = 0; i < std::max(former.size(), now.size()); ++i) {
    if (i >= now.size()) refuse(fmt::format("there is no {}", former[i]->name));
    if (i >= former.size()) refuse(fmt::format("{} is new", now[i]->name));
    if (former[i]->name != now[i]->name) refuse(fmt::format("{} is in the place of {}", now[i]->name, former[i]->name));
    if (former[i]->type != now[i]->type)
      refuse(fmt::format("{} is {}, and was {}", now[i]->name, now[i]->type.to_string(), former[i]->type.to_string()));
  }
}

}  // namespace trainer
