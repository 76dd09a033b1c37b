#include "engine/train/parameter_copy.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "engine/graph/tensor_pieces.h"
#include "engine/half.h"

namespace trainer {
namespace {

/// Numbers of a buffer, a piece at a time.
void copy_numbers(Executor& from, BufferId source, Executor& to, BufferId destination, PieceMemory& memory) {
  const TensorType &read = from.program().buffers[source].type, &written = to.program().buffers[destination].type;
  const auto read_bytes = static_cast<std::int64_t>(size_of(read.dtype));
  const auto written_bytes = static_cast<std::int64_t>(size_of(written.dtype));
  // As read, as f32 and as written, one behind the other.
  constexpr std::int64_t widest = 4;
  const std::int64_t most = memory.num_bytes() / (3 * widest);
  std::byte* const raw = memory.data();
  auto* const wide = reinterpret_cast<float*>(raw + most * widest);
  std::byte* const narrowed = raw + 2 * most * widest;
  for (std::int64_t first = 0; first < read.num_elements(); first += most) {
    const std::int64_t count = std::min(most, read.num_elements() - first);
    from.read(source, first * read_bytes, count * read_bytes, raw);
    if (read.dtype == written.dtype) {
      to.write(destination, first * written_bytes, count * written_bytes, raw);
      continue;
    }
    widen(read.dtype, raw, wide, count);
    narrow(written.dtype, wide, narrowed, count);
    to.write(destination, first * written_bytes, count * written_bytes, narrowed);
  }
}

}  // namespace

void copy_parameters(Executor& from, Executor& to) {
  std::unordered_map<std::string, BufferId> sources;
  for (std::size_t i = 0; i < from.program().parameters.size(); ++i)
    sources.emplace(from.program().parameters[i].name, from.program().model_buffer(i));
  PieceMemory memory(most_piece_bytes);
  for (std::size_t i = 0; i < to.program().parameters.size(); ++i) {
    const auto source = sources.find(to.program().parameters[i].name);
    require_internal(source != sources.end(), "a model predicts with the parameters that it trained");
    const BufferId destination = to.program().parameter_buffers[i];
    require_internal(from.program().buffers[source->second].type.shape == to.program().buffers[destination].type.shape,
                     "a parameter has one shape");
    copy_numbers(from, source->second, to, destination, memory);
  }
}

}  // namespace trainer
