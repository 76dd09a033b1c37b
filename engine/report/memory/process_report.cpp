#include "engine/report/memory/process_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/bytes.h"
#include "engine/errors.h"
#include "engine/report/memory/outside_allocator.h"
#include "engine/report/text/text_table.h"

namespace trainer {

std::string process_memory_table(const ProcessMemory& memory, std::int64_t touched, const Style& style) {
  if (memory.parts.empty()) return "";
  TextTable table({{"", Align::left}, {""}});
  if (memory.includes_allocator) table.add_row({"allocator, as far as written", format_bytes(touched)});
  for (const NamedBytes& part : memory.parts) table.add_row({part.name, format_bytes(part.num_bytes)});
  table.add_rule();
  if (memory.includes_allocator && memory.peak_while_reading > memory.beside_allocator() + touched)
    table.add_row({"expected resident peak, while the dataset is read", format_bytes(memory.peak_while_reading)});
  else if (memory.includes_allocator)
    table.add_row({"expected resident peak", format_bytes(memory.expected_peak(touched))});
  else
    table.add_row({"beside what the driver and CUDA take", format_bytes(memory.beside_allocator())});
  return table.render(style);
}

std::string process_line(const ProcessMemory& memory, std::int64_t touched,
                         const std::vector<NamedBytes>& outside_allocator, const Style& style) {
  const std::string text =
      memory.includes_allocator
          ? fmt::format("The process as a whole will hold about {}.", format_bytes(memory.expected_peak(touched)))
          : fmt::format("Outside the allocator, not counted here: {}.", named_bytes_text(outside_allocator));
  return wrap(text, static_cast<std::size_t>(style.width)) + '\n';
}

std::string process_memory_text(const ProcessMemory& memory, std::int64_t touched, std::int64_t peak_resident) {
  std::string list = memory.includes_allocator ? "allocator, as far as written, " + format_bytes(touched) : "";
  for (const NamedBytes& part : memory.parts)
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", part.name, format_bytes(part.num_bytes));
  if (!memory.includes_allocator) return fmt::format("on the host, beside what the driver and CUDA take: {}", list);
  const std::string expected = format_bytes(memory.expected_peak(touched));
  if (peak_resident <= 0) return fmt::format("expected resident peak {}: {}", expected, list);
  return fmt::format("resident peak {}, expected {}: {}", format_bytes(peak_resident), expected, list);
}

nlohmann::json process_memory_json(const ProcessMemory& memory, std::int64_t touched) {
  nlohmann::json parts = nlohmann::json::array();
  for (const NamedBytes& part : memory.parts) parts.push_back({{"name", part.name}, {"bytes", part.num_bytes}});
  nlohmann::json expected = nullptr;
  if (memory.includes_allocator && touched > 0) expected = memory.expected_peak(touched);
  return {{"parts", std::move(parts)},
          {"beside_allocator", memory.beside_allocator()},
          {"expected_resident_peak", std::move(expected)}};
}

std::string host_out_of_memory_message(const HostOutOfMemory& error) {
  const std::string size = error.num_bytes() > 0 ? ": " + format_bytes(error.num_bytes()) : "";
  return fmt::format(
      "{}{}. This is memory of the host, beside the allocator's. End other processes{} raise the limit that this "
      "process has (ulimit -v, the container's){}.",
      error.what(), size, error.depends_on_batches() ? "," : " or",
      error.depends_on_batches() ? ", or take smaller batches (train.batch_size, train.eval_batch_size)" : "");
}

}  // namespace trainer
