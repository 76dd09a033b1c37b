#include "engine/report/memory/out_of_memory_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/bytes.h"
#include "engine/report/memory/diagnosis_text.h"
#include "engine/report/memory/fix_list.h"
#include "engine/report/memory/memory_chart.h"
#include "engine/report/memory/memory_table.h"
#include "engine/report/memory/outside_allocator.h"
#include "engine/report/text/allocator_text.h"
#include "engine/report/text/glossary.h"
#include "engine/report/text/shell_words.h"

namespace trainer {
namespace {

std::string field(const Style& style, std::string_view name, const std::string& value) {
  constexpr std::size_t name_columns = 20;
  const std::string indent(2 + name_columns, ' ');
  return "  " + pad_right(name, name_columns) +
         wrap(value, static_cast<std::size_t>(style.width) - indent.size(), indent) + '\n';
}

std::string where(const OutOfMemoryEvent& event, bool is_behind_checkpoint, const Style& style) {
  const OutOfMemoryContext& context = event.context;
  std::string text = heading(style, "Where");
  if (!event.stage.empty()) text += field(style, "stage", event.stage);
  if (event.num_ranks > 1) text += field(style, "rank", fmt::format("{} of {}", event.rank, event.num_ranks));
  if (event.num_stages > 1)
    text += field(style, "pipeline",
                  fmt::format("stage {} of {}: {}", event.pipeline_stage + 1, event.num_stages, event.layers));
  text += field(style, "step",
                context.step == 0 && context.phase != Phase::eval ? "loading the model, before the first step"
                                                                  : format_count(context.step));
  text += field(style, "phase", std::string(name_of(context.phase)));
  text += field(style, "layer", context.layer.empty() ? "(no layer)" : context.layer);
  if (!context.op.empty()) text += field(style, "op", context.op);
  if (context.refused_peak)
    text += field(style, "segment",
                  "the one that holds every buffer (memory.allocator: planned), refused while loading; this is where "
                  "most of it would have been in use");
  else
    text += field(style, "buffer", fmt::format("{} ({})", context.buffer, name_of(context.category)));
  text += field(style, "found",
                !context.planned ? "while running"
                : is_behind_checkpoint
                    ? "by the plan, before the stage's first step: what the stages before have trained is saved"
                    : "by the plan, before the first step: nothing has run and nothing is lost");
  return text;
}

std::string allocator_of(const OutOfMemoryEvent& event) {
  std::string text = allocator_name(event.allocator);
  if (!event.allocator_was_chosen) return text;
  text += " (memory.allocator: auto";
  return text + (event.planned_does_not_fit_either ? "; planned does not fit either)" : ")");
}

std::string counters(const OutOfMemoryEvent& event, const Style& style) {
  const AllocationFailure& failure = event.context.failure;
  const MemoryStatistics& statistics = failure.statistics;
  const std::int64_t reserved = statistics.reserved_bytes.all.current;
  const std::int64_t allocated = statistics.allocated_bytes.all.current;
  std::string text = heading(style, "Memory at that moment");
  std::string request =
      fmt::format("{}, rounded to {}", format_bytes(failure.requested), format_bytes(failure.rounded));
  if (failure.segment_bytes > 0)
    request += fmt::format(", for which {} were asked of the device", format_bytes(failure.segment_bytes));
  text += field(style, "request", request);
  text += field(style, "allocator", allocator_of(event));
  text += field(style, "capacity", format_bytes(failure.capacity));
  text += field(style, "reserved", format_bytes(reserved));
  text += field(style, "free", format_bytes(failure.capacity - reserved));
  text += field(
      style, "allocated",
      fmt::format("{} (requested {})", format_bytes(allocated), format_bytes(statistics.requested_bytes.all.current)));
  text += field(style, "cached", format_bytes(reserved - allocated));
  text += field(style, "largest free block", format_bytes(failure.largest_free_block));
  text += field(style, "fragmentation",
                fmt::format("{:.1f} %", 100.0 * fragmentation(statistics, failure.largest_free_block)));
  text += field(style, "retries",
                fmt::format("{} (the cache was given back and the device asked again)",
                            format_count(statistics.num_alloc_retries)));
  return text;
}

std::string outside(const OutOfMemoryEvent& event, const Style& style) {
  std::string text;
  for (const NamedBytes& part : event.outside_allocator)
    text += field(style, "of this process", fmt::format("{}, {}", format_bytes(part.num_bytes), part.name));
  if (event.device_total > 0) text += field(style, "the device's total", format_bytes(event.device_total));
  if (!event.other_processes.empty()) {
    text += '\n' + process_table(event.other_processes, event.device_total, style);
    text += "  " +
            wrap("What they hold is missing here: end them, or use another device (device.type=cuda:N).",
                 static_cast<std::size_t>(style.width) - 2, "  ") +
            '\n';
  }
  return text;
}

std::string headline(const OutOfMemoryEvent& event) {
  const OutOfMemoryContext& context = event.context;
  const bool is_loading = context.step == 0 && context.phase != Phase::eval;
  std::string when =
      is_loading ? "while loading" : fmt::format("in step {}, {}", format_count(context.step), name_of(context.phase));
  if (!event.stage.empty()) when += fmt::format(", stage {}", event.stage);
  if (event.num_ranks > 1) when += fmt::format(", on rank {} of {}", event.rank, event.num_ranks);
  if (event.num_stages > 1)
    when += fmt::format(", which has stage {} of the pipeline's {}", event.pipeline_stage + 1, event.num_stages);
  const std::string layer = context.layer.empty() ? "" : fmt::format(", layer {}", context.layer);
  if (context.refused_peak)
    return fmt::format("Out of memory for the one segment that holds every buffer; most of it is in use {}{}.", when,
                       layer);
  return fmt::format("Out of memory {}{}: {} for {}.", when, layer, format_bytes(context.failure.requested),
                     context.buffer);
}

std::string line_to_paste(const OutOfMemoryReportOptions& options, const Change& fix, const Style& style) {
  std::vector<std::string> words = {"run", options.config_path.empty() ? "CONFIG" : options.config_path};
  for (std::string& word : merged_overrides(options.overrides, fix.set)) words.push_back(std::move(word));
  using Holds = OutOfMemoryReportOptions::Holds;
  const bool resumes =
      options.holds == Holds::own_run && (fix.numbers == NumbersEffect::same_bits || options.is_behind_checkpoint);
  if (!options.from_stage.empty() && !resumes) words.insert(words.end(), {"--from", options.from_stage});
  if (!options.until_stage.empty()) words.insert(words.end(), {"--until", options.until_stage});
  std::string text = "Paste the first";
  if (resumes) {
    words.emplace_back("--resume");
    text += ", which goes on from the step that was saved";
  } else if (options.holds != Holds::nothing) {
    words.emplace_back("--overwrite");
    text += ", which replaces the run in its folder";
  }
  return wrap(text, static_cast<std::size_t>(style.width)) + ":\n" + pasted_command(words, style);
}

}  // namespace

std::string out_of_memory_message(const AllocationFailure& failure, const std::string& device) {
  const std::int64_t reserved = failure.statistics.reserved_bytes.all.current;
  const std::int64_t allocated = failure.statistics.allocated_bytes.all.current;
  return fmt::format(
      "Out of memory. Tried to allocate {}. Device {} has a total capacity of {} of which {} is free. {} is allocated, "
      "and {} is reserved but unallocated.",
      format_bytes(failure.segment_bytes > 0 ? failure.segment_bytes : failure.rounded), device,
      format_bytes(failure.capacity), format_bytes(failure.capacity - reserved), format_bytes(allocated),
      format_bytes(reserved - allocated));
}

std::string out_of_memory_findings(const OutOfMemoryEvent& event, const OutOfMemoryReportOptions& options,
                                   const Style& style) {
  const OutOfMemoryContext& context = event.context;
  const AllocationFailure& failure = context.failure;
  const std::int64_t allocated = context.allocated();
  const std::string message =
      wrap(out_of_memory_message(failure, options.device), static_cast<std::size_t>(style.width));
  std::string text = paint(style, Ink::red, message) + '\n';
  text += where(event, options.is_behind_checkpoint, style);
  text += counters(event, style);

  text += heading(style, context.refused_peak ? "Who would hold it at the peak" : "Who holds it");
  text += category_table(context.live.by_category, allocated, style);
  text += '\n' + layer_table(context.live.by_layer, allocated, style);
  if (options.full && !context.live.top.empty()) text += '\n' + buffer_table(context.live.top, allocated, style);

  if (!event.outside_allocator.empty() || !event.other_processes.empty())
    text += heading(style, "Outside the allocator") + outside(event, style);

  const std::string chart = options.full ? memory_chart(context.timeline, options.layer_labels, style,
                                                        context.refused_peak ? 0 : failure.rounded)
                                         : "";
  if (!chart.empty())
    text +=
        heading(style, context.refused_peak ? "The step of the peak (allocated)" : "The step until then (allocated)") +
        chart;

  if (const std::string reasons = diagnosis_text(event.diagnosis, style); !reasons.empty())
    text += heading(style, "Why it does not fit, and what is not enough") + reasons;
  if (options.full) text += heading(style, "Words") + memory_glossary(style);
  return text;
}

std::string out_of_memory_ending(const OutOfMemoryEvent& event, const OutOfMemoryReportOptions& options,
                                 const Style& style) {
  const std::vector<Change>& fixes = event.fixes;
  const auto width = static_cast<std::size_t>(style.width);
  std::string text = '\n' + paint(style, Ink::red, wrap(headline(event), width)) + '\n';
  if (const std::string missing = missing_memory_text(event.diagnosis); !missing.empty())
    text += wrap(missing, width) + '\n';
  text += heading(style, "What to change so that it fits, each planned again");
  text += fix_list(fixes, style, options.full ? fixes.size() : num_fixes_of_ending);
  if (!fixes.empty() && fixes.front().fits) text += line_to_paste(options, fixes.front(), style);
  if (!options.full && !options.file.empty()) {
    const std::size_t num_more = fixes.size() - std::min(fixes.size(), num_fixes_of_ending);
    text += fmt::format("The whole report{}: {}\n", num_more > 0 ? fmt::format(", with {} more", num_more) : "",
                        options.file);
  }
  return text;
}

std::string out_of_memory_report(const OutOfMemoryEvent& event, const OutOfMemoryReportOptions& options,
                                 const Style& style) {
  return out_of_memory_findings(event, options, style) + out_of_memory_ending(event, options, style);
}

}  // namespace trainer
