#include "engine/report/plan/layouts_table.h"

#include <fmt/format.h>

#include "engine/bytes.h"
#include "engine/config/fields/enum_choices.h"
#include "engine/report/text/step_time_text.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

/// "8 (1f1b, 32)": stages, in which order, and how many micro-batches go through them.
std::string pipeline_text(const Layout& layout) {
  if (layout.pipeline > 1)
    return fmt::format("{} ({}, {})", layout.pipeline, pipeline_order_choices().name_of(layout.schedule),
                       layout.micro_batches);
  return layout.micro_batches > 1 ? fmt::format("1 ({})", layout.micro_batches) : "1";
}

std::string result_text(NumbersEffect numbers) {
  switch (numbers) {
    case NumbersEffect::same_bits:
      return "same";
    case NumbersEffect::same_rounding:
      return "rounding";
    case NumbersEffect::other:
      break;
  }
  return "other";
}

}  // namespace

std::string layouts_table(const FitFindings& findings, const Style& style) {
  TextTable table({{"#"},
                   {"data"},
                   {"tensor"},
                   {"pipeline", Align::left},
                   {"shard", Align::left},
                   {"peak a GPU"},
                   {"an update"},
                   {"computes"},
                   {"sends"},
                   {"result", Align::left}});
  for (std::size_t i = 0; i < findings.choices.size(); ++i) {
    const FitChoice& choice = findings.choices[i];
    const ChosenLayout& chosen = *choice.layout;
    const Layout& layout = chosen.layout;
    table.add_row({std::to_string(i + 1), std::to_string(layout.data), std::to_string(layout.tensor),
                   pipeline_text(layout), layout.data > 1 ? std::string(shard_choices().name_of(layout.shard)) : "-",
                   format_bytes(choice.peak_reserved), step_time_text(choice.step_seconds),
                   fmt::format("{:.1f} %", 100 * chosen.computing_share), format_bytes(chosen.sent_bytes),
                   result_text(choice.numbers)});
  }
  return table.render(style);
}

std::string searched_layouts_text(const SearchedLayouts& searched, bool knows_links) {
  const std::int64_t num_nodes = searched.gpus.num_nodes;
  return fmt::format(
      "Searched: layouts of {} on {}{}. {} estimated and {} planned; of each way to share the model (data x tensor x "
      "stages) the fastest that fits is named. A pipeline is told as stages (order, micro-batches). Bytes are those of "
      "the rank that holds, and that sends, most; 'computes' is the share of all ranks' time in which they do.{}",
      format_number_of(searched.gpus.num_gpus, "GPU"), format_number_of(num_nodes, "machine"),
      num_nodes > 1 ? fmt::format(" of {}", searched.gpus.gpus_per_node()) : "",
      format_number_of(searched.num_layouts, "layout") + (searched.num_layouts == 1 ? " was" : " were"),
      format_count(searched.num_planned),
      knows_links ? "" : " How long ranks wait for each other is not known, and no time has it in it.");
}

}  // namespace trainer
