#include "engine/report/memory/diagnosis_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/bytes.h"
#include "engine/report/text/shell_words.h"

namespace trainer {
namespace {

std::string capacity_bound(const Diagnosis& diagnosis) {
  const std::string capacity = format_bytes(diagnosis.capacity);
  if (diagnosis.is_model_too_large())
    return fmt::format(
        "What is held throughout whatever the batch, parameters and optimizer state above all, takes {} alone, and the "
        "capacity is {}: no batch size, checkpointing or allocator is enough.",
        format_bytes(diagnosis.persistent_requested), capacity);
  if (diagnosis.is_buffer_too_large())
    return fmt::format("One buffer, {} of {}, takes {} in one piece, and the capacity is {}.", diagnosis.largest_buffer,
                       diagnosis.largest_layer, format_bytes(diagnosis.largest_bytes), capacity);
  return "";
}

std::string fragmentation_against_need(const Diagnosis& diagnosis) {
  const std::string requested = format_bytes(diagnosis.peak_requested);
  if (diagnosis.is_fragmentation()) {
    std::string text = fmt::format(
        "It is fragmentation: {} are in use at the peak, which would fit, and the other {} reserved lie idle between "
        "them.",
        requested, format_bytes(diagnosis.peak_reserved - diagnosis.peak_requested));
    if (diagnosis.places_are_enough())
      text += " A better place for each buffer, memory.allocator=planned, is enough.";
    else if (diagnosis.placed_peak > 0)
      text += fmt::format(" With a place for each buffer, memory.allocator=planned, it still takes {}.",
                          format_bytes(diagnosis.placed_peak));
    return text;
  }
  if (diagnosis.peak_requested <= diagnosis.capacity) return "";
  return fmt::format(
      "It is not fragmentation: {} are in use at the peak, {} more than the capacity. Another allocator or expandable "
      "segments alone do not help.",
      requested, format_bytes(diagnosis.peak_requested - diagnosis.capacity));
}

std::string evaluation_alone(const Diagnosis& diagnosis) {
  if (!diagnosis.is_only_evaluation()) return "";
  return fmt::format("Training fits ({} reserved); the evaluation does not ({}).{}",
                     format_bytes(diagnosis.training_peak), format_bytes(diagnosis.evaluation_peak),
                     diagnosis.evaluation_needs_more()
                         ? " train.checkpointing and memory.update do not help: an evaluation keeps nothing for later."
                         : "");
}

std::string share_of_others(const Diagnosis& diagnosis) {
  if (diagnosis.held_by_others <= 0) return "";
  return fmt::format("Other processes hold {} of this device; {}", format_bytes(diagnosis.held_by_others),
                     diagnosis.fits_without_others ? "if they ended, it would fit as it is."
                                                   : "it would not fit if they ended either.");
}

std::string tried(const Diagnosis& diagnosis) {
  constexpr std::size_t most = 5;
  if (diagnosis.not_enough.empty()) return "";
  std::string text = "Planned, and not enough alone: ";
  const std::size_t count = std::min(most, diagnosis.not_enough.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Change& change = diagnosis.not_enough[i];
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", shell_words(change.set), format_bytes(change.peak_reserved));
  }
  return text + '.';
}

}  // namespace

std::string diagnosis_text(const Diagnosis& diagnosis, const Style& style) {
  if (!diagnosis.is_known) return "";
  std::string text;
  for (const std::string& sentence : {capacity_bound(diagnosis), fragmentation_against_need(diagnosis),
                                      evaluation_alone(diagnosis), share_of_others(diagnosis), tried(diagnosis)}) {
    if (sentence.empty()) continue;
    text += "  " + wrap(sentence, static_cast<std::size_t>(style.width) - 2, "  ") + '\n';
  }
  return text;
}

std::string missing_memory_text(const Diagnosis& diagnosis) {
  if (!diagnosis.is_known) return "";
  const bool is_idle = diagnosis.is_fragmentation();
  const std::int64_t taken = is_idle ? diagnosis.peak_reserved : diagnosis.peak_requested;
  if (taken <= diagnosis.capacity) return "";
  return fmt::format("It {} {} at its peak; the capacity is {}: {} missing{}.", is_idle ? "reserves" : "uses",
                     format_bytes(taken), format_bytes(diagnosis.capacity), format_bytes(taken - diagnosis.capacity),
                     is_idle ? ", which lie idle between buffers" : "");
}

}  // namespace trainer
