// The caching allocator against what PyTorch's own allocator did: traces recorded on a GPU by
// scripts/record_allocator_trace.py, kept in tests/memory/traces/.

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/memory/allocator_trace.h"
#include "tests/memory/random_requests.h"
#include "tests/memory/reference_allocator.h"
#include "tests/memory/reference_expandable.h"

namespace trainer::test {

namespace {

namespace fs = std::filesystem;
constexpr std::int64_t capacity = std::int64_t{1} << 36;

/// A trace in the recorder's format, counted by one of the models of the rules. Every third `allocated` is left out, as
/// a recording does not know all of them.
template <typename Model>
nlohmann::json trace_of(Model& model, bool expandable) {
  Random random(expandable ? 7 : 8);
  std::vector<std::pair<int, std::int64_t>> live;
  nlohmann::json events = nlohmann::json::array();
  for (int i = 0; i < 600; ++i) {
    nlohmann::json entry;
    if (i % 150 == 149) {
      model.release_cached();
      entry = {"release_cached", -1, 0};
    } else if (live.empty() || random.chance(i % 150 < 90 ? 70 : 20)) {
      const std::int64_t num_bytes = random_size(random) + 1;
      model.allocate(i, num_bytes);
      live.emplace_back(i, num_bytes);
      entry = {"alloc", i, num_bytes};
    } else {
      const auto position = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(live.size())));
      model.free(live[position].first);
      entry = {"free", live[position].first, live[position].second};
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(position));
    }
    using Reference = ReferenceAllocator;
    const auto now = [&](Reference::Quantity quantity) { return model.counts()[quantity][Reference::all].current; };
    entry.push_back(i % 3 == 1 ? nlohmann::json(nullptr) : nlohmann::json(now(Reference::allocated_bytes)));
    entry.push_back(now(Reference::reserved_bytes));
    entry.push_back(now(Reference::segment));
    events.push_back(entry);
  }
  return {{"format", "allocator-trace"},       {"version", 1},         {"name", "made by the model"},
          {"expandable_segments", expandable}, {"capacity", capacity}, {"events", events}};
}

nlohmann::json made_trace(bool expandable) {
  ReferenceAllocator plain(capacity, {}, std::nullopt);
  ReferenceExpandable expanding(capacity, {});
  return expandable ? trace_of(expanding, true) : trace_of(plain, false);
}

/// Through the file and back.
std::string replay_through_file(const nlohmann::json& trace) {
  const fs::path path = fs::temp_directory_path() / ("trainer_trace_" + std::to_string(getpid()) + ".json.gz");
  write_gzip(path, trace.dump());
  const AllocatorTrace read = read_trace(path);
  fs::remove(path);
  return replay(read);
}

}  // namespace

TEST_CASE("The caching allocator counts at every event what PyTorch's counted in the recorded traces") {
  const fs::path folder = fs::path(TRAINER_SOURCE_DIR) / "tests/memory/traces";
  std::vector<fs::path> files;
  if (fs::is_directory(folder)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (entry.path().string().ends_with(".json.gz")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty())
    WARN(
        "SKIPPED: tests/memory/traces/ holds no recorded trace; scripts/record_allocator_trace.py --out "
        "tests/memory/traces makes them on a machine with a GPU and PyTorch");
  for (const fs::path& file : files) {
    INFO(file.string());
    const AllocatorTrace trace = read_trace(file);
    CHECK(trace.events.size() > 100);
    CHECK(std::any_of(trace.events.begin(), trace.events.end(),
                      [](const AllocatorTrace::Event& event) { return event.allocated.has_value(); }));
    CHECK(replay(trace) == "");
  }
}

TEST_CASE("A trace in the recorded format is replayed, and one wrong number in it is found") {
  const bool expandable = GENERATE(false, true);
  const nlohmann::json trace = made_trace(expandable);
  CHECK(replay_through_file(trace) == "");
  for (const std::size_t event : {std::size_t{0}, std::size_t{299}, std::size_t{597}}) {
    for (const std::size_t figure : {3, 4, 5}) {
      nlohmann::json wrong = trace;
      nlohmann::json& number = wrong["events"][event][figure];
      if (number.is_null()) continue;
      number = number.get<std::int64_t>() + 1;
      CHECK(replay_through_file(wrong).find("event " + std::to_string(event) + ":") != std::string::npos);
    }
  }
  nlohmann::json wrong_mode = trace;
  wrong_mode["expandable_segments"] = !expandable;
  CHECK(replay_through_file(wrong_mode) != "");
}

TEST_CASE("A file that is no trace is refused, not taken for an empty one") {
  nlohmann::json trace = made_trace(false);
  SECTION("another format") { trace["format"] = "snapshot"; }
  SECTION("another version") { trace["version"] = 2; }
  SECTION("no events") { trace.erase("events"); }
  SECTION("an unknown action") { trace["events"][5][0] = "resize"; }
  SECTION("an event cut short") { trace["events"][5] = {"alloc", 1, 2}; }
  CHECK_THROWS_AS(replay_through_file(trace), std::runtime_error);
}

}  // namespace trainer::test
