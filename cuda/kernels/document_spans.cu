#include "cuda/kernels/document_spans.h"

#include "cuda/kernels/grid.h"
#include "cuda/launch/launch.h"

namespace trainer::cuda {

namespace {

constexpr int span_threads = 256;

/// A thread has a stretch of the tokens, and looks for where documents begin in it, then in those of others.
__global__ void __launch_bounds__(span_threads) document_spans_kernel(DocumentSpansTask task) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(std::int32_t, first_begins, span_threads);  // length: none
  TRAINER_SHARED(std::int32_t, last_begins, span_threads);   // -1: none
  const std::int64_t sample = blockIdx.x;
  const std::int32_t* const tokens = task.tokens + sample * task.length;
  const auto is_padding = [&](std::int32_t at) { return task.has_padding && tokens[at] == task.pad_token; };
  const auto begins = [&](std::int32_t at) {
    return at > 0 && (tokens[at] == task.document_token || is_padding(at) != is_padding(at - 1));
  };
  const auto thread = static_cast<int>(threadIdx.x);
  const auto length = static_cast<std::int32_t>(task.length);
  const std::int32_t stretch = (length + span_threads - 1) / span_threads;
  const std::int32_t from = thread * stretch < length ? thread * stretch : length;
  const std::int32_t to = from + stretch < length ? from + stretch : length;
  std::int32_t first = length, last = -1;
  for (std::int32_t at = from; at < to; ++at) {
    if (!begins(at)) continue;
    if (first == length) first = at;
    last = at;
  }
  first_begins[thread] = first;
  last_begins[thread] = last;
  __syncthreads();
  std::int32_t begin = 0, end = length;
  for (int earlier = thread - 1; earlier >= 0 && begin == 0; --earlier)
    if (last_begins[earlier] >= 0) begin = last_begins[earlier];
  for (int later = thread + 1; later < span_threads && end == length; ++later) end = first_begins[later];
  std::int32_t* const spans = task.spans + 2 * sample * task.length;
  std::int32_t* const places = task.places + sample * task.length;
  for (std::int32_t at = from; at < to; ++at) {
    if (begins(at)) begin = at;
    spans[2 * at] = begin;
    places[at] = at - begin;
  }
  for (std::int32_t at = to - 1; at >= from; --at) {
    spans[2 * at + 1] = end;
    if (begins(at)) end = at;
  }
}

}  // namespace

void document_spans(const DocumentSpansTask& task, Stream stream) {
  launch(document_spans_kernel, grid_of(task.samples), {span_threads}, stream, task);
}

}  // namespace trainer::cuda
