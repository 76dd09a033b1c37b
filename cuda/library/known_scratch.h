#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/library/convolution.h"

namespace trainer::cuda {

// Note [Answers that are kept]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// cuDNN takes 0.3 ms to say how much scratch a convolution needs, and ResNet-50 on 17 GPUs asks 2,000 questions. For
// attention it takes 3 ms, and once 0.1 s: what is said of convolutions here holds for it, with a file of its own. An
// answer is a function of cuDNN's version, the device's properties, the call, and our rules for engines, so plans for
// devices that are only described keep them in a file for each of these (but the call, which is the key in it):
// (XDG_CACHE_HOME or ~/.cache)/trainer/scratch-<device name>-<cuDNN's version>-<the rest, hashed>.txt. Nothing else is
// read from it: what runs is planned with cuDNN itself (Note [One plan] in cuda/library/cudnn_convolution.cpp), which
// gives the same answer, and choices by time (device.autotune) are kept elsewhere and are not answered from here.
//
// TRAINER_SCRATCH_CACHE=off keeps and reads nothing; so does a user without a home. A file that is damaged, of another
// format or of another identity counts as none and is written anew. It is replaced as a whole, with what other
// processes have added meanwhile, and holds the last most_answers that were used.

/// What is kept of cuDNN's answers for one device, version and set of rules.
class KnownScratch {
 public:
  static constexpr std::size_t most_answers = 8192;
  /// Instead of bytes: nothing serves the call within its limit.
  static constexpr std::int64_t refused = -1;

  /// Reads `path`; `identity` is all that the answers depend on beside the call.
  KnownScratch(std::string path, std::string identity);

  /// Bytes, or `refused`.
  std::optional<std::int64_t> find(const std::string& key);
  void add(const std::string& key, std::int64_t answer);
  /// Writes the file where something was added. Where that fails the next process asks again.
  void save() noexcept;

 private:
  struct Answer {
    std::int64_t value = 0;
    bool is_used = false;  ///< by this process
  };

  void read();
  void write();

  std::string path_, identity_;
  std::vector<std::string> order_;  ///< of the file, then those added
  std::unordered_map<std::string, Answer> answers_;
  bool has_news_ = false;
};

/// Where the answers for a device are kept, whose name and whole identity these are; empty where nothing is kept.
std::string known_scratch_path(const std::string& device_name, std::int64_t version, const std::string& identity);

/// Asks what is kept, then the planner behind it, whose answers it keeps; see Note [Answers that are kept].
class KnownScratchPlanner final : public ConvolutionPlanner {
 public:
  /// `variant` ends the keys of calls with statistics: what only they depend on. It is asked where there are any.
  KnownScratchPlanner(std::unique_ptr<ConvolutionPlanner> planner, KnownScratch known,
                      std::function<std::string()> variant);
  ~KnownScratchPlanner() override { known_.save(); }
  KnownScratchPlanner(const KnownScratchPlanner&) = delete;
  KnownScratchPlanner& operator=(const KnownScratchPlanner&) = delete;

  std::int64_t workspace_bytes(const ConvolutionCall& call) override;
  bool serves(const ConvolutionCall& call) override;

 private:
  std::string key_of(const ConvolutionCall& call) const;

  std::unique_ptr<ConvolutionPlanner> planner_;
  KnownScratch known_;
  std::function<std::string()> variant_;
};

}  // namespace trainer::cuda
