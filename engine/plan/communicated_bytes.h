#pragma once

#include <cstdint>

#include "engine/plan/link_rates.h"
#include "engine/plan/step_routines.h"
#include "engine/program/program.h"
#include "engine/program/routine_walk.h"
#include "engine/program/run_schedule.h"

namespace trainer {

/// Calls `visit(exchange, times)` for what is told in the first update and its micro-batches.
template <typename Visit>
void for_each_exchange(const Program& program, const RunSchedule& schedule, Visit&& visit) {
  for_each_first_step_routine(program, schedule, [&](const Routine& routine, double times) {
    for_each_call(program, routine, [&](const OpCall& call) { visit(exchange_of(call.op), times); });
  });
}

/// Bytes that a rank sends in an update and its micro-batches, and about as many that it receives; 0 where there is one
/// rank.
inline std::int64_t communicated_bytes(const Program& program, const RunSchedule& schedule) {
  std::int64_t num_bytes = 0;
  for_each_exchange(program, schedule, [&](const Exchange& exchange, double times) {
    num_bytes += static_cast<std::int64_t>(times) * exchange.sent_bytes;
  });
  return num_bytes;
}

}  // namespace trainer
