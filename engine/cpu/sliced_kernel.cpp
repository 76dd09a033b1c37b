#include "engine/cpu/sliced_kernel.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/cpu/parallel.h"
#include "engine/cpu/slicing.h"
#include "engine/half.h"
#include "engine/memory/rounding.h"
#include "engine/simd.h"

namespace trainer {

namespace {

constexpr std::int64_t where_it_lies = -1;

/// Places in the workspace, one behind the other.
class Scratch {
 public:
  std::int64_t add(std::int64_t num_bytes) {
    const std::int64_t offset = num_bytes_;
    num_bytes_ += round_up(num_bytes, least_block_bytes);
    return offset;
  }
  std::int64_t add_floats(std::int64_t count) { return add(count * static_cast<std::int64_t>(sizeof(float))); }
  std::int64_t num_bytes() const { return num_bytes_; }

 private:
  std::int64_t num_bytes_ = 0;
};

/// An operand of the op, and where the slices' kernel finds it.
struct SlicedOperand {
  Part part;
  DType type;
  std::int64_t elements;                ///< of all of it
  std::int64_t row_elements;            ///< of one row where it is cut
  std::int64_t offset = where_it_lies;  ///< of its f32 numbers in the workspace
  std::int64_t term = where_it_lies;    ///< of a sum: what one slice adds, where the kernel does not add it itself

  std::byte* row(void* address, std::int64_t row) const {
    return static_cast<std::byte*>(address) + row * row_elements * static_cast<std::int64_t>(size_of(type));
  }
};

/// `slice` where it adds to what the slices before it summed, which are then inputs behind its own.
Op adding(Op slice) {
  std::get<LinearAttributes>(slice.attributes).adds = true;
  slice.inputs.insert(slice.inputs.end(), slice.outputs.begin(), slice.outputs.end());
  slice.outputs.clear();
  return slice;
}

struct Layout {
  std::vector<SlicedOperand> inputs, outputs;
  std::int64_t workspace = 0;  ///< offset of the slices' own
  std::int64_t num_bytes = 0;
};

std::vector<SlicedOperand> place(const std::vector<TensorType>& types, const std::vector<Part>& parts,
                                 const Slicing& slicing, bool has_terms, Scratch& scratch) {
  std::vector<SlicedOperand> operands;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::int64_t elements = types[i].num_elements();
    SlicedOperand operand{parts[i], types[i].dtype, elements, elements / slicing.num_rows};
    if (is_16_bit(operand.type))
      operand.offset =
          scratch.add_floats(operand.part == Part::rows ? slicing.slice_rows * operand.row_elements : elements);
    if (operand.part == Part::sum && has_terms) operand.term = scratch.add_floats(elements);
    operands.push_back(operand);
  }
  return operands;
}

/// What the slices compute: the first, those behind it, and the last, which may be shorter.
struct SliceOps {
  Op first, next, last;
};

SliceOps slice_ops(const Op& op, const Slicing& slicing) {
  SliceOps slices;
  slices.first = slices.next = slice_of(op, slicing, slicing.slice_rows);
  slices.last = slice_of(op, slicing, slicing.last_rows());
  const bool has_sums = std::find(slicing.outputs.begin(), slicing.outputs.end(), Part::sum) != slicing.outputs.end();
  if (has_sums && slicing.num_slices() > 1 && slicing.adds_itself) {
    slices.next = adding(slices.next);
    slices.last = adding(slices.last);
  }
  return slices;
}

Layout layout_of(const Op& op, const Slicing& slicing, CpuContext& context) {
  Scratch scratch;
  Layout layout;
  layout.inputs = place(op.inputs, slicing.inputs, slicing, false, scratch);
  const bool has_terms = slicing.num_slices() > 1 && !slicing.adds_itself;
  layout.outputs = place(op.outputs, slicing.outputs, slicing, has_terms, scratch);
  layout.workspace = scratch.num_bytes();
  const SliceOps slices = slice_ops(op, slicing);
  std::int64_t of_slices = 0;
  for (const Op* const slice : {&slices.first, &slices.next, &slices.last})
    of_slices = std::max(of_slices, compute_workspace_bytes(*slice, context));
  layout.num_bytes = layout.workspace + of_slices;
  return layout;
}

TRAINER_SIMD void add_loop(const float* __restrict term, float* __restrict sum, std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) sum[i] += term[i];
}

class SlicedKernel final : public CpuKernel {
 public:
  SlicedKernel(const Op& op, Cut cut, CpuContext& context)
      : slicing_(slices_of(op, std::move(cut))),
        layout_(layout_of(op, slicing_, context)),
        num_threads_(context.num_threads),
        addresses_(op.inputs.size() + op.outputs.size()) {
    const SliceOps slices = slice_ops(op, slicing_);
    first_ = make_kernel_of(slices.first, context);
    if (slices.next != slices.first) next_ = make_kernel_of(slices.next, context);
    if (slices.last != slices.next) last_ = make_kernel_of(slices.last, context);
    sums_are_inputs_ = slices.next.inputs.size() > op.inputs.size();
  }

