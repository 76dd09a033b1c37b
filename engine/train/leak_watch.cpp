#include "engine/train/leak_watch.h"

#include <fmt/format.h>

#include "engine/bytes.h"

namespace trainer {

LeakWatch::LeakWatch(Executor& executor, EventSink& events)
    : executor_(executor),
      events_(events),
      steady_bytes_(allocated()),
      was_told_(executor.program().buffers.size(), 0) {}

void LeakWatch::tell(std::int64_t step) {
  for (const BufferId id : executor_.leftovers()) {
    if (was_told_[id] != 0) continue;
    was_told_[id] = 1;
    const Buffer& buffer = executor_.program().buffers[id];
    const std::int64_t num_bytes = executor_.live().block(id).size;
    warn({.step = step,
          .message = fmt::format("{} ({}, {}) was still allocated after step {}, and has been released. This is a "
                                 "mistake in trainer: please report it with the configuration",
                                 buffer.name, name_of(buffer.category), format_bytes(num_bytes), step),
          .buffer = buffer.name,
          .num_bytes = num_bytes});
  }
  executor_.release_transient();
  const std::int64_t lost_bytes = allocated() - steady_bytes_;
  if (lost_bytes == 0 || told_of_rest_) return;
  told_of_rest_ = true;
  warn({.step = step,
        .message =
            fmt::format("after step {} {} are allocated where it began with {}, and no buffer of the program "
                        "accounts for that. This is a mistake in trainer: please report it with the configuration",
                        step, format_bytes(allocated()), format_bytes(steady_bytes_)),
        .num_bytes = lost_bytes});
}

void LeakWatch::warn(const WarningEvent& event) {
  ++num_warnings_;
  events_.take(event);
}

}  // namespace trainer
