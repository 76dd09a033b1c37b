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
  /// The gradient of that input; those of several uses are summed.
  virtual void set_gradient(int position, Operand gradient) = 0;
};

/// An output that may be stored in an input's memory when nothing reads that input afterwards.
struct InPlace {
  std::int8_t output = -1;
  std::int8_t input = -1;
};

/// Everything a stage needs to know of one kind of op besides its shapes.
struct OpDefinition {
  /// Floating-point operations of one run; a multiply-add counts two.
  std::int64_t (*flops)(const Op&) = nullptr;
  /// Emits the ops that compute the gradients of the inputs; null where there is none to compute.
  void (*differentiate)(GradientScope&) = nullptr;
  /// Outputs that may take over an input's memory, best first.
  std::span<const InPlace> in_place = {};
};

const OpDefinition& definition_of(OpKind kind);

#define TRAINER_OP(name, attributes) extern const OpDefinition name##_definition;
TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP

}  // namespace trainer
