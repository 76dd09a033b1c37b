#include "engine/config/text/absent_feature.h"

#include <algorithm>
#include <array>

namespace trainer {
namespace {

struct AbsentFeature {
  std::string_view words;  ///< each between two blanks
  std::string_view instead;
};

constexpr std::array absent_features = {
    AbsentFeature{" pin_memory prefetch_factor persistent_workers ", "batches are read ahead without being asked for"},
    AbsentFeature{" pretrained from_pretrained weights_url ",
                  "no model comes with weights; weights.file names a safetensors file to start from"},
    AbsentFeature{" deepspeed strategy distributed ids device_ids num_nodes ",
                  "processes share batches, each on its GPU or on CPUs, by parallel: {data: 4}; of one process "
                  "device.type=cuda:1 names the GPU"},
    AbsentFeature{" compile torch_compile jit ", "every network is compiled"},
    AbsentFeature{" callbacks wandb comet neptune ",
                  "a run writes its events to events.jsonl, with --json to stdout, and what logging asks for"},
    AbsentFeature{" mixup cutmix ", "both are transforms: data.transforms.train ends with them"},
    AbsentFeature{" perceptual perceptual_loss feature_loss vgg_loss ",
                  "such a loss is loss: {type: feature, network: …, layers: …}"},
    AbsentFeature{" lpips ",
                  "trainer does not do this yet; loss: {type: feature} has one weight a layer, and none learned"},
    AbsentFeature{" style_loss gram ",
                  "trainer does not do this yet; loss: {type: feature} compares activations, not their correlations"},
    AbsentFeature{" focal focal_loss tversky lovasz gamma_focal ",
                  "trainer does not do this yet; cross_entropy takes class_weights, and loss: [cross_entropy, dice] is "
                  "their sum"},
    AbsentFeature{" unfreeze finetune fine_tune ", "it is of 'stages': a list of them, or {fine_tune: {epochs: 3}}"},
    AbsentFeature{" clear ", "it is of 'optimizer' in an entry of 'stages', whose optimizer's state begins anew"},
    AbsentFeature{" predict ", "it is an entry of 'stages': {predict: {inputs: [photos], output: predictions.csv}}"},
    AbsentFeature{
        " purge empty_cache ",
        "it is of an entry of 'stages': purge: false lets the stage begin with what the one before has cached, "
        "true, the default, gives everything back"},
};

}  // namespace

std::string_view absent_feature(std::string_view word) {
  const auto is_named = [&](const AbsentFeature& feature) {
    for (std::size_t at = feature.words.find(word); at != std::string_view::npos && !word.empty();
         at = feature.words.find(word, at + 1))
      if (feature.words[at - 1] == ' ' && feature.words[at + word.size()] == ' ') return true;
    return false;
  };
  const auto* const found = std::find_if(absent_features.begin(), absent_features.end(), is_named);
  return found != absent_features.end() ? found->instead : std::string_view();
}

}  // namespace trainer
