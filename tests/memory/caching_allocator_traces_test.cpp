// Random traces: the caching allocator against the plain model of its rules, over a source that also fails.

#include <catch2/catch.hpp>
#include <map>
#include <sstream>

#include "engine/memory/caching_allocator.h"
#include "tests/memory/failing_source.h"
#include "tests/memory/model_difference.h"
#include "tests/memory/random_requests.h"
#include "tests/memory/reference_allocator.h"
#include "tests/memory/units.h"

namespace trainer::test {

namespace {

std::string difference(const CachingAllocator& allocator, const FailingSource& source, const ReferenceAllocator& model,
                       const std::map<int, Block>& live) {
  std::ostringstream text;
  text << difference(allocator, source, model);
  const MemorySnapshot snapshot = allocator.snapshot();
  if (snapshot.segments.size() != model.segments().size()) {
    text << "number of segments\n";
    return text.str();
  }
  for (std::size_t s = 0; s < snapshot.segments.size(); ++s) {
    const SegmentSnapshot& actual = snapshot.segments[s];
    const ReferenceAllocator::Segment& expected = model.segments()[s];
    if (actual.size != expected.size || actual.small_pool != expected.small ||
        actual.blocks.size() != expected.blocks.size()) {
      text << "segment " << s << "\n";
      continue;
    }
    std::int64_t offset = 0;
    for (std::size_t b = 0; b < expected.blocks.size(); ++b) {
      const ReferenceAllocator::Block& wanted = expected.blocks[b];
      if (!is_same_block(actual, actual.blocks[b], offset, wanted, live))
        text << "segment " << s << " block " << b << "\n";
      offset += wanted.size;
    }
  }
  return text.str();
}

struct Coverage {
  std::int64_t num_ooms = 0, num_retries_that_helped = 0, num_splits = 0, num_oversize = 0;
};

/// Runs one trace and answers the first difference.
std::string run_trace(std::uint64_t seed, int num_events, Coverage& coverage) {
  Random random(seed);
  const std::int64_t capacity = (random.below(60) + 1) * 4 * mib;
  std::set<int> refused_calls;
  for (int call = 0; call < 40; ++call)
    if (random.chance(12)) refused_calls.insert(call);
  CachingAllocatorOptions options;
  std::optional<std::int64_t> max_split;
  if (random.chance(30)) {
    max_split = 20 * mib + (random.below(16) + 1) * mib;
    options.max_split_bytes = *max_split;
  }
  FailingSource source(capacity, refused_calls);
  ReferenceAllocator model(capacity, refused_calls, max_split);
  std::map<int, Block> live;
  {
    CachingAllocator allocator(source, options);
    for (int event = 0; event < num_events; ++event) {
      std::string problem;
      const std::int64_t choice = random.below(100);
      if (choice < 56 || (choice < 95 && live.empty())) {
        const std::int64_t requested = random_size(random);
        const std::optional<ReferenceAllocator::Place> expected = model.allocate(event, requested);
        try {
          const Block block = allocator.allocate(requested);
          live[event] = block;
          if (!expected) problem = "an allocation that should fail\n";
          coverage.num_oversize += max_split && requested >= *max_split;
        } catch (const OutOfMemory& error) {
          ++coverage.num_ooms;
          const std::int64_t segment_bytes = ReferenceAllocator::segment_size(ReferenceAllocator::rounded(requested));
          problem = expected ? "an allocation that should not fail\n"
                             : difference(error.failure(), requested, segment_bytes, capacity, model);
        }
      } else if (choice < 95) {
        free_one(random, allocator, model, live);
      } else if (choice < 97) {
        model.release_cached();
        allocator.release_cached();
      } else {
        model.reset_peaks();
        allocator.reset_peaks();
      }
      problem += difference(allocator, source, model, live);
      if (!problem.empty())
        return "trace " + std::to_string(seed) + ", event " + std::to_string(event) + ":\n" + problem;
    }
    coverage.num_retries_that_helped += model.num_alloc_retries() - model.num_ooms();
    coverage.num_splits += model.counts()[ReferenceAllocator::inactive_split][0].allocated;
  }
  if (source.held() != 0 || source.num_wrong_releases() != 0) return "the destructor does not return everything";
  return "";
}

}  // namespace

TEST_CASE("The caching allocator does exactly what the rules say on 10,000 random traces", "[exhaustive]") {
  Coverage coverage;
  for (std::uint64_t seed = 1; seed <= 10000; ++seed) {
    const std::string problem = run_trace(seed, 60, coverage);
    if (!problem.empty()) FAIL(problem);
  }
  // The traces would prove little if they did not reach these.
  CHECK(coverage.num_ooms > 10000);
  CHECK(coverage.num_retries_that_helped > 1000);
  CHECK(coverage.num_splits > 10000);
  CHECK(coverage.num_oversize > 1000);
}

TEST_CASE("The caching allocator follows the rules on long traces of many blocks") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Random random(seed);
    FailingSource source(std::int64_t{1} << 40);
    ReferenceAllocator model(std::int64_t{1} << 40, {}, std::nullopt);
    CachingAllocator allocator(source);
    std::map<int, Block> live;
    for (int event = 0; event < 3000; ++event) {
      if (live.empty() || random.chance(event < 1500 ? 75 : 25)) {
        const std::int64_t requested = random_size(random);
        model.allocate(event, requested);
        live[event] = allocator.allocate(requested);
      } else {
        free_one(random, allocator, model, live);
      }
      if (event % 50 == 49) {
        const std::string problem = difference(allocator, source, model, live);
        if (!problem.empty()) FAIL("seed " << seed << ", event " << event << ":\n" << problem);
      }
    }
  }
}

TEST_CASE("Fingerprints of the caching allocator are equal exactly where the layouts are") {
  SeenLayouts seen;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed);
    FailingSource source(std::int64_t{1} << 40);
    ReferenceAllocator model(std::int64_t{1} << 40, {}, std::nullopt);
    CachingAllocator allocator(source);
    std::map<int, Block> live;
    for (int event = 0; event < 30; ++event) {
      if (live.empty() || random.chance(60)) {
        const std::int64_t requested = (random.below(3) + 1) * 600 * 1024;
        model.allocate(event, requested);
        live[event] = allocator.allocate(requested);
      } else {
        free_one(random, allocator, model, live);
      }
      seen.see(model.layout(), allocator.fingerprint());
    }
  }
  seen.check_many_were_seen();
}

}  // namespace trainer::test
