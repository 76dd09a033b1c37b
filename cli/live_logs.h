#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/event_fanout.h"
#include "engine/config/experiment.h"
#include "engine/report/logging/metrics_server.h"
#include "engine/report/logging/mlflow_sink.h"
#include "engine/report/logging/prometheus_sink.h"
#include "engine/report/logging/tensorboard_sink.h"
#include "engine/train/events.h"

namespace trainer {

/// What `logging` asks for: the run told to other tools while it goes on. Of several ranks rank 0 has one.
class LiveLogs final : public EventSink {
 public:
  /// Serves metrics at once, where they are to be. `overrides`: of the command line. `warnings` must outlive it and
  /// takes what goes wrong behind the start as warnings of the run. Throws ConfigError, DeviceError.
  LiveLogs(const Experiment& experiment, const std::vector<std::string>& overrides, EventSink& warnings);

  void take(const Event& event) override;
  void make_durable() override { sinks_.make_durable(); }

  /// Null where no histograms are asked for.
  WeightsWatch* weights_watch() { return histograms_ ? tensorboard_.get() : nullptr; }
  /// Where metrics are served; empty where they are not.
  std::string metrics_address() const { return server_ ? server_->address() : ""; }

 private:
  const bool histograms_;
  EventSink& warnings_;
  EventFanout sinks_;
  std::int64_t step_ = 0;  ///< that was told last
  std::unique_ptr<TensorBoardSink> tensorboard_;
  std::optional<PrometheusSink> prometheus_;
  std::optional<MlflowSink> mlflow_;
  std::optional<MetricsServer> server_;  ///< of what `prometheus_` keeps
};

}  // namespace trainer
