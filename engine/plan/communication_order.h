#pragma once

#include <cstdint>

#include "engine/program/program.h"
#include "engine/program/run_schedule.h"

namespace trainer {

/// A number for what a rank tells others in its steps and evaluations, and in which order: the same on ranks that
/// understand each other (Note [Sharded models] in engine/program/sharding.h).
std::uint64_t communication_order(const Program& program, const RunSchedule& schedule);

}  // namespace trainer
