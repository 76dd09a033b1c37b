#pragma once

#include <string>
#include <string_view>

#include "engine/train/events.h"

namespace trainer {

// Note [Machine interface]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Each event is one JSON object on one line, in <output>/events.jsonl and, with --json, on stdout. Bytes are integers,
// times are seconds, a number that is not finite is null. Fields may be added and are never renamed or removed.
// by_category, by_layer and top count whole blocks, so the first two sum to `allocated` exactly.

/// One line of JSON without a newline.
std::string start_json(const StartEvent& event, std::string_view version);
std::string step_json(const StepEvent& event);
/// The same behind what `line` holds: a run of small steps writes a hundred thousand of them a second, so that it is
/// formatted without a tree of objects, and takes no memory where `line` has room.
void append_step_json(const StepEvent& event, std::string& line);
std::string eval_json(const EvalEvent& event);
std::string checkpoint_json(const CheckpointEvent& event);
std::string out_of_memory_json(const OutOfMemoryEvent& event);
std::string adapt_json(const AdaptEvent& event);
std::string warning_json(const WarningEvent& event);
std::string diverged_json(const DivergedEvent& event);
std::string end_json(const EndEvent& event);

}  // namespace trainer
