#include "engine/program/pipeline/schedules.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/program/pipeline/message_order.h"

// Orders of pipelines and of their messages, beside what is known of them and a model of ranks that wait.

using namespace trainer;

namespace {

using PipelineItems = std::vector<std::vector<PipelineItem>>;
using ReadsOfChunks = std::vector<std::vector<std::int32_t>>;
using ItemKind = PipelineItem::Kind;

constexpr PipelineOrder all_pipeline_orders[] = {PipelineOrder::gpipe, PipelineOrder::one_forward_one_backward,
                                                 PipelineOrder::interleaved, PipelineOrder::zero_bubble};

const char* text_of(PipelineOrder order) {
  switch (order) {
    case PipelineOrder::gpipe:
      return "gpipe";
    case PipelineOrder::one_forward_one_backward:
      return "1f1b";
    case PipelineOrder::interleaved:
      return "interleaved";
    case PipelineOrder::zero_bubble:
      break;
  }
  return "zero_bubble";
}

std::string text_of(const PipelineShape& shape) {
  return std::string(text_of(shape.order)) + ", " + std::to_string(shape.num_stages) + " stages, " +
         std::to_string(shape.num_chunks) + " chunks, " + std::to_string(shape.num_micro_batches) + " micro-batches";
}

PipelineShape pipeline_shape(PipelineOrder order, std::int32_t num_stages, std::int32_t num_micro_batches,
                             std::int32_t chunks_each = 1) {
  return {.num_stages = num_stages,
          .num_chunks = num_stages * chunks_each,
          .num_micro_batches = num_micro_batches,
          .order = order};
}

/// Every order of so many stages and micro-batches at most, interleaved with two chunks and three.
std::vector<PipelineShape> shapes_up_to(std::int32_t most_stages, std::int32_t most_micro_batches,
                                        std::int32_t fewest_stages = 1) {
  std::vector<PipelineShape> shapes;
  for (std::int32_t stages = fewest_stages; stages <= most_stages; ++stages)
    for (std::int32_t micro_batches = 1; micro_batches <= most_micro_batches; ++micro_batches)
      for (const PipelineOrder order : all_pipeline_orders)
        if (order == PipelineOrder::interleaved)
          for (const std::int32_t chunks : {2, 3})
            shapes.push_back(pipeline_shape(order, stages, micro_batches, chunks));
        else
          shapes.push_back(pipeline_shape(order, stages, micro_batches));
  return shapes;
}

/// Each chunk reads the one before it.
ReadsOfChunks chain(std::int32_t num_chunks) {
  ReadsOfChunks reads(static_cast<std::size_t>(num_chunks));
  for (std::int32_t chunk = 1; chunk < num_chunks; ++chunk) reads[static_cast<std::size_t>(chunk)] = {chunk - 1};
  return reads;
}

PipelineItems items_in_a_chain(const PipelineShape& shape) { return pipeline_items(shape, chain(shape.num_chunks)); }

ItemTimes times_alike(const PipelineShape& shape, double forward, double backward, double weight_gradients) {
  const auto of_each = [&](double time) { return std::vector(static_cast<std::size_t>(shape.num_chunks), time); };
  return {.forward = of_each(forward), .backward = of_each(backward), .weight_gradients = of_each(weight_gradients)};
}

double end_of(const PipelineItems& items) {
  double end = 0;
  for (const std::vector<PipelineItem>& of_stage : items)
    for (const PipelineItem& item : of_stage) end = std::max(end, item.end);
  return end;
}

/// When all is done where items take these times in the order that a shape has.
double total_time(const PipelineShape& shape, const ItemTimes& times) {
  PipelineItems items = items_in_a_chain(shape);
  REQUIRE(time_items(shape, chain(shape.num_chunks), times, 0, items));
  return end_of(items);
}

/// What is wrong with when items begin and end, each of them looked up among all others; empty: nothing.
std::string mistake_in_times(const PipelineShape& shape, const ReadsOfChunks& reads, const ItemTimes& times,
                             double message, const PipelineItems& items) {
  std::map<std::tuple<ItemKind, std::int32_t, std::int32_t>, double> ends;
  for (const std::vector<PipelineItem>& of_stage : items)
    for (const PipelineItem& item : of_stage) ends[{item.kind, item.chunk, item.micro_batch}] = item.end;
  for (std::int32_t stage = 0; stage < shape.num_stages; ++stage) {
    double idle_since = 0;
    for (const PipelineItem& item : items[static_cast<std::size_t>(stage)]) {
      double earliest = idle_since;
      const auto behind = [&](ItemKind kind, std::int32_t chunk) {
        const double way = chunk % shape.num_stages == stage ? 0 : message;
        earliest = std::max(earliest, ends.at({kind, chunk, item.micro_batch}) + way);
      };
      const auto chunk = static_cast<std::size_t>(item.chunk);
      double takes = 0;
      if (item.kind == ItemKind::forward) {
        takes = times.forward[chunk];
        for (const std::int32_t source : reads[chunk]) behind(ItemKind::forward, source);
      } else if (item.kind == ItemKind::backward) {
        takes = times.backward[chunk];
        behind(ItemKind::forward, item.chunk);
        for (std::int32_t reader = 0; reader < shape.num_chunks; ++reader)
          for (const std::int32_t source : reads[static_cast<std::size_t>(reader)])
            if (source == item.chunk) behind(ItemKind::backward, reader);
      } else {
        takes = times.weight_gradients[chunk];
        behind(ItemKind::backward, item.chunk);
      }
      if (item.begin != earliest) return "begins at another time than it can";
      if (item.end != item.begin + takes) return "takes another time than it does";
      idle_since = item.end;
    }
  }
  return {};
}

/// What is wrong with the list of one stage; empty: nothing.
std::string mistake_in_list(const PipelineShape& shape, std::int32_t stage, const std::vector<PipelineItem>& items) {
  std::map<std::tuple<std::int32_t, std::int32_t, ItemKind>, std::size_t> places;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].chunk < 0 || items[i].chunk >= shape.num_chunks || items[i].chunk % shape.num_stages != stage)
      return "a chunk of another stage";
    if (items[i].micro_batch < 0 || items[i].micro_batch >= shape.num_micro_batches) return "no such micro-batch";
    if (!places.try_emplace({items[i].chunk, items[i].micro_batch, items[i].kind}, i).second) return "done twice";
  }
  const bool splits = shape.order == PipelineOrder::zero_bubble;
  std::size_t num_items = 0;
  for (std::int32_t chunk = stage; chunk < shape.num_chunks; chunk += shape.num_stages)
    for (std::int32_t micro_batch = 0; micro_batch < shape.num_micro_batches; ++micro_batch) {
      const auto place_of = [&](ItemKind kind, std::int32_t of) { return places.find({chunk, of, kind}); };
      const auto forward = place_of(ItemKind::forward, micro_batch);
      const auto backward = place_of(ItemKind::backward, micro_batch);
      const auto weights = place_of(ItemKind::weight_gradients, micro_batch);
      if (forward == places.end() || backward == places.end()) return "not done";
      if ((weights != places.end()) != splits) return "gradients of weights are not of this order";
      if (forward->second > backward->second) return "back before it went forward";
      if (splits && backward->second > weights->second) return "gradients of weights before those of activations";
      num_items += splits ? 3 : 2;
      if (micro_batch == 0) continue;
      for (const auto& found : {forward, backward, weights})
        if (found != places.end() &&
            place_of(std::get<ItemKind>(found->first), micro_batch - 1)->second > found->second)
          return "micro-batches out of their order";
    }
  return items.size() == num_items ? "" : "more than there is to do";
}

