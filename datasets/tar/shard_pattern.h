#pragma once

#include <string>
#include <vector>

namespace trainer {

/// The files that a pattern names, in order: "train-{0000..0009}.tar" stands for ten names, as many digits as the first
/// number has, whether the files are there or not; of `*`, `?` and `[…]` those that are there, sorted. A name without
/// any stands for itself. DataError for a range that is none, or of more than 100,000 files.
std::vector<std::string> shards_of(const std::string& pattern);

}  // namespace trainer
