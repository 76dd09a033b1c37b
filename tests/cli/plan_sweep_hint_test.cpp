#include <catch2/catch.hpp>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

TEST_CASE("several values where one command takes one are answered with the sweep that takes them") {
  const ProcessResult plan = run_trainer({"plan", "configs/quickstart.yaml", "train.batch_size=16,32", "seed=2"});
  CHECK(plan.exit_code == 2);
  CHECK_THAT(plan.err, Contains("several values are a sweep: 'trainer sweep configs/quickstart.yaml "
                                "train.batch_size=16,32 seed=2 --plan-only'; without --plan-only it runs them"));
  CHECK_THAT(run_trainer({"run", "configs/quickstart.yaml", "optimizer.lr=0.1..0.4:*2"}).err,
             Contains("several values are a sweep"));
  CHECK_THAT(run_trainer({"fit", "configs/quickstart.yaml", "train.batch_size=16,32"}).err,
             Contains("several values are a sweep"));
  // Values that cannot be are no sweep.
  for (const char* word : {"optimizer.lr=1,x", "device.type=cuda:0,1", "train.batch_size=1,0"})
    CHECK_THAT(run_trainer({"plan", "configs/quickstart.yaml", word}).err, !Contains("sweep"));
  // What is wrong for another reason has another answer.
  CHECK_THAT(run_trainer({"plan", "configs/quickstart.yaml", "train.batch_size=x"}).err, !Contains("sweep"));
  CHECK_THAT(run_trainer({"plan", "configs/quickstart.yaml", "data.shape=[1,2]", "train.batch_size=x"}).err,
             !Contains("sweep"));
}
