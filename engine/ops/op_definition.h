#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/op.h"

namespace trainer {

/// A layer or op that cannot take its input's shape. The graph builder adds the layer and its line.
class ShapeError : public Error {
 public:
  explicit ShapeError(const std::string& message) : Error(ExitCode::config, message) {}
};

/// A tensor of the graph under construction, as a gradient rule sees it.
using Operand = std::int32_t;

/// What a gradient rule works with: the forward op's operands, the gradients that have arrived at its outputs, and
/// the means to emit backward ops. Implemented by autodiff (engine/graph/autodiff.cpp).
class GradientScope {
 public:
  virtual ~GradientScope() = default;
  virtual const Op& op() const = 0;
  virtual Operand input(int position) const = 0;
  virtual Operand output(int position) const = 0;
  /// Gradient of the first output; a loss op has none and must not ask.
  virtual Operand output_gradient() = 0;
  /// Whether anything needs the gradient of that input.
  virtual bool needs_gradient(int position) const = 0;
  /// Adds a backward op; returns its outputs.
  virtual std::vector<Operand> emit(Op op, std::vector<Operand> inputs) = 0;
  /// What `of` holds, in a shape of as many elements.
  virtual Operand view(Operand of, const Shape& shape) = 0;
  /// The gradient of that input; those of several uses are summed.
  virtual void set_gradient(int position, Operand gradient) = 0;
};

/// An output that may be stored in an input's memory when nothing reads that input afterwards.
struct InPlace {
  std::int8_t output = -1;
  std::int8_t input = -1;
};

/// Which of an op's f32 operands become 16-bit ones under mixed precision; statistics, indices and losses never do.
/// Arithmetic inside an op is f32 in any case.
enum class Precision : std::uint8_t {
  full,              ///< none: losses, updates
  product,           ///< all: products and convolutions, which is where the time goes
  product_to_first,  ///< all inputs, and of the outputs the first: attention
  follows,           ///< all, where any input is one: activations, pooling, sums
  follows_first,     ///< the first input and the first output, where that input is one: norms
  lookup,  ///< the first output; the second input, a weight, where it has a 16-bit copy or no other: embeddings
};

/// What takes an op's time.
enum class Work : std::uint8_t {
  bytes,        ///< reading and writing its operands
  product,      ///< multiply-adds of matrices
  convolution,  ///< the same, by one of several algorithms, which scratch decides
};

/// What an op is for, to those who order, repeat and time ops.
enum class Role : std::uint8_t {
  compute,
  weight_gradient,  ///< in the backward pass only the update waits for it
  update,           ///< of a parameter
  transfer,         ///< to or from the host's memory, which is filled once and emptied once
  communication,    ///< with other ranks, each of which runs the same op at the same place
};

/// How a forward op is run again to compute its output anew (engine/program/recompute/recompute.h).
struct Rerun {
  Op op;
  std::vector<int> reads;  ///< operands of the first run: inputs from 0 on, and output i as −1 − i, which is then kept
  std::vector<int> makes;  ///< the outputs of the first run that it computes anew
};

/// Everything a stage needs to know of one kind of op besides its shapes.
struct OpDefinition {
  /// Floating-point operations of one run; a multiply-add counts two.
  std::int64_t (*flops)(const Op&) = nullptr;
  /// Bytes that one run moves; null: each operand once.
  std::int64_t (*num_bytes)(const Op&) = nullptr;
  /// Emits the ops that compute the gradients of the inputs; null where there is none to compute.
  void (*differentiate)(GradientScope&) = nullptr;
  /// The op that adds its one output to a last input instead, for sums of gradients; null: there is none.
  Op (*adding)(const Op&) = nullptr;
  /// Outputs that may take over an input's memory, best first. No two outputs want the same input.
  std::span<const InPlace> in_place = {};
  /// Where that depends on the attributes; null: it does not.
  std::span<const InPlace> (*in_place_of)(const Op&) = nullptr;
  Precision precision = Precision::full;
  Work work = Work::bytes;
  Role role = Role::compute;
  /// Whether that op takes longer a byte than its kind usually does: exponentials, codes; null: none does.
  bool (*is_slow)(const Op&) = nullptr;
  /// Whether a run costs little beside a product over its operands, so that computing its output again is nearly free.
  bool is_cheap = false;
  /// Where running the same op on the same inputs again would not do; null: it does.
  Rerun (*rerun)(const Op&) = nullptr;
  /// Whether a run may write to that input; null: where the op has no outputs, to any.
  bool (*modifies)(const Op&, int position) = nullptr;
  /// Whether it never runs again, what it makes being kept: what ranks find together, or that changes state.
  bool runs_once = false;
  /// Whether it reads only what ranks have told each other, so that one without samples runs it, too.
  bool needs_no_samples = false;
  /// Whether its first output, of its first input's type, may be placed in a larger one: Op::placed_at.
  bool can_be_placed = false;
  /// Whether a device's kernel may ask for scratch: each device has a formula for it then, and else none.
  bool takes_scratch = false;
};

const OpDefinition& definition_of(OpKind kind);

/// Throws InternalError unless a device has a formula for the scratch of exactly the kinds that are defined to take it.
void require_defined_scratch(OpKind kind, bool has_formula);

/// What the op's definition says of its outputs' memory; a placed op's first output lies over its whole so far alone.
std::span<const InPlace> in_place_rules(const Op& op);
/// Whether `op` may write to the input at `position`, apart from outputs that are stored there.
bool may_modify_input(const Op& op, int position);

#define TRAINER_OP(name, attributes) extern const OpDefinition name##_definition;
TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP

}  // namespace trainer
