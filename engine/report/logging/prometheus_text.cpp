#include "engine/report/logging/prometheus_text.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

enum class MetricKind : std::uint8_t { gauge, counter };

class PrometheusWriter {
 public:
  explicit PrometheusWriter(std::string labels) : labels_(std::move(labels)) {}

  void add(std::string_view name, MetricKind kind, std::string_view help, double value,
           std::string_view further_labels = "") {
    begin(name, kind, help);
    add_sample(value, further_labels);
  }
  void add(std::string_view name, MetricKind kind, std::string_view help, std::int64_t value) {
    begin(name, kind, help);
    fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name_, labels_, value);
  }
  void begin(std::string_view name, MetricKind kind, std::string_view help) {
    name_ = name;
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name,
                   kind == MetricKind::counter ? "counter" : "gauge");
  }
  void add_sample(double value, std::string_view further_labels) {
    fmt::format_to(std::back_inserter(text_), "{}{{{}{}}} {}\n", name_, labels_, further_labels, number(value));
  }
  std::string take() { return std::move(text_); }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    return fmt::format("{}", value);
  }

  const std::string labels_;
  std::string_view name_;
  std::string text_;
};

void add_terms(PrometheusWriter& writer, std::string_view name, std::string_view help, const LossTerms& terms) {
  if (terms.count == 0) return;
  writer.begin(name, MetricKind::gauge, help);
  for (int term = 0; term < terms.count; ++term)
    writer.add_sample(terms.values[static_cast<std::size_t>(term)], fmt::format(",term=\"{}\"", term + 1));
}

void add_step(PrometheusWriter& writer, const StepEvent& step, double time) {
  using enum MetricKind;
  writer.add("trainer_step", gauge, "The newest step, counted from 1 over all processes of the run.", step.step);
  writer.add("trainer_epoch", gauge, "The epoch of the newest step, counted from 1.", step.epoch);
  writer.add("trainer_last_step_timestamp_seconds", gauge, "When the newest step was told.", time);
  writer.add("trainer_loss", gauge, "Training loss of the newest step.", step.loss);
  add_terms(writer, "trainer_loss_term", "Terms of the training loss of the newest step, before their weights.",
            step.terms);
  writer.add("trainer_learning_rate", gauge, "Learning rate of the newest step.", step.learning_rate);
  if (step.loss_scale)
    writer.add("trainer_loss_scale", gauge, "What the loss is multiplied by behind the newest step.", *step.loss_scale);
  writer.add("trainer_step_duration_seconds", gauge, "Time of the newest step.", step.seconds);
  writer.add("trainer_step_data_wait_seconds", gauge, "Time that the newest step waited for samples.",
             step.data_seconds);
  writer.add("trainer_samples_per_second", gauge, "Samples trained on in a second, of the newest step.",
             per_second(step.samples, step.seconds));
  if (step.tokens) {
    writer.add("trainer_tokens_per_second", gauge, "Tokens trained on in a second, of the newest step.",
               per_second(step.tokens->trained, step.seconds));
    writer.add("trainer_tokens_seen", gauge, "Tokens that the model has seen since step 0.", step.tokens->seen);
    if (step.tokens->mfu)
      writer.add("trainer_mfu_ratio", gauge, "Model FLOPs utilization of the newest step.", *step.tokens->mfu);
  }
  const StepMemory& memory = step.memory.step;
  writer.add("trainer_memory_requested_bytes", gauge, "What the program asked for, at the step's end.",
             memory.requested);
  writer.add("trainer_memory_peak_requested_bytes", gauge, "The most of it within the step.", memory.peak_requested);
  writer.add("trainer_memory_allocated_bytes", gauge, "What live blocks occupy, at the step's end.", memory.allocated);
  writer.add("trainer_memory_peak_allocated_bytes", gauge, "The most of it within the step.", memory.peak_allocated);
  writer.add("trainer_memory_reserved_bytes", gauge, "What the allocator holds from the device.", memory.reserved);
  writer.add("trainer_memory_peak_reserved_bytes", gauge, "The most of it within the step.", memory.peak_reserved);
  writer.add("trainer_memory_device_used_bytes", gauge, "The device's own count for this process.",
             step.memory.device_used);
  writer.add("trainer_memory_device_size_bytes", gauge, "The memory of the device.", step.memory.device_total);
  writer.add("trainer_memory_allocation_retries_total", counter,
             "Allocations that succeeded once cached segments had gone back to the device.",
             step.memory.num_alloc_retries);
}

