#pragma once

#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/stage_reader.h"
#include "engine/config/yaml/source_set.h"

namespace trainer {

// Note [Stages]
// ~~~~~~~~~~~~~
// `stages` is a list of overrides. A stage has the keys of the file, then those of the stages before it, then its own:
// what it leaves out continues. Maps are merged key by key as `extends` merges them; a stage that names the `type` of a
// section starts that section anew. References and expressions are resolved once the stage has all its keys, so what
// follows from a key that a stage changes changes with it. Each stage is then an experiment like any other, compiled
// and planned by itself, over parameters that the stages hand on: keys of what they are, and of the process, cannot
// change.
//
// `freeze` and `unfreeze` of a stage go on the list of those before it (Note [Frozen parameters] in
// engine/graph/trained_layers.h): `unfreeze: all` empties it, then `freeze` is appended, then `unfreeze`, whose entries
// train. `optimizer: keep` or `clear`, or `clear` beside its other keys, says what becomes of the optimizer's state.
//
// `purge: false` is of one stage alone: it begins with the segments that the stage before has cached (Note [Cached
// segments] in engine/memory/caching_allocator.h), where it fits beside them (settle_experiment). A planned allocator
// has none to hand on.
//
// Behind them may stand entries of the one key `predict`, which train nothing: they say what the model makes of files.
//
// `stages: {fine_tune: {epochs: 3}}` is short for two of them, as fastai's fine_tune trains: all but the last layer
// group frozen, then nothing.

/// The position of the stage that is called so. Throws ConfigError, which begins with `asker`, where there is none.
std::size_t find_stage(const Experiment& experiment, const std::string& name, std::string_view asker);
/// The last stage that trains, whose parameters predict; without stages the experiment itself.
const Experiment& last_trained(const Experiment& experiment);
Experiment last_trained(Experiment&& experiment);
/// Makes it, and its stages, those of a rank: of `parallel`, what starts a rank sets.
void set_rank(Experiment& experiment, const ParallelConfig& parallel);
/// Makes it, and its stages, those of one process, which computes in parts as well where it keeps them.
void leave_ranks(Experiment& experiment, bool keeps_parts = false);
/// "head, finetune".
std::string stage_names(const Experiment& experiment);

/// Reports stages that are not to be purged and cannot begin with what the stage before has cached.
void check_purges(const Experiment& experiment, const std::vector<StageNode>& nodes, SourceSet& sources);

/// Puts the stage's keys into the tree of the stage before it.
void apply_stage(Node& root, const StageNode& stage, SourceSet& sources);

/// The node that `stages` is read from again, for stages of which `trees` are the resolved trees, that of the file
/// first.
Node node_of_stages(const Experiment& experiment, const std::vector<Node>& trees);

}  // namespace trainer
