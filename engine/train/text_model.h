#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "datasets/text/token_id.h"
#include "engine/config/experiment.h"
#include "engine/train/executor.h"
#include "engine/train/files/weight_files.h"
#include "engine/train/files/weights_match.h"

namespace trainer {

/// A model with a text that it reads and writes: Note [Writing texts] in engine/graph/generation_graph.h. All memory is
/// taken by load(), and by the first piece and token; it has been given back at the object's end.
class TextModel {
 public:
  /// `program` is one of compile_generation for the experiment and the device; the first three must outlive this.
  /// Nothing is allocated yet.
  TextModel(const Program& program, const Experiment& experiment, Device& device, std::int64_t capacity);
  ~TextModel() { executor_.release_all(); }
  TextModel(const TextModel&) = delete;
  TextModel& operator=(const TextModel&) = delete;

  /// Gives the parameters the file's values; `match` is that of the program, and nothing of it is new. Throws
  /// ProgramOutOfMemory; DataError as load_weights.
  void load(const WeightsMatch& match, const WeightFiles& files);

  /// Appends at least one token; the logits of the one behind them, one for each of the vocabulary, valid until the
  /// next call. The text has room for the program's length, of which the last token can be chosen, and not appended.
  /// Throws ProgramOutOfMemory, DeviceError.
  std::span<const float> append(std::span<const TokenId> tokens);
  /// Forgets all but the first `num_tokens` of the text.
  void cut(std::int64_t num_tokens);
  std::int64_t num_tokens() const { return num_tokens_; }

  Executor& executor() { return executor_; }

 private:
  void run(const Routine& routine, std::span<const TokenId> tokens);

  const Program& program_;
  const TextRoutines& generation_;
  const std::unique_ptr<MemorySource> source_;
  const std::unique_ptr<Allocator> allocator_;
  Executor executor_;
  std::int64_t num_tokens_ = 0, step_ = 0;
  std::vector<std::int32_t> ids_, positions_;  ///< of a routine's tokens
  std::vector<std::byte> raw_logits_;
  std::vector<float> logits_;
};

}  // namespace trainer
