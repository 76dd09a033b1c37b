#include "engine/program/pipeline/message_order.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "engine/errors.h"

namespace trainer {
namespace {

/// A message of a micro-batch, or its gradient, between two stages.
struct TimedMessage {
  double time = 0, made_at = 0;
  std::int32_t message = 0, micro_batch = 0;
  bool is_gradient = false;
  std::size_t reader = 0;  ///< an item of the stage that receives it
  std::int32_t sender_stage = 0, receiver_stage = 0;

  /// As an item sends them, gradients in the reverse order.
  std::int32_t in_item() const { return is_gradient ? -message : message; }
  auto key() const { return std::tuple(time, made_at, micro_batch, is_gradient, in_item()); }
};

/// What an item sends stays in its order, for the last of them that reads a tensor releases it: none is later than
/// those behind it. They are all there when the item ends, so any may be sooner.
void keep_order_of_items(std::span<TimedMessage> of_micro_batch, const std::vector<StageMessage>& messages) {
  const auto sender = [&](const TimedMessage& timed) {
    const StageMessage& message = messages[static_cast<std::size_t>(timed.message)];
    return std::pair(timed.is_gradient, timed.is_gradient ? message.to : message.from);
  };
  std::sort(of_micro_batch.begin(), of_micro_batch.end(), [&](const TimedMessage& a, const TimedMessage& b) {
    return std::pair(sender(a), a.in_item()) < std::pair(sender(b), b.in_item());
  });
  for (std::size_t i = of_micro_batch.size(); i-- > 1;)
    if (sender(of_micro_batch[i - 1]) == sender(of_micro_batch[i]))
      of_micro_batch[i - 1].time = std::min(of_micro_batch[i - 1].time, of_micro_batch[i].time);
}

/// Finds items by what they are.
class PlacesOfItems {
 public:
  PlacesOfItems(const PipelineShape& shape, const std::vector<std::vector<PipelineItem>>& items)
      : shape_(shape), items_(items) {
    const auto count = static_cast<std::size_t>(shape.num_chunks) * static_cast<std::size_t>(shape.num_micro_batches);
    forward_.resize(count);
    backward_.resize(count);
    for (const std::vector<PipelineItem>& of_stage : items)
      for (std::size_t i = 0; i < of_stage.size(); ++i) {
        if (of_stage[i].kind == PipelineItem::Kind::weight_gradients) continue;
        (of_stage[i].kind == PipelineItem::Kind::forward ? forward_ : backward_)[at(of_stage[i])] = i;
      }
  }
  std::size_t place_of(std::int32_t chunk, std::int32_t micro_batch, bool is_backward) const {
    return (is_backward ? backward_ : forward_)[at({.chunk = chunk, .micro_batch = micro_batch})];
  }
  const std::vector<PipelineItem>& of_chunk(std::int32_t chunk) const {
    return items_[static_cast<std::size_t>(shape_.stage_of(chunk))];
  }

 private:
  std::size_t at(const PipelineItem& item) const {
    return static_cast<std::size_t>(item.micro_batch) * static_cast<std::size_t>(shape_.num_chunks) +
           static_cast<std::size_t>(item.chunk);
  }

