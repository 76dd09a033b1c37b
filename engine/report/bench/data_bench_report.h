#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/graph/data_description.h"
#include "engine/report/text/style.h"
#include "engine/train/measure/data_timing.h"

namespace trainer {

/// What `trainer bench CONFIG --data` measured, as data.
struct DataBench {
  std::string experiment_name;
  std::string processor;  ///< "AMD EPYC, 2 threads"
  DataDescription description;
  DataTiming timing;
  bool reduced_decoding = false;  ///< data.reduced_decoding
  std::string path;               ///< where it is kept
};

/// For people: samples a second by one thread and by all, where the time of a sample goes, and what was read.
std::string data_bench_report(const DataBench& bench, const Style& style);

/// One object without a newline: {"event":"bench", "data":{…}}.
std::string data_bench_json(const DataBench& bench);

/// Seconds of a sample by stage, on one thread: {"read":…, "decode":…, "transform":…, "copy":…}.
nlohmann::ordered_json stage_seconds_json(const DataTiming& timing);

}  // namespace trainer
