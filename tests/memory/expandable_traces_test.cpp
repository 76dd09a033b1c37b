// Random traces: the caching allocator with expandable segments against the plain model of its rules.

#include <catch2/catch.hpp>
#include <map>
#include <sstream>

#include "engine/memory/caching_allocator.h"
#include "tests/memory/failing_source.h"
#include "tests/memory/model_difference.h"
#include "tests/memory/random_requests.h"
#include "tests/memory/reference_expandable.h"
#include "tests/memory/units.h"

namespace trainer::test {

namespace {

using Stretch = ReferenceExpandable::Stretch;

/// The mapped parts that a model holds, as a snapshot tells of them.
std::vector<std::vector<Stretch>> mapped_parts(const ReferenceExpandable& model) {
  std::vector<std::vector<Stretch>> parts;
  for (const ReferenceExpandable::Range& range : model.ranges()) {
    bool continues = false;
    for (const Stretch& stretch : ReferenceExpandable::stretches(range)) {
      if (stretch.kind != Stretch::unmapped) {
        if (!continues) parts.emplace_back();
        parts.back().push_back(stretch);
      }
      continues = stretch.kind != Stretch::unmapped;
    }
  }
  return parts;
}

std::string difference(const CachingAllocator& allocator, const FailingSource& source, const ReferenceExpandable& model,
                       const std::map<int, Block>& live) {
  std::ostringstream text;
  text << difference(allocator, source, model);
  if (source.num_ranges() != model.ranges().size()) text << "number of ranges\n";

  const MemorySnapshot snapshot = allocator.snapshot();
  const std::vector<std::vector<Stretch>> parts = mapped_parts(model);
  if (snapshot.segments.size() != parts.size()) return text.str() + "number of mapped parts\n";
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const SegmentSnapshot& actual = snapshot.segments[p];
    if (actual.blocks.size() != parts[p].size()) {
      text << "part " << p << "\n";
      continue;
    }
    std::int64_t offset = 0;
    for (std::size_t b = 0; b < parts[p].size(); ++b) {
      const Stretch& wanted = parts[p][b];
      bool same = is_same_block(actual, actual.blocks[b], offset, wanted, live);
      if (same && wanted.kind == Stretch::live) {
        const Block& held = live.at(wanted.handle);
        same =
            source.is_mapped(held.address) && source.is_mapped(static_cast<const char*>(held.address) + held.size - 1);
      }
      if (!same) text << "part " << p << " block " << b << "\n";
      offset += wanted.size;
    }
    if (actual.size != offset) text << "size of part " << p << "\n";
  }
  return text.str();
}

struct ExpandableCoverage {
  std::int64_t num_ooms = 0, num_retries_that_helped = 0, num_gaps = 0, num_second_ranges = 0, num_filled_gaps = 0;
};

int num_gaps_between(const ReferenceExpandable& model) {
  int num_gaps = 0;
  for (const ReferenceExpandable::Range& range : model.ranges()) {
    const std::vector<Stretch> all = ReferenceExpandable::stretches(range);
    for (std::size_t i = 0; i + 1 < all.size(); ++i) num_gaps += all[i].kind == Stretch::unmapped ? 1 : 0;
  }
  return num_gaps;
}

/// Runs one trace and answers the first difference.
std::string run_expandable_trace(std::uint64_t seed, int num_events, ExpandableCoverage& coverage) {
  Random random(seed);
  const std::int64_t capacity = (random.below(70) + 1) * 4 * mib;
  std::set<int> refused_calls;
  for (int call = 0; call < 60; ++call)
    if (random.chance(8)) refused_calls.insert(call);
  const bool small_only = random.chance(25);
  FailingSource source(capacity, refused_calls);
  ReferenceExpandable model(capacity, refused_calls);
  std::map<int, Block> live;
  {
    CachingAllocator allocator(source, {.expandable_segments = true});
    int num_gaps = 0;
    for (int event = 0; event < num_events; ++event) {
      std::string problem;
      const std::int64_t choice = random.below(100);
      if (choice < 54 || (choice < 90 && live.empty())) {
        const std::int64_t requested = small_only ? random.below(mib + 1) : random_size(random);
        const auto expected = model.allocate(event, requested);
        try {
          live[event] = allocator.allocate(requested);
          if (!expected) problem = "an allocation that should fail\n";
        } catch (const OutOfMemory& error) {
          ++coverage.num_ooms;
          if (expected) problem = "an allocation that should not fail\n";
          problem += difference(error.failure(), requested, model.refused_bytes(), capacity, model);
        }
      } else if (choice < 90) {
        free_one(random, allocator, model, live);
      } else if (choice < 96) {
        model.release_cached();
        allocator.release_cached();
      } else {
        model.reset_peaks();
        allocator.reset_peaks();
      }
      problem += difference(allocator, source, model, live);
      if (!problem.empty())
        return "trace " + std::to_string(seed) + ", event " + std::to_string(event) + ":\n" + problem + model.layout() +
               "\n";
      const int num_gaps_now = num_gaps_between(model);
      coverage.num_gaps += num_gaps_now > num_gaps;
      coverage.num_filled_gaps += num_gaps_now < num_gaps;
      num_gaps = num_gaps_now;
      coverage.num_second_ranges += model.ranges().size() > 2;
    }
    coverage.num_retries_that_helped += model.num_alloc_retries() - model.num_ooms();
  }
  if (source.held() != 0 || source.num_wrong_releases() != 0 || source.num_ranges() != 0)
    return "trace " + std::to_string(seed) + ": the destructor does not return everything";
  return "";
}

}  // namespace

TEST_CASE("Expandable segments do exactly what the rules say on 6,000 random traces over a source that fails",
          "[exhaustive]") {
  ExpandableCoverage coverage;
  for (std::uint64_t seed = 1; seed <= 6000; ++seed) {
    const std::string problem = run_expandable_trace(seed, 80, coverage);
    if (!problem.empty()) FAIL(problem);
  }
  // The traces would prove little if they did not reach these.
  CHECK(coverage.num_ooms > 10000);
  CHECK(coverage.num_retries_that_helped > 1000);
  CHECK(coverage.num_gaps > 1000);
  CHECK(coverage.num_filled_gaps > 1000);
  CHECK(coverage.num_second_ranges > 10);
}

TEST_CASE("Fingerprints with expandable segments are equal exactly where the layouts are") {
  SeenLayouts seen;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed);
    FailingSource source(400 * mib);
    ReferenceExpandable model(400 * mib, {});
    CachingAllocator allocator(source, {.expandable_segments = true});
    std::map<int, Block> live;
    for (int event = 0; event < 30; ++event) {
      if (live.empty() || random.chance(50)) {
        const std::int64_t requested = (random.below(3) + 1) * 700 * 1024;
        model.allocate(event, requested);
        live[event] = allocator.allocate(requested);
      } else if (random.chance(80)) {
        free_one(random, allocator, model, live);
      } else {
        model.release_cached();
        allocator.release_cached();
      }
      seen.see(model.layout(), allocator.fingerprint());
    }
  }
  seen.check_many_were_seen();
}

}  // namespace trainer::test
