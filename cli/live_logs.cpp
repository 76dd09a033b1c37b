#include "cli/live_logs.h"

namespace trainer {

LiveLogs::LiveLogs(const Experiment& experiment, const std::vector<std::string>& overrides, EventSink& warnings)
    : histograms_(experiment.logging.histograms_every > 0), warnings_(warnings) {
  const LoggingConfig& logging = experiment.logging;
  const auto warn = [this](const std::string& message) {
    warnings_.take(WarningEvent{.step = step_, .message = message});
  };
  if (logging.tensorboard) {
    tensorboard_ = std::make_unique<TensorBoardSink>(experiment.output, overrides, warn);
    sinks_.add(*tensorboard_);
  }
  if (!logging.prometheus_file.empty() || logging.prometheus_port >= 0) {
    prometheus_.emplace(logging.prometheus_file, warn);
    sinks_.add(*prometheus_);
  }
  if (!logging.mlflow.empty()) {
    mlflow_.emplace(logging.mlflow, experiment.output, overrides, warn);
    sinks_.add(*mlflow_);
  }
  if (logging.prometheus_port >= 0)
    server_.emplace(static_cast<int>(logging.prometheus_port), [this] { return prometheus_->text(); });
}

void LiveLogs::take(const Event& event) {
  if (const auto* start = std::get_if<StartEvent>(&event)) step_ = start->first_step - 1;
  if (const auto* step = std::get_if<StepEvent>(&event)) step_ = step->step;
  sinks_.take(event);
}

}  // namespace trainer
