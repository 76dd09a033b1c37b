#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "engine/report/data/npz_writer.h"

namespace trainer {

/// Writes the first `count` samples of a dataset, as `epoch` (from 0) prepares them, as a .npz file with `samples`
/// (count, shape of one) and `targets` (count, shape of one) as they reach the device, so pixels before they are
/// normalised, and `index` (count) i64, Dataset::number_of, also where another sample took the place of one that cannot
/// be read. Returns the arrays. A file at the path is replaced where this function may have written it; else, and where
/// a sample cannot be read, a DataError.
std::vector<NamedArray> write_samples(const Dataset& dataset, std::int64_t count, std::int64_t epoch,
                                      const std::string& path);

}  // namespace trainer