std::string mistake_in_lists(const PipelineShape& shape, const PipelineItems& items) {
  if (static_cast<std::int32_t>(items.size()) != shape.num_stages) return "not a list for each stage";
  for (std::int32_t stage = 0; stage < shape.num_stages; ++stage)
    if (const std::string mistake = mistake_in_list(shape, stage, items[static_cast<std::size_t>(stage)]);
        !mistake.empty())
      return "stage " + std::to_string(stage) + ": " + mistake;
  return {};
}

/// The most that the list of a stage has begun by one kind of item and not ended by another.
std::int32_t most_between(const std::vector<PipelineItem>& items, ItemKind begin, ItemKind end) {
  std::int32_t now = 0, most = 0;
  for (const PipelineItem& item : items) {
    now += item.kind == begin ? 1 : 0;
    now -= item.kind == end ? 1 : 0;
    most = std::max(most, now);
  }
  return most;
}

/// Messages of every chunk to the next, unless `misses_some`, and at random of some to later ones of other stages, as
/// they are numbered.
std::vector<StageMessage> random_messages(const PipelineShape& shape, std::mt19937& random, bool misses_some = false) {
  const std::uint32_t one_in = 1 + random() % 6;
  std::vector<StageMessage> messages;
  ValueId value = 0;
  for (std::int32_t from = 0; from < shape.num_chunks; ++from) {
    if (from + 1 < shape.num_chunks && !(misses_some && random() % 4 == 0)) {
      const bool returns_gradient = !(misses_some && random() % 3 == 0);  // of what is frozen none is returned
      messages.push_back({.value = value++, .from = from, .to = from + 1, .returns_gradient = returns_gradient});
    }
    for (std::int32_t to = from + 1; to < shape.num_chunks; ++to) {
      if (from % shape.num_stages == to % shape.num_stages) continue;
      for (std::uint32_t more = random() % one_in == 0 ? 1 + random() % 3 : 0; more > 0; --more)
        messages.push_back({.value = value++, .from = from, .to = to, .returns_gradient = random() % 2 == 0});
    }
  }
  std::sort(messages.begin(), messages.end(), [](const StageMessage& a, const StageMessage& b) {
    return std::tuple(a.to, a.from, a.value) < std::tuple(b.to, b.from, b.value);
  });
  return messages;
}

