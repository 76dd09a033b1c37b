#pragma once

#include "engine/report/record/run_record.h"

namespace trainer {

/// What a run told of how it went on and ended, as a page shows it: {"end", "oom", "diverged", "adaptations"}, null
/// where there is no such event; of oom's fixes also what plans each of them. Throws DataError that names the file
/// where a value is not what it must be: Note [Recorded runs] in engine/report/record/run_record.h.
Json recorded_ending(const RunRecord& run);

}  // namespace trainer
