#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trainer {

// Note [MLflow's file store]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// <store>/<experiment id>/meta.yaml, and in <run id>/ beside it meta.yaml, params/KEY, tags/KEY (a value each),
// metrics/KEY (a line "milliseconds value step" each time) and artifacts/, as
// mlflow/store/tracking/file_store.py writes them. Ids name folders: an experiment's is a number, a run's 32
// hexadecimal digits. Names of experiments and runs stand in meta.yaml alone, so that none of them leads out of the
// store.

/// The text in double quotes, as YAML reads it back: one line of ASCII.
std::string yaml_quoted(std::string_view text);

/// The text as the name of a file and of a parameter: what neither may have is '_', and at most 250 bytes.
std::string mlflow_key(std::string_view name);

/// The id of the experiment of that name in the store, which is made where it has none: once, however many runs ask for
/// it at a time (a lock on the store's file ".trainer.lock", where its file system knows locks). Throws DataError.
std::string find_or_make_experiment(const std::string& store, const std::string& name, std::int64_t milliseconds);

/// Removes what a killed process left unfinished in the metrics of a folder and those below it, and lines of steps
/// behind `last_step`. Throws DataError.
void remove_later_metrics(const std::string& folder, std::int64_t last_step);

}  // namespace trainer