/// Stages that do their entries one by one: an obvious reading of Note [Messages in one order] and of Note [Started
/// exchanges]. What two stages exchange takes place where it is first on both sides; until then who does not start it,
/// or finishes it, waits.
class WaitingStages {
 public:
  WaitingStages(const PipelineShape& shape, const std::vector<StageMessage>& messages, bool starts)
      : shape_(shape), messages_(messages), starts_(starts) {
    for (std::int32_t stage = 0; stage < shape.num_stages; ++stage)
      stages_.push_back({.entries = pipeline_entries(shape, messages, stage, starts)});
  }

  /// What goes wrong; empty: nothing.
  std::string run() {
    for (bool goes_on = true; goes_on && mistake_.empty();) {
      goes_on = false;
      for (std::int32_t stage = 0; stage < shape_.num_stages; ++stage)
        while (mistake_.empty() && walk(stage)) goes_on = true;
      while (mistake_.empty() && exchange_one()) goes_on = true;
    }
    if (!mistake_.empty()) return mistake_;
    for (std::int32_t stage = 0; stage < shape_.num_stages; ++stage) {
      const Stage& each = stages_[static_cast<std::size_t>(stage)];
      if (each.next < each.entries.size()) return "stage " + std::to_string(stage) + " waits for ever";
      if (!each.exchanges.empty()) return "stage " + std::to_string(stage) + " started what never takes place";
      if (each.finished.size() != each.begun.size()) return "not all that was started is finished";
      std::vector<PipelineItem> items;
      for (const PipelineEntry& entry : each.entries)
        if (entry.kind == PipelineEntry::Kind::item) items.push_back(entry.item);
      if (const std::string mistake = mistake_in_list(shape_, stage, items); !mistake.empty()) return mistake;
    }
    std::size_t num_exchanges = 0;
    for (const StageMessage& message : messages_) num_exchanges += message.returns_gradient ? 2 : 1;
    if (done_.size() != num_exchanges * static_cast<std::size_t>(shape_.num_micro_batches)) return "not all was sent";
    return {};
  }

  /// Items that ran on some stage while something that it had started had not been finished.
  int num_beside() const { return num_beside_; }

 private:
  using Exchange = std::tuple<std::int32_t, bool, std::int32_t>;  // message, whether its gradient, micro-batch
  using Item = std::tuple<ItemKind, std::int32_t, std::int32_t>;  // with chunk, micro-batch
  struct Stage {
    std::vector<PipelineEntry> entries;
    std::size_t next = 0;
    std::deque<Exchange> exchanges = {};           ///< that have not taken place, in their order
    std::set<Exchange> begun = {}, finished = {};  ///< what it does not start is finished at once
    std::set<Item> items = {};                     ///< that are done
    std::map<Item, std::int32_t> last_sent = {};   ///< of what each makes, the last message
  };

