#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/device/device.h"
#include "engine/memory/rounding.h"
#include "engine/ops/loss_chunks.h"

namespace trainer {

/// Where LossChunks lie in the workspace of the whole op: its scratch, then what one step at a time needs.
class LossChunkLayout {
 public:
  explicit LossChunkLayout(const LossChunks& chunks) {
    for (const TensorType& type : chunks.scratch) {
      offsets_.push_back(scratch_bytes_);
      scratch_bytes_ += round_up(type.num_bytes(), least_block_bytes);
    }
  }
  std::int64_t offset(int scratch) const { return offsets_[static_cast<std::size_t>(scratch)]; }
  std::int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  std::vector<std::int64_t> offsets_;
  std::int64_t scratch_bytes_ = 0;
};

/// DeviceModel::workspace_bytes of a linear_cross_entropy, from that of its steps.
template <std::invocable<const Op&> WorkspaceBytes>
std::int64_t loss_chunks_workspace_bytes(const Op& op, WorkspaceBytes&& workspace_bytes) {
  const LossChunks chunks = loss_chunks(op);
  std::int64_t of_step = 0;
  for (const auto& steps : chunks.parts)
    for (const ChunkStep& step : steps) of_step = std::max<std::int64_t>(of_step, workspace_bytes(step.op));
  return LossChunkLayout(chunks).scratch_bytes() + of_step;
}

/// The kernel of a linear_cross_entropy: StepKernel, of the device's own, for each step. Nothing is allocated where it
/// runs.
template <typename StepKernel>
class LossChunkRunner {
 public:
  /// `make` gives the StepKernel of an op, `workspace_bytes` what it needs.
  template <std::invocable<const Op&> Make, std::invocable<const Op&> WorkspaceBytes>
  LossChunkRunner(const Op& op, Make&& make, WorkspaceBytes&& workspace_bytes)
      : chunks_(loss_chunks(op)), layout_(chunks_) {
    for (std::size_t part = 0; part < num_chunk_parts; ++part) {
      for (const ChunkStep& step : chunks_.parts[part]) {
        require_internal(step.inputs.size() <= max_operands && step.outputs.size() <= max_operands,
                         "a step of a chunk has a few operands");
        kernels_[part].push_back({make(step.op), workspace_bytes(step.op) > 0});
      }
    }
  }

  /// Calls call(kernel, addresses) for every step of every chunk, in order.
  template <typename Call>
  void run(const OperandAddresses& addresses, Call&& call) {
    run_part(ChunkPart::before, addresses, 0, call);
    for (std::int64_t row = 0; row < chunks_.rows; row += chunks_.chunk_rows)
      run_part(chunks_.part_at(row), addresses, row, call);
    run_part(ChunkPart::after, addresses, 0, call);
  }

 private:
  static constexpr std::size_t max_operands = 5;
  using Addresses = std::array<void*, max_operands>;

  struct PreparedKernel {
    StepKernel kernel;
    bool has_workspace;
  };

  template <typename Call>
  void run_part(ChunkPart part, const OperandAddresses& addresses, std::int64_t row, Call& call) {
    const auto which = static_cast<std::size_t>(part);
    for (std::size_t i = 0; i < kernels_[which].size(); ++i) {
      const ChunkStep& step = chunks_.parts[which][i];
      PreparedKernel& prepared = kernels_[which][i];
      Addresses inputs{}, outputs{};
      place(step.inputs, addresses, row, inputs);
      place(step.outputs, addresses, row, outputs);
      void* const workspace =
          prepared.has_workspace ? static_cast<std::byte*>(addresses.workspace) + layout_.scratch_bytes() : nullptr;
      call(prepared.kernel, OperandAddresses{std::span(inputs).first(step.inputs.size()),
                                             std::span(outputs).first(step.outputs.size()), workspace});
    }
  }

  void place(const std::vector<ChunkOperand>& operands, const OperandAddresses& addresses, std::int64_t row,
             Addresses& placed) const {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto position = static_cast<std::size_t>(operands[i].position);
      void* start = nullptr;
      switch (operands[i].place) {
        case ChunkOperand::Place::input:
          start = addresses.inputs[position];
          break;
        case ChunkOperand::Place::output:
          start = addresses.outputs[position];
          break;
        case ChunkOperand::Place::scratch:
          start = static_cast<std::byte*>(addresses.workspace) + layout_.offset(operands[i].position);
          break;
      }
      placed[i] = static_cast<std::byte*>(start) + row * operands[i].row_bytes;
    }
  }

  LossChunks chunks_;
  LossChunkLayout layout_;
  std::array<std::vector<PreparedKernel>, num_chunk_parts> kernels_;
};

}  // namespace trainer
