#pragma once

#include <cstdint>

#include "engine/plan/machine_rates.h"
#include "engine/program/program.h"
#include "engine/program/run_schedule.h"

namespace trainer {

// Note [Cost model]
// ~~~~~~~~~~~~~~~~~
// An op takes the longer of its FLOPs over a rate and the bytes of its operands over a bandwidth, and the time of a
// call; a step is the sum of its ops, since they run one after the other, and what the host adds. Exchanges that are
// started run one after the other beside them, and cost what is waited for them: that they take some of the device from
// what they run beside is left out. The rates are of the machine and the kind of op (engine/plan/machine_rates.h), so
// whatever all calls of a kind have in common is in them: operands that are read twice or written in place, passes over
// scratch, the share of a peak that its kernel reaches.
// What differs between calls of a kind is taken account of where it is more than a few tens of percent: 16 bit, and
// the two of RateClass. Views are no calls and take no time. What ranks tell each other takes the time of their links
// (Note [Links between ranks] in engine/plan/link_rates.h), and none where these are not known.

/// FLOPs of one run of `op` with that much scratch, whole tiles counted where it is of the other class: Winograd's
/// algorithm computes 4×4 pixels of a convolution's output at a time, also where the image ends before.
double executed_flops(const Op& op, std::int64_t workspace_bytes);

/// Predicted seconds of one run of `op` with that much scratch, without what it waits for other ranks.
double computing_seconds(const Op& op, std::int64_t workspace_bytes, const MachineRates& rates);
/// Of a call of `program`.
double computing_seconds(const Program& program, const OpCall& call, const MachineRates& rates);
/// With that, where nothing else is on its way between them.
double predicted_seconds(const Op& op, std::int64_t workspace_bytes, const MachineRates& rates);
/// Of a call of `program`.
double predicted_seconds(const Program& program, const OpCall& call, const MachineRates& rates);
/// Of so many FLOPs and bytes.
double predicted_seconds(double flops, double num_bytes, const OpRate& rate);

/// Bytes of a call's workspace; 0: it has none.
std::int64_t workspace_bytes_of(const Program& program, const OpCall& call);

/// Predicted seconds of one step (an update, with all its micro-batches).
struct StepTime {
  double seconds = 0;                                           ///< more than 0
  double forward = 0, backward = 0, recompute = 0, update = 0;  ///< of `seconds`; the rest is the host's
  double communication = 0;  ///< of `seconds`, counted in the phases, too: waiting for what ranks tell each other,
                             ///< which may take longer beside what is computed
};

/// Of the run's first step: its micro-batches are whole, but for an odd last one of an epoch that it spans.
StepTime predict_step_time(const Program& program, const RunSchedule& schedule, const MachineRates& rates);

}  // namespace trainer
