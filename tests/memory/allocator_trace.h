#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainer::test {

/// What another caching allocator was asked and what it counted afterwards: a file that
/// scripts/record_allocator_trace.py writes, whose head describes the format.
struct AllocatorTrace {
  enum class Action { alloc, free, release_cached };
  struct Event {
    Action action = Action::alloc;
    std::int64_t id = -1;                   ///< of the block
    std::int64_t num_bytes = 0;             ///< requested
    std::optional<std::int64_t> allocated;  ///< after the event; not known at every one
    std::int64_t reserved = 0, segments = 0;
  };
  std::string name;
  bool expandable_segments = false;
  std::int64_t capacity = 0;
  std::vector<Event> events;
};

/// Throws std::runtime_error where the file is not a whole trace.
AllocatorTrace read_trace(const std::filesystem::path& path);
/// Writes gzip-compressed text.
void write_gzip(const std::filesystem::path& path, const std::string& text);

/// Runs the trace through a CachingAllocator over simulated memory; the first event whose figures differ, or empty.
std::string replay(const AllocatorTrace& trace);

}  // namespace trainer::test
