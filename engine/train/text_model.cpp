#include "engine/train/text_model.h"

#include <algorithm>
#include <array>

#include "datasets/batch_reader.h"
#include "engine/graph/tensor_pieces.h"
#include "engine/half.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/make_allocator.h"
#include "engine/plan/process_memory.h"
#include "engine/train/files/weights_loading.h"

namespace trainer {
namespace {

/// What stands at places of a piece that the prompt does not fill.
constexpr std::int32_t no_token_position = -1;

}  // namespace

TextModel::TextModel(const Program& program, const Experiment& experiment, Device& device, std::int64_t capacity)
    : program_(program),
      generation_(*program.generation),
      source_(device.make_memory_source(capacity)),
      allocator_(make_allocator(program, *source_, allocator_options(experiment))),
      executor_(program, device, *allocator_,
                {.replays = experiment.device.cuda_graph, .branches = experiment.device.branches}) {
  const TensorType& logits = program.buffers[generation_.logits()].type;
  raw_logits_.resize(static_cast<std::size_t>(logits.num_bytes()));
  logits_.resize(static_cast<std::size_t>(logits.num_elements()));
}

void TextModel::load(const WeightsMatch& match, const WeightFiles& files) {
  require_internal(match.count(WeightsStatus::fresh) == 0, "a text is written with weights that a file has");
  executor_.begin_step(0);
  executor_.run(program_.load, {});
  // Rows behind a text's end are never read, but a device's tools see them written.
  for (const BufferId kept : generation_.kept) executor_.clear(kept);
  PieceMemory memory(largest_saved_piece(program_));
  load_weights(match, files, executor_, memory);
  executor_.device().synchronize();
}

void TextModel::cut(std::int64_t num_tokens) {
  require_internal(num_tokens >= 0 && num_tokens <= num_tokens_, "a text is cut to a part of it");
  num_tokens_ = num_tokens;
}

std::span<const float> TextModel::append(std::span<const TokenId> tokens) {
  require_internal(!tokens.empty() && num_tokens_ + static_cast<std::int64_t>(tokens.size()) <=
                                          std::max<std::int64_t>(generation_.length - 1, 1),
                   "a text has room for what is appended");
  std::span<const TokenId> before_last = tokens.first(tokens.size() - 1);
  if (!before_last.empty()) {
    const auto piece =
        static_cast<std::size_t>(program_.buffers[generation_.prompt.fields.front()].type.num_elements());
    while (!before_last.empty()) {
      const std::size_t count = std::min(piece, before_last.size());
      run(generation_.prompt, before_last.first(count));
      before_last = before_last.subspan(count);
    }
  }
  run(generation_.token, tokens.last(1));
  const TensorType& type = program_.buffers[generation_.logits()].type;
  executor_.read(generation_.logits(), raw_logits_.data());
  widen(type.dtype, raw_logits_.data(), logits_.data(), type.num_elements());
  return logits_;
}

void TextModel::run(const Routine& routine, std::span<const TokenId> tokens) {
  const auto count = static_cast<std::size_t>(program_.buffers[routine.fields.front()].type.num_elements());
  ids_.assign(count, 0);
  positions_.assign(count, no_token_position);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ids_[i] = static_cast<std::int32_t>(tokens[i]);
    positions_[i] = static_cast<std::int32_t>(num_tokens_ + static_cast<std::int64_t>(i));
  }
  const std::array<const std::byte*, 2> fields = {reinterpret_cast<const std::byte*>(ids_.data()),
                                                  reinterpret_cast<const std::byte*>(positions_.data())};
  const HostBatch batch{fields, 1};
  const std::array<const Routine*, 1> routines = {&routine};
  executor_.begin_step(++step_);
  executor_.lay_out(routines);
  executor_.queue(0, 1, {}, &batch);
  executor_.device().synchronize();  // the batch's memory is used anew
  num_tokens_ += static_cast<std::int64_t>(tokens.size());
}

}  // namespace trainer
