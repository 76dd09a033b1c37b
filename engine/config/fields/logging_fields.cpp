#include "engine/config/fields/field_groups.h"

namespace trainer {
namespace {

ExperimentField prometheus_port() {
  ExperimentField result;
  result.key = "logging.prometheus_port";
  result.rule = integer_or("off", 0);
  result.rule.maximum = 65535;
  result.help =
      "Serves metrics for Prometheus at http://127.0.0.1:PORT/metrics, to this machine alone; 0: at a free port, which "
      "is told when the run starts";
  result.set = [](Experiment& experiment, const Value& value) {
    const auto* port = std::get_if<std::int64_t>(&value);
    experiment.logging.prometheus_port = port == nullptr ? -1 : *port;
  };
  result.get = [](const Experiment& experiment) {
    const std::int64_t port = experiment.logging.prometheus_port;
    return port < 0 ? Value(std::string("off")) : Value(port);
  };
  return std::move(result).also_called({"metrics_port", "prometheus", "exporter_port", "prometheus_endpoint"});
}

}  // namespace

void add_logging_fields(Fields& fields) {
  using enum ResumeEffect;
  constexpr auto logging = &Experiment::logging;
  fields.add(harmless, of(logging, &LoggingConfig::tensorboard, "logging.tensorboard", boolean(),
                          "Writes TensorBoard's event files into the output folder: `tensorboard --logdir runs`")
                           .also_called({"tensorboard", "tb", "summary_writer", "tensorboard_log", "use_tensorboard",
                                         "tensorboard_logger", "report_to", "tfevents", "logger"}));
  fields.add(harmless,
             steps_or_epochs(logging, &LoggingConfig::histograms_every, &LoggingConfig::histograms_in_epochs,
                             "logging.histograms_every",
                             "Steps or epochs between histograms of all weights in TensorBoard's files; 0: none")
                 .also_called({"histogram_freq", "histograms", "log_histograms", "weights_histogram", "watch"}));
  fields.add(harmless, of(logging, &LoggingConfig::prometheus_file, "logging.prometheus_file", text(),
                          "A file of metrics, replaced about once a second, as node_exporter's textfile collector "
                          "reads them: /var/lib/node_exporter/trainer.prom")
                           .defaults_to("none")
                           .also_called({"textfile", "metrics_file", "prom_file", "prometheus_textfile"}));
  fields.add(harmless, prometheus_port());
  fields.add(harmless, of(logging, &LoggingConfig::mlflow, "logging.mlflow", text(),
                          "The folder of MLflow's file store that gets this run, such as mlruns: "
                          "`mlflow ui --backend-store-uri mlruns`")
                           .defaults_to("none")
                           .also_called({"mlflow", "mlruns", "tracking_uri", "mlflow_tracking_uri", "mlflow_logger"}));
}

}  // namespace trainer
