#include "engine/report/sweep/sweep_row.h"

#include <algorithm>
#include <array>
#include <utility>

namespace trainer {
namespace {

constexpr std::array<std::pair<PointStatus, std::string_view>, 8> status_names = {{
    {PointStatus::done, "done"},
    {PointStatus::out_of_memory, "oom"},
    {PointStatus::diverged, "diverged"},
    {PointStatus::crashed, "crashed"},
    {PointStatus::failed, "failed"},
    {PointStatus::interrupted, "interrupted"},
    {PointStatus::fits, "fits"},
    {PointStatus::does_not_fit, "does not fit"},
}};

}  // namespace

std::string_view name_of(PointStatus status) {
  return std::find_if(status_names.begin(), status_names.end(),
                      [&](const auto& entry) { return entry.first == status; })
      ->second;
}

std::optional<PointStatus> point_status_of(std::string_view name) {
  const auto entry =
      std::find_if(status_names.begin(), status_names.end(), [&](const auto& other) { return other.second == name; });
  if (entry == status_names.end()) return std::nullopt;
  return entry->first;
}

bool has_result(PointStatus status) {
  return status != PointStatus::crashed && status != PointStatus::failed && status != PointStatus::interrupted;
}

bool lacks_memory(PointStatus status) {
  return status == PointStatus::out_of_memory || status == PointStatus::does_not_fit;
}

}  // namespace trainer
