#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"
#include "engine/train/measure/data_timing.h"

namespace trainer {

// Note [File of data timings]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// What `trainer bench CONFIG --data` measured is kept by kept_file.h as data-<hash of the subject>.json: an object with
// the version of the format, the subject as text, when it was measured, and the figures of a DataTiming. The subject is
// what makes a timing comparable: the resolved section `data`, the folder that it starts at, the number and type of
// training samples, the processor with the threads that may be used, and the threads that read. Files whose contents
// change while all that stays are not noticed.

struct KeptDataTiming {
  DataTiming timing;
  std::int64_t measured_at = 0;  ///< seconds since 1970
};

/// What a timing of these training samples is of, on this machine: JSON.
std::string timing_subject(const Experiment& experiment, const DataDescription& data, int usable_threads);

/// Where it is kept. Throws what kept_path throws.
std::string data_timing_path(const std::string& subject);

/// As write_kept_file.
void write_data_timing(const std::string& path, const std::string& subject, const KeptDataTiming& kept);

/// What a file holds; nothing where there is none. Throws DataError, which tells to run `trainer bench CONFIG --data`,
/// where the file is damaged, of something else, or has a figure that no machine has.
std::optional<KeptDataTiming> read_data_timing(const std::string& path, const std::string& subject);

}  // namespace trainer
