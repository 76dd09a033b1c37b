#include "engine/train/data_checks.h"

#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Matchers::Contains;

TEST_CASE("Class weights that are 0 for every class that occurs are refused where they stand") {
  // Classes take turns: 2 samples for training are of classes 0 and 1, the 1 for validation is of class 2.
  const std::string data = "data: {type: synthetic, shape: [4], classes: 3, samples: 2, validation_samples: 1}\n";
  const std::string model = "model: {layers: [linear: {out: 3}]}\n";
  const auto check = [&](const std::string& weights) {
    const Experiment experiment =
        parse_experiment(data + model + "loss: {cross_entropy: {class_weights: " + weights + "}}\n", "test.yaml");
    check_data(experiment, load_data(experiment.data, experiment.seed));
  };
  CHECK_THROWS_WITH(check("[0, 0, 1]"), Contains("test.yaml:3:24: error: all training samples"));
  CHECK_THROWS_WITH(check("[1, 0, 0]"), Contains("test.yaml:3:24: error: all validation samples"));
  CHECK_NOTHROW(check("[0, 1, 1]"));
}
