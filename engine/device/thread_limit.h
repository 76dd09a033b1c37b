#pragma once

#include <functional>
#include <thread>

#include "engine/errors.h"

namespace trainer {

/// Threads that read batches ahead, for training and for evaluation.
inline constexpr int num_reader_threads = 2;

/// Threads that this process has now.
int num_running_threads();

/// The system lets this process start no more threads: `num_started` of the `num_wanted` that it needs, each with the
/// one that it began with.
DeviceError thread_limit_error(int num_started, int num_wanted);

/// A thread more, which runs `body`; throws thread_limit_error() where the system starts none.
std::thread start_thread(std::function<void()> body);

}  // namespace trainer
