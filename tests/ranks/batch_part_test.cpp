#include "engine/batch_part.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "datasets/sampler.h"

using namespace trainer;

TEST_CASE("parts of a batch have each sample once, in order, and differ by one sample at most") {
  for (std::int64_t samples = 0; samples <= 40; ++samples)
    for (std::int64_t ranks = 1; ranks <= 9; ++ranks) {
      std::int64_t next = 0, least = samples, most = 0;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const BatchPart part = part_of_batch(samples, ranks, rank);
        REQUIRE(part.begin == next);
        next += part.count;
        least = std::min(least, part.count);
        most = std::max(most, part.count);
      }
      REQUIRE(next == samples);
      REQUIRE(most - least <= 1);
    }
}

TEST_CASE("the samplers of all ranks give together what one gives, batch by batch") {
  for (const std::int64_t samples : {1, 7, 23, 64})
    for (const std::int64_t batch_size : {1, 5, 8, 100})
      for (const std::int64_t ranks : {2, 3, 4, 8}) {
        const Sampler one({.num_samples = samples, .batch_size = batch_size, .shuffle = true, .seed = 3});
        for (std::int64_t batch = 0; batch < one.num_batches(); ++batch) {
          std::int64_t position = one.begin_of_batch(batch);
          for (std::int64_t rank = 0; rank < ranks; ++rank) {
            const Sampler part({.num_samples = samples,
                                .batch_size = batch_size,
                                .shuffle = true,
                                .seed = 3,
                                .num_ranks = ranks,
                                .rank = rank});
            REQUIRE(part.num_batches() == one.num_batches());
            REQUIRE(part.begin_of_batch(batch) == position);
            REQUIRE(part.size_of_batch(batch) <= part.batch_size());
            position += part.size_of_batch(batch);
          }
          REQUIRE(position == one.begin_of_batch(batch) + one.size_of_batch(batch));
        }
      }
}
