#include "cuda/kernels/document_spans.h"
#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_document_spans_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<DocumentSpansAttributes>(op);
  DocumentSpansTask task;
  task.samples = op.inputs[0].shape[0];
  task.length = op.inputs[0].shape[1];
  task.document_token = attributes.document_token;
  task.has_padding = attributes.pad_token.has_value();
  task.pad_token = attributes.pad_token.value_or(0);
  return make_kernel([task, &stream = context.stream](const OperandAddresses& addresses) {
    DocumentSpansTask run = task;
    run.tokens = input<std::int32_t>(addresses, 0);
    run.spans = output<std::int32_t>(addresses, 0);
    run.places = output<std::int32_t>(addresses, 1);
    document_spans(run, stream);
  });
}

}  // namespace trainer::cuda
