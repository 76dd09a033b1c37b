#include "engine/report/text/change_text.h"

#include <fmt/format.h>

namespace trainer {
namespace {

std::string part_text(Effect effect) {
  switch (effect) {
    case Effect::largest_batch:
      return "a smaller batch";
    case Effect::smallest_batch:
      return "the smallest batch";
    case Effect::smaller_eval_batch:
      return "evaluate in smaller batches";
    case Effect::largest_eval_batch:
      return "evaluate in smaller batches: the largest that was found to fit";
    case Effect::f32_operands:
      return "activations and products in f32";
    case Effect::half_operands:
      return "activations and products in 16 bit";
    case Effect::f32_gradients:
      return "gradients in f32";
    case Effect::half_gradients:
      return "gradients in 16 bit";
    case Effect::f32_weights:
      return "weights in f32";
    case Effect::half_weights:
      return "weights in 16 bit alone, rounded at random";
    case Effect::f32_moments:
      return "the optimizer's moments in f32";
    case Effect::eight_bit_moments:
      return "the optimizer's moments in 8 bit";
    case Effect::no_recomputation:
      return "activations kept, none computed again";
    case Effect::recomputation_by_rule:
      return "activations computed again instead of kept, but for every √n-th layer's";
    case Effect::least_recomputation:
      return "activations computed again instead of kept: as many as must be";
    case Effect::cheap_recomputation:
      return "norms and activations computed again instead of kept";
    case Effect::no_cheap_recomputation:
      return "norms and activations kept instead of computed again";
    case Effect::planned_places:
      return "every buffer at a fixed place: nothing lies idle between them";
    case Effect::cached_blocks:
      return "a cache of blocks";
    case Effect::expandable_segments:
      return "segments that grow in place: less lies idle in them";
    case Effect::fixed_segments:
      return "segments of fixed sizes";
    case Effect::updates_in_backward:
      return "each gradient used up and released as soon as it is there";
    case Effect::updates_at_end:
      return "updates at the end of the step";
    case Effect::shared_state:
      return "each rank its part of the optimizer's state";
    case Effect::shared_gradients:
      return "each rank its part of state and gradients";
    case Effect::shared_weights:
      return "each rank its part of state, gradients and weights";
    case Effect::exchanges_beside:
      return "ranks exchange beside what they compute";
    case Effect::exchanges_behind:
      return "ranks exchange behind what they compute";
    case Effect::other_buckets:
      return "buckets of another size for sums over ranks";
    case Effect::other_prefetch:
      return "weights gathered further ahead";
    case Effect::other_cut:
      return "stages that begin at other layers";
    case Effect::more_micro_batches:
      return "more, smaller micro-batches through the stages";
    case Effect::unshared_model:
      return "the whole model on every rank";
    case Effect::chunked_loss:
      return "the logits of few samples at a time";
    case Effect::least_scratch:
      return "kernels that need the least scratch; they can be slower";
    case Effect::no_momentum:
      return "no momentum: no optimizer state";
    case Effect::no_moments:
      return "SGD: no moments to keep (choose its lr anew)";
    case Effect::narrower_layer:
      return "a narrower layer: the widest that was found to fit";
    case Effect::fewer_repeats:
      return "fewer repeats: the most that were found to fit";
    case Effect::smaller_model:
      return "a smaller model: the largest that was found to fit";
    case Effect::higher_limit:
      return "a higher limit: the device has the memory";
  }
  return "";
}

std::string part_text(const UpdateCut& cut) {
  std::string text = fmt::format("{} {} an update", cut.num_samples, cut.num_samples == 1 ? "sample" : "samples");
  if (cut.num_samples != cut.num_samples_before) text += fmt::format(" instead of {}", cut.num_samples_before);
  if (cut.num_parts > 1)
    text += fmt::format(", {} at a time", cut.batch_size);
  else if (cut.num_samples == cut.num_samples_before)
    text += " at once";
  return text;
}

std::string part_text(const NarrowerLayers& cut) {
  return fmt::format("{} layers 1/{} as wide", cut.num_layers, cut.divisor);
}

}  // namespace

std::string change_text(const Change& change) {
  if (change.set.empty()) return "as it is";
  std::string text;
  for (const ChangePart& part : change.parts)
    text += (text.empty() ? "" : "; ") + std::visit([](const auto& told) { return part_text(told); }, part);
  return text;
}

}  // namespace trainer