  void run(const OperandAddresses& addresses, const StepScalars& scalars) override {
    auto* const scratch = static_cast<std::byte*>(addresses.workspace);
    for (std::size_t i = 0; i < layout_.inputs.size(); ++i) {
      const SlicedOperand& input = layout_.inputs[i];
      if (input.part == Part::whole) addresses_[i] = widened(input, addresses.inputs[i], input.elements, scratch);
    }
    for (std::int64_t slice = 0; slice < slicing_.num_slices(); ++slice) run_slice(slice, addresses, scalars, scratch);
    for (std::size_t i = 0; i < layout_.outputs.size(); ++i) {
      const SlicedOperand& output = layout_.outputs[i];
      if (output.part != Part::rows) store(output, addresses.outputs[i], output.elements, scratch);
    }
  }

 private:
  void run_slice(std::int64_t slice, const OperandAddresses& addresses, const StepScalars& scalars,
                 std::byte* scratch) {
    const bool is_last = slice + 1 == slicing_.num_slices();
    const std::int64_t row = slice * slicing_.slice_rows;
    const std::int64_t rows = is_last ? slicing_.last_rows() : slicing_.slice_rows;
    const std::size_t num_inputs = layout_.inputs.size();
    for (std::size_t i = 0; i < num_inputs; ++i) {
      const SlicedOperand& input = layout_.inputs[i];
      if (input.part == Part::rows)
        addresses_[i] = widened(input, input.row(addresses.inputs[i], row), rows * input.row_elements, scratch);
    }
    for (std::size_t i = 0; i < layout_.outputs.size(); ++i) {
      const SlicedOperand& output = layout_.outputs[i];
      void*& address = addresses_[num_inputs + i];
      address = sum_or_rows(output, addresses.outputs[i], row, scratch);
      if (slice > 0 && output.term != where_it_lies) address = scratch + output.term;
    }

    CpuKernel& kernel = is_last && last_ ? *last_ : slice > 0 && next_ ? *next_ : *first_;
    const std::span<void* const> all(addresses_);
    const std::size_t num_kernel_inputs = sums_are_inputs_ && slice > 0 ? all.size() : num_inputs;
    void* const workspace = scratch == nullptr ? nullptr : scratch + layout_.workspace;
    kernel.run({all.first(num_kernel_inputs), all.subspan(num_kernel_inputs), workspace}, scalars);

    for (std::size_t i = 0; i < layout_.outputs.size(); ++i) {
      const SlicedOperand& output = layout_.outputs[i];
      if (output.part == Part::rows)
        store(output, output.row(addresses.outputs[i], row), rows * output.row_elements, scratch);
      if (slice > 0 && output.term != where_it_lies)
        add(output, sum_or_rows(output, addresses.outputs[i], row, scratch), scratch);
    }
  }

  /// Where an output's rows from `row` on or its sum are computed.
  static void* sum_or_rows(const SlicedOperand& output, void* address, std::int64_t row, std::byte* scratch) {
    if (output.offset != where_it_lies) return scratch + output.offset;
    return output.part == Part::rows ? output.row(address, row) : address;
  }

  /// Where the `count` numbers at `from` are as the f32 kernel reads them.
  void* widened(const SlicedOperand& operand, void* from, std::int64_t count, std::byte* scratch) const {
    if (operand.offset == where_it_lies) return from;
    auto* const to = reinterpret_cast<float*>(scratch + operand.offset);
    const auto* const bytes = static_cast<const std::byte*>(from);
    parallel_elements(num_threads_, count, [&](std::int64_t begin, std::int64_t end) {
      widen(operand.type, bytes + 2 * begin, to + begin, end - begin);
    });
    return to;
  }
  /// Narrows what was computed in the workspace.
  void store(const SlicedOperand& operand, void* to, std::int64_t count, const std::byte* scratch) const {
    if (operand.offset == where_it_lies) return;
    const auto* const from = reinterpret_cast<const float*>(scratch + operand.offset);
    auto* const bytes = static_cast<std::byte*>(to);
    parallel_elements(num_threads_, count, [&](std::int64_t begin, std::int64_t end) {
      narrow(operand.type, from + begin, bytes + 2 * begin, end - begin);
    });
  }
  void add(const SlicedOperand& operand, void* sum, const std::byte* scratch) const {
    const auto* const term = reinterpret_cast<const float*>(scratch + operand.term);
    auto* const total = static_cast<float*>(sum);
    parallel_elements(num_threads_, operand.elements,
                      [&](std::int64_t begin, std::int64_t end) { add_loop(term, total, begin, end); });
  }

  Slicing slicing_;
  Layout layout_;
  int num_threads_;
  std::unique_ptr<CpuKernel> first_;
  std::unique_ptr<CpuKernel> next_;  ///< of the slices behind the first; null: the same
  std::unique_ptr<CpuKernel> last_;  ///< null: as those before it
  bool sums_are_inputs_ = false;     ///< behind the first slice
  std::vector<void*> addresses_;     ///< of the slice that runs: inputs, then outputs
};

}  // namespace

std::unique_ptr<CpuKernel> make_sliced_kernel(const Op& op, Cut cut, CpuContext& context) {
  return std::make_unique<SlicedKernel>(op, std::move(cut), context);
}

std::int64_t sliced_workspace_bytes(const Op& op, Cut cut, CpuContext& context) {
  return layout_of(op, slices_of(op, std::move(cut)), context).num_bytes;
}

}  // namespace trainer
