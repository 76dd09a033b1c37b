#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/errors.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"
#include "engine/train/files/saved_tensors.h"
#include "engine/train/files/weight_files.h"

namespace trainer {

// Note [Weights of a file]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// What a run starts from is a contract between a file and a model, checked by the headers alone before anything else
// happens. Each tensor of the file is loaded or ignored, each parameter and running statistic of the model is loaded or
// new, and what is ignored or new was named so:
//
//   name     that of the file, with weights.rename applied to it in order; no two tensors end up with one name
//   ignored  named in weights.ignore, before or behind the renaming; what the model has as new; num_batches_tracked,
//            which PyTorch counts and no norm of a fixed momentum reads
//   new      named in weights.new: starts as it would without a file
//   loaded   the rest of both sides, by name. Shapes are the same; those of weights.transpose, matrices, the other way
//            round. Numbers are f32, f16, bf16 or f64, rounded to what the model keeps
//
// A pattern names a tensor, or all that lies below a path ("fc": fc.weight and fc.bias); `*` stands for anything. One
// that names nothing is a mistake, and so is a rename that matches nothing, but where weights.optional says otherwise.
// weights.strict: false takes what is on one side alone as if it were named, and lets patterns name nothing; shapes
// still have to agree, and something is loaded.

enum class WeightsStatus : std::uint8_t { loaded, fresh, ignored, mismatched };

/// "loaded", "new", "ignored", "mismatched".
std::string_view name_of(WeightsStatus status);

/// What becomes of a tensor of the model, of the file, or of both.
struct WeightsRow {
  WeightsStatus status = WeightsStatus::mismatched;
  std::string name;                 ///< the model's; of what the file alone has, the renamed one
  std::optional<Shape> shape;       ///< the model's, as files have it; nothing where it is the file's alone
  std::string file_name;            ///< in the file; empty where it is the model's alone
  std::optional<Shape> file_shape;  ///< likewise
  std::string file_dtype;           ///< likewise: "f16", "BOOL"
  bool is_transposed = false;       ///< the file has it the other way round
  std::string note;                 ///< why it is ignored, or does not match; may be empty
  std::string nearest{};            ///< of what one side alone has: what the other side may call it; may be empty
  std::int32_t tensor = -1;         ///< in WeightFiles::tensors(); -1: the model's alone
};

struct WeightsMatch {
  std::string path;                ///< WeightFiles::path
  std::vector<std::string> files;  ///< of an index its shards; else the path
  /// The frozen network that they are for (Note [Frozen networks] in engine/graph/frozen_network.h), "loss.network";
  /// empty: the model.
  std::string network{};
  std::vector<WeightsRow> rows;  ///< the model's tensors in their order, then the rest of the file's in that of its

  std::int64_t count(WeightsStatus status) const;
};

/// Some rows are mismatched. what() lists them, with what would help.
class WeightsMismatch : public DataError {
 public:
  explicit WeightsMismatch(WeightsMatch match);
  const WeightsMatch& match() const noexcept { return match_; }

 private:
  WeightsMatch match_;
};

/// Applies the contract. Rows that do not match are kept as such, for who tells of them. Throws ConfigError, with its
/// place, for what is wrong with the keys whatever the shapes: patterns and renames that name nothing, renames that
/// make two tensors one, a transposed tensor that is no matrix.
WeightsMatch match_weights(const WeightsConfig& config, const WeightFiles& files, const Program& program);

/// The same for a model that is no program yet.
WeightsMatch match_weights(const WeightsConfig& config, const WeightFiles& files, const Graph& graph);

/// The same for the tensors of a frozen network, called `network`: all of them are loaded or mismatched, and what the
/// file alone has is ignored unless `strict`.
WeightsMatch match_frozen_weights(const WeightsConfig& config, const WeightFiles& files,
                                  std::vector<SavedTensor> tensors, const std::string& network);

/// Throws WeightsMismatch where a row is mismatched.
void require_match(const WeightsMatch& match);

}  // namespace trainer
