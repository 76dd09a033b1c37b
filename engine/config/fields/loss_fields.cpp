#include "engine/config/fields/loss_fields.h"

#include <string>
#include <utility>

#include "engine/config/fields/enum_choices.h"
#include "engine/config/fields/field_groups.h"
#include "engine/config/fields/node_field.h"
#include "engine/config/fields/written_out_field.h"
#include "engine/config/loss_reader.h"

namespace trainer {
namespace {

/// Those of `feature` alone.
template <class Owner, class At>
void add_feature_fields(std::vector<Field<Owner>>& fields, const std::string& prefix, const At& at) {
  const auto add_one = [&](Field<Owner> one) -> Field<Owner>& {
    one.only_for = {"feature"};
    if (prefix.empty()) one.decided_by = "type";
    return fields.emplace_back(std::move(one));
  };
  const auto add = [&]<class Member, class MemberRule>(const std::string& key, Member FeatureConfig::*member,
                                                       MemberRule rule, const std::string& help) -> Field<Owner>& {
    const auto access = [ at, member ](auto& owner) -> auto& { return at(owner).feature.*member; };
    return add_one(field<Owner>(prefix + key, access, std::move(rule), help));
  };
  const auto add_of_weights = [&]<class Member>(const std::string& key, Member WeightsConfig::*member, Rule rule,
                                                const std::string& help) -> Field<Owner>& {
    const auto access = [ at, member ](auto& owner) -> auto& { return at(owner).feature.weights.*member; };
    return add_one(field<Owner>(prefix + "network.weights." + key, access, std::move(rule), help));
  };
  add_one(layers_field<Owner>(
      prefix + "network.layers", [at](auto& owner) -> auto& { return at(owner).feature.network; },
      "The layers of the frozen network, first to last; those behind the last that is compared are not built"));
  add_one(written_out<Owner>(prefix + "network.blocks", named_blocks(), "Blocks of layers, as `model.blocks`"));
  add_one(written_out<Owner>(prefix + "network.file", text(),
                             "A file with the network, as `model.file`, such as models/vgg16.yaml"));
  add_one(written_out<Owner>(prefix + "network.with", named_values(), "Values of the parameters of `network.file`"));
  add_of_weights("file", &WeightsConfig::file, text(),
                 "What the network has learned, as `weights.file`; needed, and read again when a run is resumed");
  add_of_weights("rename", &WeightsConfig::rename, rewrites(), "As `weights.rename`");
  add_of_weights("transpose", &WeightsConfig::transpose, tensor_names(), "As `weights.transpose`");
  add_of_weights("ignore", &WeightsConfig::ignore, tensor_names(), "As `weights.ignore`");
  Field<Owner>& strict = add_of_weights(
      "strict", &WeightsConfig::strict, boolean(),
      "Whether what the file has beyond the layers that are built must be named in `ignore`; they need all of theirs");
  strict.default_text = "false";
  strict.get = [at](const Owner& owner) {
    const WeightsConfig& weights = at(owner).feature.weights;
    return weights.strict ? Value(true) : Value();
  };
  add("layers", &FeatureConfig::layers, tensor_names(),
      "Layers of the network whose outputs for prediction and target are compared, by their paths")
      .synonyms = {"feature_layers", "content_layers", "layers_to_compare"};
  add("layer_weights", &FeatureConfig::layer_weights, numbers(number_at_least(0.0)),
      "What the distance in each of `layers` is multiplied by")
      .default_text = "1 each";
  add("distance", &FeatureConfig::distance,
      choice<FeatureDistance>({{"l1", FeatureDistance::l1, "mean absolute difference"},
                               {"mse", FeatureDistance::mse, "mean squared difference", {"l2"}}}),
      "How far outputs are from each other")
      .synonyms = {"criterion"};
  add("mean", &FeatureConfig::mean, number_or_numbers(number()),
      "Subtracted from each channel of both images before the network reads them")
      .default_text = "not subtracted";
  add("std", &FeatureConfig::std, number_or_numbers(number_above(0.0)), "Divides each channel after that")
      .default_text = "not divided";
}

/// `at` refers to the loss of an owner; its keys stand under `prefix`.
template <class Owner, class At>
std::vector<Field<Owner>> fields_of_loss(const std::string& prefix, const At& at) {
  std::vector<Field<Owner>> fields;
  const auto add = [&]<class Member, class MemberRule>(const std::string& key, Member LossConfig::*member,
                                                       MemberRule rule, const std::string& help,
                                                       const std::vector<std::string>& types) -> Field<Owner>& {
    const auto access = [ at, member ](auto& owner) -> auto& { return at(owner).*member; };
    Field<Owner> one = field<Owner>(prefix + key, access, std::move(rule), help);
    one.only_for = types;
    if (prefix.empty() && !types.empty()) one.decided_by = "type";
    return fields.emplace_back(std::move(one));
  };
  add("type", &LossConfig::type, loss_choices(), "What is minimized", {});
  add("label_smoothing", &LossConfig::label_smoothing, number_below(0.0, 1.0),
      "Share of the target spread over all classes", {"cross_entropy"});
  Field<Owner>& class_weights = add("class_weights", &LossConfig::class_weights, numbers(number_at_least(0.0)),
                                    "A weight for each class", {"cross_entropy"});
  class_weights.default_text = "1 each";
  class_weights.synonyms = {"weight", "weights"};
  Field<Owner>& ignore_index =
      add("ignore_index", &LossConfig::ignore_index, any_integer(),
          "A target that is left out of the mean, of gradients and metrics, such as 255 at the edges of masks",
          {"cross_entropy", "dice"});
  ignore_index.default_text = "-100, as PyTorch's: none";
  ignore_index.synonyms = {"ignore_label", "ignored_index", "void_label", "mask_value"};
  // Not shown where it is the default, which configurations of earlier versions do not name.
  ignore_index.get = [at](const Owner& owner) {
    const std::int32_t ignored = at(owner).ignore_index;
    return ignored == LossConfig{}.ignore_index ? Value() : Value(static_cast<std::int64_t>(ignored));
  };
  add("beta", &LossConfig::beta, number_at_least(0.0),
      "An error d costs d² / (2 · beta) below beta, and |d| − beta / 2 above; 0 makes it l1", {"smooth_l1"})
      .synonyms = {"delta"};
  add("smooth", &LossConfig::smooth, number_above(0.0), "Added above and below the line of each class's quotient",
      {"dice"})
      .synonyms = {"eps", "smooth_nr", "smooth_dr", "epsilon"};
  add_feature_fields(fields, prefix, at);
  return fields;
}

std::vector<Field<LossConfig>> make_term_fields() {
  std::vector<Field<LossConfig>> fields = fields_of_loss<LossConfig>(
      "", [](auto& loss) -> auto& { return loss; });
  for (Field<LossConfig>& each : fields)
    if (each.key == "class_weights") each.synonyms.clear();  // `weight` is a key here
  fields.insert(fields.begin() + 1, field<LossConfig>(
                                        "weight", [](auto& loss) -> auto& { return loss.weight; }, number_at_least(0.0),
                                        "What the term is multiplied by in the sum"));
  return fields;
}

void read_terms(Experiment& experiment, const Node& node, SourceSet& sources) {
  std::vector<LossConfig> losses = read_losses(node, sources);
  if (!losses.empty()) experiment.losses = std::move(losses);
}

ExperimentField terms_field() {
  ExperimentField result = node_field<Experiment>(
      "loss.terms", loss_list(),
      "The terms of a sum, each with a `weight`; `loss: [...]` is short for `loss: {terms: [...]}`",
      [](Experiment& experiment) { experiment.losses = {LossConfig{}}; }, read_terms,
      [](const Experiment& experiment) { return node_of_losses(experiment.losses); });
  result.default_text = "one loss";
  return result;
}

}  // namespace

const EnumRule<LossType>& loss_choices() {
  static const auto all =
      choice<LossType>({{"cross_entropy",
                         LossType::cross_entropy,
                         "softmax and negative log-likelihood of a class",
                         {"ce", "nll", "softmax", "categorical_crossentropy", "CrossEntropyLoss"}},
                        {"mse", LossType::mse, "mean squared error", {"l2", "mean_squared_error", "MSELoss"}},
                        {"l1", LossType::l1, "mean absolute error", {"mean_absolute_error", "L1Loss"}},
                        {"smooth_l1",
                         LossType::smooth_l1,
                         "squared error below `beta`, absolute error above",
                         {"huber", "SmoothL1Loss", "HuberLoss"}},
                        {"bce_with_logits",
                         LossType::bce_with_logits,
                         "sigmoid and binary cross-entropy",
                         {"bce", "binary_cross_entropy", "binary_crossentropy", "BCEWithLogitsLoss"}},
                        {"dice",
                         LossType::dice,
                         "1 − the overlap of soft guess and truth of each class, of the whole batch",
                         {"DiceLoss", "dice_loss", "soft_dice", "f1_loss"}},
                        {"feature",
                         LossType::feature,
                         "the distance between what a frozen network makes of prediction and target",
                         {"perceptual", "PerceptualLoss", "vgg", "content", "feature_loss"}}});
  return all;
}

const std::vector<Field<LossConfig>>& loss_term_fields() {
  static const std::vector<Field<LossConfig>> fields = make_term_fields();
  return fields;
}

void add_loss_fields(Fields& fields) {
  for (ExperimentField& each : fields_of_loss<Experiment>(
           "loss.", [](auto& experiment) -> auto& { return experiment.losses.front(); }))
    fields.add(ResumeEffect::changes_numbers, std::move(each));
  fields.add(ResumeEffect::changes_numbers, terms_field());
}

}  // namespace trainer
