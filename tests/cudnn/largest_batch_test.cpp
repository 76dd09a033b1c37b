#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cuda/library/cudnn_attention.h"
#include "cuda/library/cudnn_convolution.h"
#include "cuda/model/described_device.h"
#include "datasets/dataset.h"
#include "engine/config/gpu_profile.h"
#include "engine/config/load_experiment.h"
#include "engine/plan/search/largest_value.h"
#include "engine/plan/search/planner.h"

namespace trainer::cuda {
namespace {

struct PlannedNetwork {
  const char* name;
  std::string gpu;
  std::string data, model;
  std::int64_t capacity;
  std::string train = "epochs: 2";
};

Experiment planned_experiment(const PlannedNetwork& network, std::int64_t batch_size) {
  return parse_experiment(
      "data: {type: synthetic, samples: 4000, validation_samples: 70, " + network.data +
          "}\nmodel: {file: " TRAINER_SOURCE_DIR "/configs/models/" + network.model +
          "}\noptimizer: {type: sgd, lr: 0.1, momentum: 0.9}\ntrain: {batch_size: " + std::to_string(batch_size) +
          ", " + network.train + "}\nmemory: {workspace_limit: 8MiB}\n",
      network.name);
}

/// Convolutions and attention by cuDNN, without answers of another process.
DescribedDevice device_of(const std::string& gpu) {
  const GpuProfile profile = load_gpu_profile(TRAINER_SOURCE_DIR "/configs/gpus/" + gpu + ".yaml");
  std::ifstream file(profile.cudnn_path());
  REQUIRE(file);
  const std::string properties{std::istreambuf_iterator<char>(file), {}};
  return {profile,
          {.deterministic = false},
          {.convolutions = make_cudnn_planner(properties, {}), .attentions = make_cudnn_attention_planner(properties)},
          {}};
}

}  // namespace

TEST_CASE("the largest batch on GPUs that are only described is that of planning every one around it", "[exhaustive]") {
  const std::vector<PlannedNetwork> networks = {
      {"ResNet-18", "rtx3060-12gb", "shape: [16, 16, 3], classes: 10",
       "resnet.yaml, with: {depth: 18, classes: 10, stem: cifar}", std::int64_t{400} << 20},
      {"U-Net", "h200", "shape: [32, 32, 3], target_shape: [32, 32], classes: 3",
       "unet.yaml, with: {width: 16, depth: 2, classes: 3}", std::int64_t{130} << 20},
      // Its backward attention is cuDNN's up to a batch of 481, beyond which the scratch exceeds its limit.
      {"GPT", "h200", "sequence_length: 64, classes: 100",
       "gpt2.yaml, with: {depth: 2, width: 64, heads: 4, vocabulary: 100, length: 64}", std::int64_t{200} << 20,
       "epochs: 2, amp: fp16"}};
  std::int64_t num_proven = 0;
  for (const PlannedNetwork& network : networks) {
    INFO(network.name << " on " << network.gpu);
    const DescribedDevice device = device_of(network.gpu);
    const Experiment experiment = planned_experiment(network, 8);
    const DataDescription data = describe_data(experiment.data, experiment.seed);
    const MachineRates rates = assumed_cpu_rates(1);
    Planner searching(device, rates), planning(device, rates);
    const LargestValue found = find_largest_batch(searching, experiment, data, network.capacity);
    REQUIRE(found.value.has_value());
    const std::int64_t largest = *found.value;
    CHECK(largest > 40);
    CHECK(found.known_from == 1);
    CHECK(found.next == largest + 1);
    num_proven += found.num_proven;
    std::vector<std::int64_t> batch_sizes = {1, largest / 3, largest / 2, largest * 3 / 4};
    for (std::int64_t above = -8; above <= 1; ++above) batch_sizes.push_back(largest + above);
    for (const std::int64_t batch_size : batch_sizes) {
      INFO("a batch of " << batch_size << ", the largest being " << largest);
      CHECK(planning.fits(planned_experiment(network, batch_size), data, network.capacity) == (batch_size <= largest));
    }
  }
  CHECK(num_proven > 100);
}

}  // namespace trainer::cuda
