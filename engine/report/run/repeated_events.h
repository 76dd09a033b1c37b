#pragma once

#include <optional>
#include <string>

#include "engine/train/events.h"

namespace trainer {

/// Removes from an event file lines that a killed process left unfinished and, where a run goes on from `resumption`
/// and trains, what it will tell again: stages, steps, checkpoints and warnings of later steps, evaluations of those
/// and of its own step where that is not evaluated. Starts, ends and what else was told of earlier processes stay. The
/// file is replaced as a whole and on the disk when this returns; a file that is missing, or has nothing of that, is
/// left alone. See Note [Events and checkpoints]. Throws DataError where the disk refuses.
void remove_repeated_events(const std::string& path, const std::optional<Resumption>& resumption);

}  // namespace trainer
