#include <atomic>
#include <limits>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/ops/confusion_matrix.h"

namespace trainer {

namespace {

/// Counts, of which several threads add to the same ones. What follows each other is often alike, and added at once.
class RunningCount {
 public:
  RunningCount(std::int64_t* counts, std::int64_t num_classes) : counts_(counts), num_classes_(num_classes) {}
  ~RunningCount() { add(); }
  RunningCount(const RunningCount&) = delete;
  RunningCount& operator=(const RunningCount&) = delete;

  void count(std::int64_t truth, std::int64_t guess) {
    const std::int64_t at = truth * num_classes_ + guess;
    if (at != at_) add();
    at_ = at;
    ++number_;
  }

 private:
  void add() {
    if (number_ > 0) std::atomic_ref(counts_[at_]).fetch_add(number_, std::memory_order_relaxed);
    number_ = 0;
  }

  std::int64_t* const counts_;
  const std::int64_t num_classes_;
  std::int64_t at_ = 0, number_ = 0;
};

/// The class of the largest logit, of equal ones the first; a NaN is no guess.
std::int64_t guess_of(const float* row, std::int64_t channels) {
  float best = -std::numeric_limits<float>::infinity();
  std::int64_t at = 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    if (row[c] > best) {
      best = row[c];
      at = c;
    }
  }
  return at;
}

void count_rows(const ConfusionShape& shape, std::int32_t ignored, const float* logits, const void* targets,
                std::int64_t begin, std::int64_t end, std::int64_t* counts) {
  RunningCount count(counts, shape.num_classes);
  for (std::int64_t row = begin; row < end; ++row) {
    const float* const of_row = logits + row * shape.channels;
    if (!shape.has_classes) {
      for (std::int64_t c = 0; c < shape.channels; ++c)
        count.count(static_cast<const float*>(targets)[row * shape.channels + c] > 0.5F ? 1 : 0, of_row[c] > 0 ? 1 : 0);
      continue;
    }
    const std::int32_t target = static_cast<const std::int32_t*>(targets)[row];
    if (target == ignored) continue;
    require_internal(target >= 0 && target < shape.num_classes, "a counted target is a class or ignored");
    count.count(target, shape.channels == 1 ? (of_row[0] > 0 ? 1 : 0) : guess_of(of_row, shape.channels));
  }
}

std::unique_ptr<CpuKernel> make_confusion_matrix_kernel(const Op& op, CpuContext& context) {
  return make_kernel([shape = confusion_shape_of(op), parts = row_parts(confusion_shape_of(op).rows, 1024),
                      ignored = attributes_of<ConfusionMatrixAttributes>(op).ignore_index,
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    parallel_tasks(shape.rows * shape.channels <= serial_elements ? 1 : threads, parts.num_parts,
                   [&](std::int64_t part) {
                     count_rows(shape, ignored, input(addresses, 0), addresses.inputs[1], parts.begin(part),
                                parts.end(part), modified_input<std::int64_t>(addresses, 2));
                   });
  });
}

}  // namespace

const CpuOp confusion_matrix_on_cpu = {make_confusion_matrix_kernel, cut_nowhere};

}  // namespace trainer
