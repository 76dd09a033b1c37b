#include "engine/config/fields/stage_fields.h"

#include <algorithm>

#include "engine/config/fields/field_table.h"

namespace trainer {
namespace {

StageField stage_key(const std::string& key, Rule rule, const std::string& help) {
  StageField result;
  result.key = key;
  result.rule = std::move(rule);
  result.help = help;
  return result;
}

Rule keep_or_clear() {
  Rule rule;
  rule.kind = ValueKind::choice;
  rule.choices = {{"keep", "the optimizer's state goes on, and one that cannot is a mistake"},
                  {"clear", "the optimizer's state begins anew"}};
  return rule;
}

std::vector<StageField> make_stage_fields() {
  const Rule files = text_or_texts("files and folders", "[photos, more/1.jpg]");
  return {
      stage_key("name", text(), "What the stage is called").defaults_to("stage-1, stage-2, …"),
      stage_key("unfreeze", frozen_layers(),
                "Layers that are trained from this stage on, said as `freeze` is; `all` empties the list of what is "
                "frozen, then `freeze` of the stage is appended")
          .defaults_to("none"),
      stage_key(
          "purge", boolean(),
          "Whether everything that the stage before has cached goes back to the device before this one begins; "
          "`false`: where this stage fits beside it, it stays reserved and this stage begins with it, as in PyTorch "
          "without torch.cuda.empty_cache()")
          .defaults_to("true, whatever the stage before says"),
      stage_key("optimizer", keep_or_clear(),
                "What becomes of the optimizer's state, where the stage changes no key of `optimizer`")
          .defaults_to("it goes on where it can; clear where the stage has freeze or unfreeze"),
      stage_key("optimizer.clear", text_or_texts("layer groups, or true or false", "[head]"),
                "What of the optimizer's state begins anew, beside other keys of `optimizer`: all of it, nothing, or "
                "that of some layer groups")
          .defaults_to("false; true where the stage has freeze or unfreeze"),
      stage_key("predict.inputs", files, "Files and folders that the model is asked about")
          .defaults_to("predict.data.root"),
      stage_key("predict.data.root", files, "The same as `predict.inputs`; one of both is needed").defaults_to("none"),
      stage_key("predict.output", text(), "The file that gets a row of each input").required(),
      stage_key("predict.masks", text(), "The folder that gets masks, of a model of a class for each pixel")
          .defaults_to("none"),
      stage_key("predict.top", integer(1),
                "How many classes, or next tokens of a text, a row tells, the likeliest first, with probabilities")
          .defaults_to("the likeliest, and the probabilities of all classes"),
      stage_key("predict.lines", boolean(), "Whether each line of a text is an input of its own, of a model of texts")
          .defaults_to("false"),
      stage_key("fine_tune.epochs", integer(1), "Epochs of the second stage, which trains all layers").required(),
      stage_key("fine_tune.lr", number_at_least(0),
                "The highest rate of the first stage; the second has up to half of it, its first layer group a "
                "hundredth of that")
          .defaults_to("0.002"),
      stage_key("fine_tune.freeze_epochs", integer(1),
                "Epochs of the first stage, which trains the last layer group alone")
          .defaults_to("1"),
  };
}

}  // namespace

const std::vector<StageField>& stage_fields() {
  static const std::vector<StageField> fields = make_stage_fields();
  return fields;
}

const std::vector<Section>& stage_sections() {
  static const std::vector<Section> sections = {
      {"predict", "What the model makes of files once the stages are trained; only `name` stands beside it"},
      {"fine_tune", "In place of an entry, or of the list: two stages, as fastai's fine_tune trains"},
  };
  return sections;
}

const Section* find_stage_section(std::string_view key) {
  const std::vector<Section>& sections = stage_sections();
  const auto found =
      std::find_if(sections.begin(), sections.end(), [&](const Section& each) { return each.key == key; });
  return found == sections.end() ? nullptr : &*found;
}

const std::vector<SharedKey>& keys_of_all_stages() {
  static const std::vector<SharedKey> keys = {
      {"output", "stages are one run, which writes one folder"},
      {"logging", "stages are one run, which is told in one place"},
      {"device", "stages run in one process, on one device"},
      {"parallel", "the same ranks train all stages"},
      {"seed", "stages go on with the parameters that the seed began"},
      {"weights", "stages go on with the parameters of the stage before"},
      {"extends", "a stage goes on from the stage before"},
      {"stages", "stages do not nest"},
  };
  return keys;
}

const std::vector<std::string>& keys_of_stage() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> keys = keys_of_section(stage_fields(), "");
    std::erase(keys, "fine_tune");
    for (const std::string& key : keys_of_section("")) {
      const bool is_of_all = std::any_of(keys_of_all_stages().begin(), keys_of_all_stages().end(),
                                         [&](const SharedKey& shared) { return shared.key == key; });
      if (!is_of_all && std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
    return keys;
  }();
  return all;
}

}  // namespace trainer
