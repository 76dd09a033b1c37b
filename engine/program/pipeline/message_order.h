#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/pipeline/schedules.h"
#include "engine/program/pipeline/stage_graph.h"

namespace trainer {

// Note [Messages in one order]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A rank exchanges one thing after the other, and what it tells another waits until that one listens. So that none
// waits for ever, all messages of a step have one order, of which each stage keeps its own: that of the times at which
// items would make them if each took a unit (Note [Orders of a pipeline] in schedules.h), but no earlier than when the
// item in front of the one that reads them begins, so that they do not lie in memory long before. A stage deals with a
// message between the items that such a time falls between: behind the one that it falls into, where it waits for the
// message; in front of that, where it is but started, and goes on beside it. It is finished in front of what reads it,
// or behind the item that it ran beside.
//
// No stage waits for ever: what it waits for is earlier in the order, or computed by one that does not wait.

/// What a stage does in a step, one by one.
struct PipelineEntry {
  enum class Kind : std::uint8_t { item, exchange, finish } kind = Kind::item;
  PipelineItem item{};           ///< of the first kind
  std::int32_t message = 0;      ///< of the others, a number of the list of messages
  bool is_gradient = false;      ///< of the others
  std::int32_t micro_batch = 0;  ///< of the step
};

/// By chunk, those whose outputs it is sent.
std::vector<std::vector<std::int32_t>> chunks_read(std::int32_t num_chunks, const std::vector<StageMessage>& messages);

/// Those of one stage; `starts`: messages are started.
std::vector<PipelineEntry> pipeline_entries(const PipelineShape& shape, const std::vector<StageMessage>& messages,
                                            std::int32_t stage, bool starts);

}  // namespace trainer
