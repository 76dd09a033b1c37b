#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/ops/document_spans.h"

namespace trainer {

namespace {

void find_documents(const DocumentSpansAttributes& attributes, const std::int32_t* tokens, std::int64_t length,
                    std::int32_t* spans, std::int32_t* places) {
  const auto is_padding = [&](std::int64_t i) { return attributes.pad_token && tokens[i] == *attributes.pad_token; };
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    const bool begins = i > 0 && (tokens[i] == attributes.document_token || is_padding(i) != is_padding(i - 1));
    if (begins) {
      for (std::int64_t j = first; j < i; ++j) spans[2 * j + 1] = static_cast<std::int32_t>(i);
      first = i;
    }
    spans[2 * i] = static_cast<std::int32_t>(first);
    places[i] = static_cast<std::int32_t>(i - first);
  }
  for (std::int64_t j = first; j < length; ++j) spans[2 * j + 1] = static_cast<std::int32_t>(length);
}

std::unique_ptr<CpuKernel> make_document_spans_kernel(const Op& op, CpuContext& context) {
  const Shape& tokens = op.inputs[0].shape;
  return make_kernel([attributes = attributes_of<DocumentSpansAttributes>(op), samples = tokens[0], length = tokens[1],
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    parallel_tasks(samples * length <= serial_elements ? 1 : threads, samples, [&](std::int64_t sample) {
      find_documents(attributes, input<std::int32_t>(addresses, 0) + sample * length, length,
                     output<std::int32_t>(addresses, 0) + 2 * sample * length,
                     output<std::int32_t>(addresses, 1) + sample * length);
    });
  });
}

}  // namespace

const CpuOp document_spans_on_cpu = {make_document_spans_kernel, cut_nowhere};

}  // namespace trainer
