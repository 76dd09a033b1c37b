#pragma once

#include <string>

#include "engine/train/events.h"

namespace trainer {

// Note [Machine interface]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Each event is one JSON object on one line, in <output>/events.jsonl and, with --json, on stdout. Bytes are integers,
// times are seconds, a number that is not finite is null. Fields may be added and are never renamed or removed.
// by_category, by_layer and top count whole blocks, so the first two sum to `allocated` exactly.

/// One line of JSON without a newline.
std::string event_json(const Event& event);

/// The same behind what `line` holds. A run of small steps writes a hundred thousand of them a second, so that a step
/// is formatted without a tree of objects, and takes no memory where `line` has room.
void append_event_json(const Event& event, std::string& line);

}  // namespace trainer
