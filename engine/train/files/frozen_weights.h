#pragma once

#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/train/files/frozen_checksum.h"
#include "engine/train/files/weight_files.h"
#include "engine/train/files/weights_loading.h"
#include "engine/train/files/weights_match.h"

namespace trainer {

/// The weights of the frozen networks of a run (Note [Frozen networks] in engine/graph/frozen_network.h). Each is a
/// contract with its file as that of a model is (Note [Weights of a file] in weights_match.h), but that every tensor of
/// the layers that are built is loaded, and that what the file has beyond them is ignored unless `strict`. They are no
/// part of a checkpoint: whoever resumes reads the same numbers from the file again, or is told that they are others.
class FrozenWeights {
 public:
  /// Opens the files; what does not match is kept as such in matches(). Throws DataError for a file that cannot be read
  /// and ConfigError for keys that say what cannot be.
  FrozenWeights(const Experiment& experiment, const Program& program);

  bool empty() const { return networks_.empty(); }
  /// Of each network, in the order of the losses.
  std::vector<WeightsMatch> matches() const;
  /// Throws WeightsMismatch where one does not match.
  void require_matches() const;
  /// Reads the files. Throws DataError.
  std::vector<FrozenChecksum> checksums() const;
  /// Fills the networks of the program on the device; `executor` has run its load. As load_weights().
  void load(Executor& executor, PieceMemory& memory) const;

 private:
  struct Network {
    std::string name;
    WeightFiles files;
    WeightsMatch match;
  };
  std::vector<Network> networks_;
};

/// Throws DataError where a network holds other numbers than when `saved` was written.
void require_same_networks(const std::string& checkpoint, const std::vector<FrozenChecksum>& saved,
                           const std::vector<FrozenChecksum>& now);

}  // namespace trainer