  const StageMessage& message_of(const Exchange& exchange) const {
    return messages_.at(static_cast<std::size_t>(std::get<0>(exchange)));
  }
  std::int32_t sender_chunk(const Exchange& exchange) const {
    return std::get<1>(exchange) ? message_of(exchange).to : message_of(exchange).from;
  }
  std::int32_t receiver_chunk(const Exchange& exchange) const {
    return std::get<1>(exchange) ? message_of(exchange).from : message_of(exchange).to;
  }
  /// The item that makes what is sent, or that reads what is received.
  static Item item_of(const Exchange& exchange, std::int32_t chunk) {
    return {std::get<1>(exchange) ? ItemKind::backward : ItemKind::forward, chunk, std::get<2>(exchange)};
  }

  bool fail(const std::string& what, std::int32_t stage) {
    mistake_ = "stage " + std::to_string(stage) + ", entry " +
               std::to_string(stages_[static_cast<std::size_t>(stage)].next) + ": " + what;
    return false;
  }

  /// Does the next entry of a stage, where that does not wait.
  bool walk(std::int32_t stage) {
    Stage& own = stages_[static_cast<std::size_t>(stage)];
    if (own.next == own.entries.size()) return false;
    const PipelineEntry& entry = own.entries[own.next];
    if (entry.kind == PipelineEntry::Kind::item) {
      if (entry.item.micro_batch != entry.micro_batch) return fail("an item of another micro-batch", stage);
      if (!may_run(stage, entry.item)) return false;
      own.items.insert({entry.item.kind, entry.item.chunk, entry.item.micro_batch});
      ++own.next;
      return true;
    }
    const Exchange exchange{entry.message, entry.is_gradient, entry.micro_batch};
    const bool sends = sender_chunk(exchange) % shape_.num_stages == stage;
    if (!sends && receiver_chunk(exchange) % shape_.num_stages != stage) return fail("of other stages", stage);
    if (entry.is_gradient && !message_of(exchange).returns_gradient) return fail("a gradient of none", stage);
    if (entry.kind == PipelineEntry::Kind::finish) {
      if (!starts_ || own.begun.count(exchange) == 0) return fail("finishes what it has not started", stage);
      if (done_.count(exchange) == 0) return false;
      if (!own.finished.insert(exchange).second) return fail("finishes twice", stage);
      ++own.next;
      return true;
    }
    if (own.begun.insert(exchange).second) {
      if (sends && own.items.count(item_of(exchange, sender_chunk(exchange))) == 0)
        return fail("sends what it has not made", stage);
      if (!sends && own.items.count(item_of(exchange, receiver_chunk(exchange))) != 0)
        return fail("receives what it has read", stage);
      if (sends) {
        // As the stage's passes send them: the backward pass takes what it received last first.
        const auto [last, is_first] =
            own.last_sent.try_emplace(item_of(exchange, sender_chunk(exchange)), entry.message);
        if (!is_first && (last->second < entry.message) == entry.is_gradient)
          return fail("sends something before what its item sends first", stage);
        last->second = entry.message;
      }
      own.exchanges.push_back(exchange);
    } else if (starts_ || own.finished.count(exchange) != 0) {
      return fail("exchanges twice", stage);
    }
    if (!starts_) {
      if (done_.count(exchange) == 0) return false;
      own.finished.insert(exchange);
    }
    ++own.next;
    return true;
  }

  bool may_run(std::int32_t stage, const PipelineItem& item) {
    Stage& own = stages_[static_cast<std::size_t>(stage)];
    for (std::size_t m = 0; m < messages_.size(); ++m)
      for (const bool is_gradient : {false, true}) {
        if (is_gradient && !messages_[m].returns_gradient) continue;
        const Exchange exchange{static_cast<std::int32_t>(m), is_gradient, item.micro_batch};
        if (receiver_chunk(exchange) % shape_.num_stages == stage &&
            item_of(exchange, receiver_chunk(exchange)) == Item{item.kind, item.chunk, item.micro_batch} &&
            own.finished.count(exchange) == 0)
          return fail("reads what has not been received", stage);
        if (sender_chunk(exchange) % shape_.num_stages == stage && own.begun.count(exchange) != 0 &&
            own.finished.count(exchange) == 0)
          return fail("may release what is on its way", stage);
      }
    if (own.begun.size() > own.finished.size()) ++num_beside_;
    return true;
  }

