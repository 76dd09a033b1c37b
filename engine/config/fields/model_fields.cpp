#include "engine/config/fields/field_groups.h"
#include "engine/config/fields/freeze_fields.h"
#include "engine/config/fields/layer_fields.h"
#include "engine/config/fields/name_map_fields.h"
#include "engine/config/fields/written_out_field.h"

namespace trainer {

void add_model_fields(Fields& fields) {
  using enum ResumeEffect;
  const auto layers = [](auto& experiment) -> auto& { return experiment.layers; };
  fields.add(changes_numbers, layers_field<Experiment>("model.layers", layers, "The layers, first to last").required());
  fields.add(changes_numbers,
             written_out<Experiment>("model.blocks", named_blocks(), "Blocks of layers, used by name like layers"));
  fields.add(changes_numbers,
             written_out<Experiment>(
                 "model.file", text(),
                 "A file with the model, instead of `layers`: relative to this one, or one that comes with "
                 "trainer, such as models/resnet.yaml"));
  fields.add(changes_numbers,
             written_out<Experiment>("model.with", named_values(), "Values of the parameters of `model.file`"));
  fields.add(changes_numbers, of(&Experiment::init, "model.init", initialization_choices(),
                                 "How weights start, where a layer does not say")
                                  .also_called({"initialization", "initializer"}));

  fields.add(harmless, maps_field());
  fields.add(harmless, groups_field());

  add_loss_fields(fields);
}

}  // namespace trainer
