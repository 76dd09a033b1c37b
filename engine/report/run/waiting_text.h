#pragma once

#include <string>

namespace trainer {

/// "63 %": of so many seconds of training, the share that it waited for samples. Empty where that was less than 5 %, or
/// less than `least_seconds`, which is no more than how a run begins.
std::string waiting_share(double data_seconds, double seconds, double least_seconds);

}  // namespace trainer
