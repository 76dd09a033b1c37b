#include "engine/train/shared_reads.h"

#include <vector>

#include "engine/program/held_parts.h"

namespace trainer {

void read_shared(Executor& executor, Communicator* ranks, BufferId buffer, std::int64_t offset, std::int64_t num_bytes,
                 std::byte* to, int receiver) {
  executor.read(buffer, offset, num_bytes, to);
  const std::optional<TensorPart>& part = executor.program().buffers[buffer].part;
  if (!part) return;
  require_internal(ranks != nullptr, "ranks that hold parts of tensors reach one another");
  const auto receives_all = [&](int rank) { return receiver == all_receive || receiver == rank; };
  std::vector<SentBytes> sends;
  std::vector<ReceivedBytes> receives;
  for (int rank = 0; rank < ranks->size(); ++rank) {
    const RankLayout layout = executor.program().ranks.of_rank(rank);
    if (!gives_part(*part, layout)) continue;
    const bool gives = rank == ranks->rank();
    if (!gives && !receives_all(ranks->rank())) continue;
    for (const HeldRange& held : held_of(*part, layout, offset, num_bytes)) {
      std::byte* const place = to + (held.in_tensor - offset);
      if (!gives) {
        receives.push_back({rank, place, held.num_bytes});
        continue;
      }
      for (int other = 0; other < ranks->size(); ++other)
        if (other != rank && receives_all(other)) sends.push_back({other, place, held.num_bytes});
    }
  }
  ranks->exchange(sends, receives);
}

}  // namespace trainer