  /// Lets something take place that two stages have in front of all others.
  bool exchange_one() {
    for (Stage& sender : stages_) {
      if (sender.exchanges.empty()) continue;
      const Exchange exchange = sender.exchanges.front();
      Stage& expected = stages_[static_cast<std::size_t>(sender_chunk(exchange) % shape_.num_stages)];
      Stage& receiver = stages_[static_cast<std::size_t>(receiver_chunk(exchange) % shape_.num_stages)];
      if (&expected != &sender || receiver.exchanges.empty() || receiver.exchanges.front() != exchange) continue;
      done_.insert(exchange);
      sender.exchanges.pop_front();
      receiver.exchanges.pop_front();
      return true;
    }
    return false;
  }

  const PipelineShape& shape_;
  const std::vector<StageMessage>& messages_;
  const bool starts_;
  std::vector<Stage> stages_;
  std::set<Exchange> done_;  ///< that have taken place
  std::string mistake_;
  int num_beside_ = 0;
};

}  // namespace

TEST_CASE("each stage takes each of its chunks forward and back once for each micro-batch, in the order of these") {
  for (const PipelineShape& shape : shapes_up_to(6, 9)) {
    INFO(text_of(shape));
    const PipelineItems items = items_in_a_chain(shape);
    CHECK(mistake_in_lists(shape, items) == "");
    const ItemTimes units = times_alike(shape, 1, shape.order == PipelineOrder::zero_bubble ? 1 : 2, 1);
    CHECK(mistake_in_times(shape, chain(shape.num_chunks), units, 0, items) == "");
  }
}

TEST_CASE("a step without micro-batches is nothing to do") {
  for (const PipelineOrder order : all_pipeline_orders) {
    const PipelineShape shape = pipeline_shape(order, 3, 0, order == PipelineOrder::interleaved ? 2 : 1);
    CHECK(items_in_a_chain(shape) == PipelineItems(3));
    std::mt19937 random(1);
    for (const bool starts : {false, true})
      CHECK(pipeline_entries(shape, random_messages(shape, random), 1, starts).empty());
  }
}

TEST_CASE("what skips stages is waited for as what is read by the next, in every order") {
  std::mt19937 random(3);
  for (const PipelineShape& shape : shapes_up_to(5, 7, 2)) {
    INFO(text_of(shape));
    const ReadsOfChunks reads = chunks_read(shape.num_chunks, random_messages(shape, random));
    PipelineItems items = pipeline_items(shape, reads);
    CHECK(mistake_in_lists(shape, items) == "");
    ItemTimes times = times_alike(shape, 0, 0, 0);
    for (std::vector<double>* of_kind : {&times.forward, &times.backward, &times.weight_gradients})
      for (double& time : *of_kind) time = random() % 8;  // whole numbers: sums are exact
    for (const double message : {0.0, 3.0}) {
      REQUIRE(time_items(shape, reads, times, message, items));
      CHECK(mistake_in_times(shape, reads, times, message, items) == "");
    }
  }
}

TEST_CASE("chunks read those that messages are of, each once") {
  const std::vector<StageMessage> messages = {{.value = 4, .from = 0, .to = 1}, {.value = 6, .from = 0, .to = 1},
                                              {.value = 4, .from = 0, .to = 2}, {.value = 9, .from = 1, .to = 2},
                                              {.value = 7, .from = 0, .to = 2}, {.value = 12, .from = 2, .to = 3}};
  CHECK(chunks_read(4, messages) == ReadsOfChunks{{}, {0}, {0, 1}, {2}});
}

TEST_CASE("items that wait for each other have no times") {
  const PipelineShape shape = pipeline_shape(PipelineOrder::gpipe, 2, 2);
  PipelineItems items = items_in_a_chain(shape);
  std::swap(items[1][1], items[1][2]);  // the first one's backward in front of the second one's forward
  CHECK(time_items(shape, chain(2), times_alike(shape, 1, 2, 0), 0, items));
  items = items_in_a_chain(shape);
  std::swap(items[0][1], items[0][2]);  // the same where the other stage has no gradient to return yet
  CHECK_FALSE(time_items(shape, chain(2), times_alike(shape, 1, 2, 0), 0, items));
}

