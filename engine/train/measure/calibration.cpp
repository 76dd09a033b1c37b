#include "engine/train/measure/calibration.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "engine/config/load_experiment.h"
#include "engine/plan/cost_model.h"
#include "engine/train/measure/calibration_networks.h"
#include "engine/train/measure/timed_network.h"

namespace trainer {
namespace {

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Every distinct call once, with the median of what equal ones took: that depends on what the caches hold before.
std::vector<TimedOp> distinct_calls(const std::vector<TimedNetwork>& networks) {
  std::vector<TimedOp> calls;
  std::unordered_map<Op, std::vector<double>, OpHash> seconds;
  for (const TimedNetwork& network : networks) {
    for (const CallTime& time : network.timing.calls) {
      const OpCall& call = network.compiled.program.calls[static_cast<std::size_t>(time.call)];
      std::vector<double>& known = seconds[call.op];
      if (known.empty()) calls.push_back({call.op, workspace_bytes_of(network.compiled.program, call), 0});
      known.push_back(time.seconds);
    }
  }
  for (TimedOp& call : calls) call.seconds = median(seconds[call.op]);
  return calls;
}

FitQuality quality_of(const MachineRates& rates, const std::vector<TimedOp>& calls,
                      const std::vector<TimedNetwork>& networks) {
  FitQuality quality{.num_calls = static_cast<int>(calls.size())};
  std::vector<double> call_errors, step_errors;
  for (const TimedOp& call : calls)
    call_errors.push_back(std::abs(predicted_seconds(call.op, call.workspace_bytes, rates) / call.seconds - 1));
  for (const TimedNetwork& network : networks) {
    double predicted = 0;
    for (const CallTime& time : network.timing.calls) {
      const OpCall& call = network.compiled.program.calls[static_cast<std::size_t>(time.call)];
      predicted += time.times * predicted_seconds(network.compiled.program, call, rates);
    }
    step_errors.push_back(std::abs(predicted / network.timing.op_seconds() - 1));
  }
  quality.call_error = median(call_errors);
  quality.step_error = median(step_errors);
  return quality;
}

/// Of two measurements of the same steps, the shorter time of each part.
void keep_shorter(StepTiming& timing, const StepTiming& again) {
  timing.step_seconds = std::min(timing.step_seconds, again.step_seconds);
  timing.data_seconds = std::min(timing.data_seconds, again.data_seconds);
  timing.host_seconds = std::min(timing.host_seconds, again.host_seconds);
  for (std::size_t i = 0; i < timing.calls.size(); ++i)
    timing.calls[i].seconds = std::min(timing.calls[i].seconds, again.calls[i].seconds);
}

/// What the host adds to a step, beside the ops and the data; at least a microsecond, since every step takes time.
double host_seconds(const std::vector<TimedNetwork>& networks) {
  std::vector<double> seconds;
  for (const TimedNetwork& network : networks) {
    const StepTiming& timing = network.timing;
    seconds.push_back(std::max(0.0, timing.step_seconds - timing.data_seconds - timing.op_seconds()));
  }
  constexpr double least_seconds = 1e-6;
  return std::max(lower_quartile(seconds), least_seconds);
}

}  // namespace

Calibration calibrate(Device& device, double max_seconds,
                      const std::function<void(const std::string& name)>& on_network) {
  const std::vector<CalibrationNetwork> networks = calibration_networks();
  // Something else that ran on the machine during one round is unlikely to do so at the same place of another.
  constexpr int num_rounds = 2;
  const TimingOptions options = {.num_warm_up = 2,
                                 .num_steps = 6,
                                 .num_observed = 12,
                                 .max_seconds = max_seconds / (num_rounds * static_cast<double>(networks.size()))};
  std::vector<TimedNetwork> timed;
  for (int round = 0; round < num_rounds; ++round) {
    std::size_t position = 0;
    for (const CalibrationNetwork& network : networks) {
      on_network(network.name);
      try {
        TimedNetwork again = time_network(network.yaml, network.name, {}, device, options);
        if (round == 0)
          timed.push_back(std::move(again));
        else
          keep_shorter(timed.at(position).timing, again.timing);
        ++position;
      } catch (const DeviceError&) {
        // Older GPUs lack bf16: it is predicted like fp16 there.
        if (parse_experiment(network.yaml, network.name).train.amp != Amp::bf16) throw;
      }
    }
  }
  const std::vector<TimedOp> calls = distinct_calls(timed);
  Calibration calibration;
  calibration.rates = fit_rates(calls, assumed_cpu_rates(1));
  calibration.rates.origin = MachineRates::Origin::measured;
  calibration.rates.step_seconds = host_seconds(timed);
  calibration.quality = quality_of(calibration.rates, calls, timed);
  return calibration;
}

}  // namespace trainer
