#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"
#include "engine/graph/preprocessing.h"
#include "engine/train/files/exported_weights.h"

namespace trainer {

// Note [Exported models]
// ~~~~~~~~~~~~~~~~~~~~~~
// What `trainer export --to` writes is a folder with all that a model is used with, and nothing of its training:
//
//   model.safetensors   parameters and running statistics under their names, in PyTorch's shapes
//   config.yaml         name, seed, model, the kind of loss, and of data what says how a file becomes a sample; where
//   the
//                       format asks for a path, a word that names nothing
//   prediction.json     what the model takes, by type, shape and normalisation; the Preprocessing that was kept with
//   it:
//                       columns of tables with their categories, names of classes; train.amp; size and CRC-32 of the
//                       weights
//   tokenizer.json, or vocab.json and merges.txt, of a model of texts
//
// prediction.json says what the folder is, and a folder without it is never replaced. It is written under a name that
// begins with a dot beside its place, flushed, and moved there.

inline constexpr const char* prediction_file = "prediction.json";

/// Whether a folder is one that write_exported_model() wrote, damaged or not.
bool is_exported_model(const std::string& folder);

/// A file that is copied, and what it is called beside the model.
struct TokenizerFile {
  std::string path, name;
};
/// Of a model of texts, whose data.tokenizer is not `bytes`; else none.
std::vector<TokenizerFile> tokenizer_files_of(const DataConfig& config);

struct ModelToWrite {
  const WeightsMatch& match;
  const WeightFiles& files;
  std::optional<DType> type;  ///< as export_weights takes it
  const Experiment& experiment;
  const DataDescription& data;  ///< its inputs
  const Preprocessing& preprocessing;
  std::vector<TokenizerFile> tokenizer_files = {};
  std::string trainer_version;
};

/// Throws DataError where there is something at `folder` that is not to be replaced: anything without `overwrite`, and
/// with it what is_exported_model() does not know.
void check_export_place(const std::string& folder, bool overwrite);

/// Writes the folder; see Note [Exported models]. What is there was found replaceable. Throws as export_weights;
/// nothing is left of it then.
ExportedWeights write_exported_model(const ModelToWrite& model, const std::string& folder);

}  // namespace trainer