  const PipelineShape& shape_;
  const std::vector<std::vector<PipelineItem>>& items_;
  std::vector<std::size_t> forward_, backward_;
};

std::vector<TimedMessage> timed_messages(const PipelineShape& shape, const std::vector<StageMessage>& messages,
                                         const std::vector<std::vector<PipelineItem>>& items, std::int32_t stage) {
  const PlacesOfItems places(shape, items);
  std::vector<TimedMessage> timed;
  for (std::int32_t micro_batch = 0; micro_batch < shape.num_micro_batches; ++micro_batch) {
    const std::size_t first = timed.size();
    for (std::size_t m = 0; m < messages.size(); ++m)
      for (const bool is_gradient : {false, true}) {
        if (is_gradient && !messages[m].returns_gradient) continue;
        const std::int32_t from = is_gradient ? messages[m].to : messages[m].from;
        const std::int32_t to = is_gradient ? messages[m].from : messages[m].to;
        TimedMessage message{.message = static_cast<std::int32_t>(m),
                             .micro_batch = micro_batch,
                             .is_gradient = is_gradient,
                             .reader = places.place_of(to, micro_batch, is_gradient),
                             .sender_stage = shape.stage_of(from),
                             .receiver_stage = shape.stage_of(to)};
        message.made_at = places.of_chunk(from)[places.place_of(from, micro_batch, is_gradient)].end;
        const double before = message.reader > 0 ? places.of_chunk(to)[message.reader - 1].begin : 0;
        message.time = std::max(message.made_at, before);
        timed.push_back(message);
      }
    keep_order_of_items(std::span(timed).subspan(first), messages);
  }
  std::erase_if(timed, [&](const TimedMessage& message) {
    return message.sender_stage != stage && message.receiver_stage != stage;
  });
  std::sort(timed.begin(), timed.end(), [](const TimedMessage& a, const TimedMessage& b) { return a.key() < b.key(); });
  return timed;
}

}  // namespace

std::vector<std::vector<std::int32_t>> chunks_read(std::int32_t num_chunks, const std::vector<StageMessage>& messages) {
  std::vector<std::vector<std::int32_t>> reads(static_cast<std::size_t>(num_chunks));
  for (const StageMessage& message : messages) {
    std::vector<std::int32_t>& of_chunk = reads[static_cast<std::size_t>(message.to)];
    if (std::find(of_chunk.begin(), of_chunk.end(), message.from) == of_chunk.end()) of_chunk.push_back(message.from);
  }
  return reads;
}

std::vector<PipelineEntry> pipeline_entries(const PipelineShape& shape, const std::vector<StageMessage>& messages,
                                            std::int32_t stage, bool starts) {
  using EntryKind = PipelineEntry::Kind;
  const std::vector<std::vector<PipelineItem>> items = pipeline_items(shape, chunks_read(shape.num_chunks, messages));
  const std::vector<PipelineItem>& own = items[static_cast<std::size_t>(stage)];
  struct Placed {
    std::vector<PipelineEntry> before;   ///< what is finished of the item before, then what is exchanged
    std::vector<PipelineEntry> reading;  ///< what is finished for the item
  };
  std::vector<Placed> placed(own.size() + 1);
  std::vector<std::vector<PipelineEntry>> finished(own.size() + 1);  // of what was sent
  std::size_t place = 0;
  for (const TimedMessage& message : timed_messages(shape, messages, items, stage)) {
    const auto is_behind = [&](const PipelineItem& item) {
      return starts ? item.end > message.time : item.begin >= message.time;
    };
    while (place < own.size() && !is_behind(own[place])) ++place;
    const bool receives = message.receiver_stage == stage;
    require_internal(!receives || place <= message.reader, "a message comes before it is read");
    PipelineEntry entry{.kind = EntryKind::exchange,
                        .message = message.message,
                        .is_gradient = message.is_gradient,
                        .micro_batch = message.micro_batch};
    placed[place].before.push_back(entry);
    if (!starts) continue;
    entry.kind = EntryKind::finish;
    if (receives) {
      placed[message.reader].reading.push_back(entry);
      continue;
    }
    // In front of what may release the tensor, the next item of the micro-batch.
    const bool is_next = place < own.size() && own[place].micro_batch == message.micro_batch;
    if (is_next)
      placed[place].reading.push_back(entry);
    else
      finished[std::min(place + 1, own.size())].push_back(entry);
  }
  std::vector<PipelineEntry> entries;
  const auto append = [&](const std::vector<PipelineEntry>& more) {
    entries.insert(entries.end(), more.begin(), more.end());
  };
  for (std::size_t i = 0; i <= own.size(); ++i) {
    // At the end what is sent last is finished as well.
    if (i < own.size()) append(finished[i]);
    append(placed[i].before);
    if (i == own.size()) {
      append(finished[i]);
      continue;
    }
    append(placed[i].reading);
    entries.push_back({.kind = EntryKind::item, .item = own[i], .micro_batch = own[i].micro_batch});
  }
  return entries;
}

}  // namespace trainer