TEST_CASE("a micro-batch alone passes all stages and its messages one after the other") {
  for (std::int32_t stages = 1; stages <= 6; ++stages)
    for (const PipelineOrder order : {PipelineOrder::gpipe, PipelineOrder::one_forward_one_backward}) {
      const PipelineShape shape = pipeline_shape(order, stages, 1);
      PipelineItems items = items_in_a_chain(shape);
      REQUIRE(time_items(shape, chain(stages), times_alike(shape, 4, 7, 0), 0.5, items));
      CHECK(end_of(items) == 11 * stages + (stages - 1));
    }
}

TEST_CASE("stages of gpipe go back when all micro-batches have gone forward") {
  for (const PipelineShape& shape : shapes_up_to(6, 9)) {
    if (shape.order != PipelineOrder::gpipe) continue;
    for (const std::vector<PipelineItem>& of_stage : items_in_a_chain(shape))
      for (std::size_t i = 0; i < of_stage.size(); ++i)
        CHECK((of_stage[i].kind == ItemKind::forward) == (i < static_cast<std::size_t>(shape.num_micro_batches)));
  }
}

TEST_CASE("a stage of 1f1b holds no more micro-batches than there are stages from it to the last") {
  for (const PipelineShape& shape : shapes_up_to(6, 9)) {
    const bool splits = shape.order == PipelineOrder::zero_bubble;
    if (!splits && shape.order != PipelineOrder::one_forward_one_backward) continue;
    INFO(text_of(shape));
    const PipelineItems items = items_in_a_chain(shape);
    for (std::int32_t stage = 0; stage < shape.num_stages; ++stage) {
      const std::vector<PipelineItem>& of_stage = items[static_cast<std::size_t>(stage)];
      CHECK(most_between(of_stage, ItemKind::forward, ItemKind::backward) <= shape.num_stages - stage);
      // Whose gradients of weights wait hold activations as well: no more than 1f1b's first stage.
      if (splits) CHECK(most_between(of_stage, ItemKind::forward, ItemKind::weight_gradients) <= shape.num_stages);
    }
  }
}

TEST_CASE("a stage of interleaved chunks holds no more of them than is known") {
  for (const PipelineShape& shape : shapes_up_to(6, 18)) {
    if (shape.order != PipelineOrder::interleaved || shape.num_micro_batches % shape.num_stages != 0) continue;
    INFO(text_of(shape));
    const PipelineItems items = items_in_a_chain(shape);
    // The first stage 1 + (S − 1) / (S · V) times 1f1b's activations (Korthikanti et al., "Reducing activation
    // recomputation in large transformer models", 2022), of chunks; each further stage two fewer.
    for (std::int32_t stage = 0; stage < shape.num_stages; ++stage)
      CHECK(most_between(items[static_cast<std::size_t>(stage)], ItemKind::forward, ItemKind::backward) <=
            shape.num_chunks + shape.num_stages - 1 - 2 * stage);
  }
}

TEST_CASE("gpipe and 1f1b wait for as long as the other stages take for a micro-batch") {
  for (const PipelineShape& shape : shapes_up_to(6, 9)) {
    if (shape.order != PipelineOrder::gpipe && shape.order != PipelineOrder::one_forward_one_backward) continue;
    INFO(text_of(shape));
    CHECK(total_time(shape, times_alike(shape, 1, 2, 0)) == (shape.num_micro_batches + shape.num_stages - 1) * 3);
  }
}

TEST_CASE("zero_bubble is never slower than 1f1b, and faster where there is something to wait for") {
  for (std::int32_t stages = 1; stages <= 6; ++stages)
    for (std::int32_t micro_batches = 1; micro_batches <= 9; ++micro_batches) {
      const PipelineShape whole = pipeline_shape(PipelineOrder::one_forward_one_backward, stages, micro_batches);
      const PipelineShape split = pipeline_shape(PipelineOrder::zero_bubble, stages, micro_batches);
      INFO(text_of(split));
      const double of_whole = total_time(whole, times_alike(whole, 1, 2, 0));
      const double of_split = total_time(split, times_alike(split, 1, 1, 1));
      CHECK(of_split <= of_whole);
      if (stages > 1) CHECK(of_split < of_whole);
      // ZB-H1's bubble: a third of 1f1b's, where there are micro-batches to fill it with.
      if (micro_batches >= stages) CHECK(of_split == 3 * micro_batches + stages - 1);
    }
}

