#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/device/device.h"
#include "engine/program/program.h"

namespace trainer {

/// A number of bytes as a function of the batch size; one of the two is 0.
struct SizedBytes {
  std::int64_t fixed = 0, per_sample = 0;
  std::int64_t at(std::int64_t batch_size) const { return fixed + per_sample * batch_size; }
  friend bool operator==(const SizedBytes&, const SizedBytes&) = default;
};

/// Of a type at two batch sizes, low < high; nothing where more than one dimension depends on the batch size, or one
/// is not a multiple of it.
std::optional<SizedBytes> sized_bytes(const TensorType& at_low, std::int64_t low, const TensorType& at_high,
                                      std::int64_t high);

/// What two programs of different batch sizes have alike in `load`, the micro-batches of whole batches and `update`:
/// instructions over buffers and ops whose sizes are functions of the batch size. See Note [Neighbouring batch sizes].
class SizedProgram {
 public:
  struct Instruction {
    enum class Kind : std::uint8_t { allocate, run, release } kind = Kind::run;
    std::int32_t index = 0;  ///< a buffer, or an op, which needs scratch while it runs
  };
  enum Part : std::uint8_t { load, first, next, update };

  /// Nothing where they differ in more than sizes, or where an output might take over an input's memory in between.
  static std::optional<SizedProgram> make(const Program& low, const Program& high);
  /// The same of the largest evaluation batches, as the part `first`; both have some.
  static std::optional<SizedProgram> make_evaluation(const Program& low, const Program& high);

  const std::vector<Instruction>& part(Part part) const { return parts_[part]; }
  const std::vector<SizedBytes>& buffers() const { return buffers_; }
  std::int64_t num_instructions() const;
  /// Scratch of each op at this batch size. Throws what the device throws.
  const std::vector<std::int64_t>& workspaces(const DeviceModel& device, std::int64_t batch_size);
  /// Scratch of the op at `index` at the batch size that was asked for last. Throws what the device throws.
  std::int64_t workspace(const DeviceModel& device, std::int32_t index) const;
  /// DeviceModel::most_workspace_bytes of each op at this batch size. Throws what the device throws.
  const std::vector<std::int64_t>& most_workspaces(const DeviceModel& device, std::int64_t batch_size);
  /// The largest scratch that an op may need at this batch size and not at the high one; 0: there is none. Nothing
  /// where the device knows no bound. Throws what the device throws.
  std::optional<std::int64_t> scratch_beyond_high(const DeviceModel& device, std::int64_t batch_size);
  /// Whether the device has statistics for the same convolutions at this batch size, whoever reads them.
  bool has_statistics_alike(const DeviceModel& device, std::int64_t batch_size);

 private:
  /// A dimension that is a multiple of the batch size.
  struct Dimension {
    bool is_output = false;
    std::int32_t operand = 0, axis = 0;
    std::int64_t per_sample = 0;
  };
  struct SizedOp {
    Op op;  ///< of the batch size that was asked for last
    std::vector<Dimension> dimensions;
  };
  /// One of the two programs, while they are compared.
  struct Side {
    const Program& program;
    std::int64_t batch_size = 0;
    std::vector<bool> is_workspace;     ///< by buffer
    std::vector<std::int32_t> buffers;  ///< the number here, by buffer of the program; -1: not met yet
  };

  static void resize(SizedOp& sized, std::int64_t batch_size);
  void resize_ops(std::int64_t batch_size);
  static Side side_of(const Program& program, std::int64_t batch_size);
  bool add_routine(Side& low, const Routine& at_low, Side& high, const Routine& at_high,
                   std::vector<Instruction>& instructions);
  bool add_buffer(Side& low, BufferId at_low, Side& high, BufferId at_high, std::int32_t& index);
  bool add_op(const Side& low, const Op& at_low, const Side& high, const Op& at_high, std::int32_t& index);
  static bool takes_over_alike(const Op& at_low, const Op& at_high);

  std::array<std::vector<Instruction>, 4> parts_;
  std::vector<SizedBytes> buffers_;
  std::vector<SizedOp> ops_;                                               // different ones
  std::vector<Op> high_ops_;                                               // the same at the high batch size
  std::unordered_map<Op, std::int32_t, OpHash> op_indexes_;                // of those at the low batch size
  std::vector<std::int64_t> workspaces_, most_workspaces_, most_at_high_;  // by op
  bool knows_fixed_ = false;                                               // those of ops without dimensions that grow
};

}  // namespace trainer