void add_evaluation(PrometheusWriter& writer, const EvalEvent& evaluation) {
  using enum MetricKind;
  writer.add("trainer_validation_step", gauge, "The step behind which the newest evaluation was.", evaluation.step);
  writer.add("trainer_validation_loss", gauge, "Loss of the newest evaluation.", evaluation.loss);
  add_terms(writer, "trainer_validation_loss_term", "Terms of that loss, before their weights.", evaluation.terms);
  const auto add = [&](std::string_view name, std::string_view help, const std::optional<double>& value) {
    if (value) writer.add(name, gauge, help, *value);
  };
  const CountedMetrics& counted = evaluation.counted;
  add("trainer_validation_accuracy_ratio", "Share of right guesses.", evaluation.accuracy);
  add("trainer_validation_top5_accuracy_ratio", "Share of classes among the five first guesses.", evaluation.top5);
  add("trainer_validation_mean_iou_ratio", "Mean over the classes of intersection / union.", counted.mean_iou);
  add("trainer_validation_dice_ratio", "Mean over the classes of dice.", counted.dice);
  add("trainer_validation_mean_absolute_error", "Mean absolute error, in the unit of the targets.", counted.mae);
  add("trainer_validation_r2_ratio", "Share of the targets' variance that is explained.", counted.r2);
  add("trainer_validation_perplexity", "e to the mean cross-entropy of a token.", counted.perplexity);
  add("trainer_validation_bits_per_byte", "Cross-entropy in bits over the bytes of a text.", counted.bits_per_byte);
}

}  // namespace

std::string prometheus_label(std::string_view text) {
  std::string value;
  for (const char letter : escaped(text)) {
    if (letter == '\n') {
      value += "\\n";
      continue;
    }
    if (letter == '\\' || letter == '"') value += '\\';
    value += letter;
  }
  return value;
}

std::string prometheus_text(const LoggedRun& run) {
  using enum MetricKind;
  PrometheusWriter writer(fmt::format(R"(run="{}",stage="{}",device="{}",rank="0")", prometheus_label(run.name),
                                      prometheus_label(run.stage), prometheus_label(run.device)));
  writer.add("trainer_info", gauge, "What runs.", 1.0,
             fmt::format(R"(,device_name="{}",version="{}")", prometheus_label(run.device_name),
                         prometheus_label(run.version)));
  writer.add("trainer_running", gauge, "1 while the run goes on, 0 once it has ended.",
             std::int64_t{run.status.empty() ? 1 : 0});
  if (!run.status.empty())
    writer.add("trainer_end", gauge, "1, with how the run ended.", 1.0,
               fmt::format(R"(,status="{}")", prometheus_label(run.status)));
  writer.add("trainer_parameters", gauge, "Parameters of the model.", run.num_parameters);
  writer.add("trainer_planned_steps", gauge, "The step that the run is to end with.", run.num_planned_steps);
  writer.add("trainer_memory_capacity_bytes", gauge, "What the allocator may reserve.", run.capacity);
  if (run.step) add_step(writer, *run.step, run.step_time);
  if (run.evaluation) add_evaluation(writer, *run.evaluation);
  if (run.last_checkpoint >= 0)
    writer.add("trainer_checkpoint_step", gauge, "The step of the newest checkpoint.", run.last_checkpoint);
  writer.add("trainer_steps_total", counter, "Steps of this process.", run.num_steps);
  writer.add("trainer_samples_total", counter, "Samples that this process trained on.", run.num_samples);
  if (run.num_tokens > 0)
    writer.add("trainer_tokens_total", counter, "Tokens that this process trained on.", run.num_tokens);
  writer.add("trainer_training_seconds_total", counter, "Time of this process' steps.", run.training_seconds);
  writer.add("trainer_data_wait_seconds_total", counter, "Time that they waited for samples.", run.data_seconds);
  writer.add("trainer_skipped_updates_total", counter, "Updates of this process that overflows skipped.",
             run.num_skipped);
  writer.add("trainer_evaluations_total", counter, "Evaluations of this process.", run.num_evaluations);
  writer.add("trainer_checkpoints_total", counter, "Checkpoints of this process.", run.num_checkpoints);
  writer.add("trainer_adaptations_total", counter, "How often this process went on with less memory.",
             run.num_adaptations);
  writer.add("trainer_warnings_total", counter, "Warnings of this process.", run.num_warnings);
  return writer.take();
}

}  // namespace trainer
