#include "engine/report/memory/outside_allocator.h"

#include <fmt/format.h>

#include <numeric>

#include "engine/bytes.h"
#include "engine/report/memory/memory_table.h"
#include "engine/report/text/text_table.h"

namespace trainer {

std::int64_t sum_of(const std::vector<NamedBytes>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                         [](std::int64_t sum, const NamedBytes& part) { return sum + part.num_bytes; });
}

std::string named_bytes_text(const std::vector<NamedBytes>& parts) {
  std::string list;
  for (const NamedBytes& part : parts) {
    list += list.empty() ? "" : ", ";
    list += parts.size() == 1 ? part.name : fmt::format("{} {}", part.name, format_bytes(part.num_bytes));
  }
  return format_bytes(sum_of(parts)) + (list.empty() ? "" : fmt::format(" ({})", list));
}

std::string process_table(const std::vector<DeviceProcess>& processes, std::int64_t device_total, const Style& style) {
  TextTable table({{"other process", Align::left}, {"pid"}, {"bytes"}, {"of the device"}});
  std::int64_t sum = 0;
  for (const DeviceProcess& process : processes) {
    sum += process.num_bytes;
    table.add_row({process.name.empty() ? "(unknown)" : process.name, fmt::format("{}", process.pid),
                   format_bytes(process.num_bytes), share_of(process.num_bytes, device_total)});
  }
  table.add_rule();
  table.add_row({"together", "", format_bytes(sum), share_of(sum, device_total)});
  return table.render(style);
}

}  // namespace trainer