TEST_CASE("interleaved chunks wait a part of what 1f1b waits, where micro-batches fill their groups") {
  for (std::int32_t stages = 1; stages <= 6; ++stages)
    for (std::int32_t micro_batches = stages; micro_batches <= 12; micro_batches += stages)
      for (const std::int32_t chunks : {2, 3}) {
        const PipelineShape shape = pipeline_shape(PipelineOrder::interleaved, stages, micro_batches, chunks);
        const PipelineShape whole = pipeline_shape(PipelineOrder::one_forward_one_backward, stages, micro_batches);
        INFO(text_of(shape));
        // Six units of a stage are cut among its chunks.
        const double of_chunks = total_time(shape, times_alike(shape, 6.0 / chunks, 12.0 / chunks, 0));
        CHECK(of_chunks <= total_time(whole, times_alike(whole, 6, 12, 0)));
        CHECK(of_chunks == 18 * micro_batches + 18.0 / chunks * (stages - 1));
      }
}

TEST_CASE("what is received from a neighbour is there for no longer than one item in front of the one that reads it") {
  for (const PipelineShape& shape : shapes_up_to(5, 7, 2))
    for (const bool starts : {false, true}) {
      std::vector<StageMessage> messages;
      for (std::int32_t to = 1; to < shape.num_chunks; ++to)
        messages.push_back({.value = to, .from = to - 1, .to = to, .returns_gradient = true});
      int most_items = 0;
      for (std::int32_t stage = 0; stage < shape.num_stages; ++stage) {
        const std::vector<PipelineEntry> entries = pipeline_entries(shape, messages, stage, starts);
        for (std::size_t i = 0; i < entries.size(); ++i) {
          if (entries[i].kind != PipelineEntry::Kind::exchange) continue;
          const StageMessage& message = messages[static_cast<std::size_t>(entries[i].message)];
          const std::int32_t reader = entries[i].is_gradient ? message.from : message.to;
          if (reader % shape.num_stages != stage) continue;
          int num_items = 0;
          for (std::size_t j = i; j < entries.size(); ++j) {
            if (entries[j].kind != PipelineEntry::Kind::item) continue;
            if (entries[j].item.chunk == reader && entries[j].micro_batch == entries[i].micro_batch &&
                (entries[j].item.kind == ItemKind::forward) != entries[i].is_gradient)
              break;
            ++num_items;
          }
          most_items = std::max(most_items, num_items);
        }
      }
      INFO(text_of(shape) << (starts ? ", started" : ""));
      CHECK(most_items <= 1);
    }
}

TEST_CASE("no stage waits for ever, and all read what they have received, whatever passes stages") {
  std::mt19937 random(11);
  int num_beside = 0;
  for (const PipelineShape& shape : shapes_up_to(5, 7, 2))
    for (int i = 0; i < 4; ++i) {
      const std::vector<StageMessage> messages = random_messages(shape, random, i % 2 == 1);
      for (const bool starts : {false, true}) {
        INFO(text_of(shape) << ", list " << i << (starts ? ", started" : ""));
        WaitingStages stages(shape, messages, starts);
        CHECK(stages.run() == "");
        num_beside += stages.num_beside();
      }
    }
  CHECK(num_beside > 0);
}

TEST_CASE("many lists of messages make no stage wait for ever", "[exhaustive]") {
  std::mt19937 random(12);
  for (int i = 0; i < 20; ++i)
    for (const PipelineShape& shape : shapes_up_to(5, 7, 2)) {
      const std::vector<StageMessage> messages = random_messages(shape, random, i % 2 == 1);
      for (const bool starts : {false, true}) {
        INFO(text_of(shape) << ", list " << i << (starts ? ", started" : ""));
        CHECK(WaitingStages(shape, messages, starts).run() == "");
      }
    }
}
