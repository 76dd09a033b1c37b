#include "engine/program/schedule.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "engine/ops/op_definition.h"
#include "engine/program/held_parts.h"
#include "engine/program/sharding.h"
#include "engine/program/started_calls.h"

namespace trainer {
namespace {

using Kind = Instruction::Kind;

/// One graph on its way to a routine.
class RoutineSchedule {
 public:
  RoutineSchedule(Scheduler& scheduler, Program& program, const Graph& graph, Routine& routine)
      : scheduler_(scheduler),
        program_(program),
        graph_(graph),
        routine_(routine),
        started_(program, scheduler, routine) {}

  /// `gradients`: the buffers they are kept in; -1 where the first routine makes them.
  void run(Scheduler::Gradients& gradients, const Scheduler::Pass& pass) {
    std::vector<BufferId>& parameter_gradients = gradients.wholes;
    const bool sums_gradients = scheduler_.gradient_sums().in_backward && graph_.mode == GraphMode::training;
    const bool shares_gradients = scheduler_.shares_gradients() && graph_.mode == GraphMode::training;
    const bool adds_gradients = pass.adds && !shares_gradients;
    bind_given();
    find_last_uses();
    if (keeps_prediction_) last_use_[root(graph_.prediction)] = forever;
    if (segments_ == nullptr) allocate_fields();
    find_parameter_gradients();
    if (scheduler_.append_update()) find_update_points();
    if (sums_gradients) find_buckets();
    if (graph_.mode == GraphMode::training && pass.starts_statistics) {
      scheduler_.append_start_of_statistics(routine_, static_cast<int>(graph_.loss_parts.size()),
                                            graph_.values[graph_.loss_statistics].layer, first_phase());
    }

    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const GraphNode& node = graph_.nodes[n];
      const Phase phase = graph_.mode == GraphMode::training ? node.phase : Phase::eval;
      if (segments_ != nullptr) {
        begin_segment(n);
        if (marks_.back().segment.exchanges()) {
          exchange(node, n, phase, parameter_gradients);
          continue;
        }
      }
      if (adds_gradients && add_at_once(node, parameter_gradients, phase)) {
        release_dead(node, n, phase);
        continue;
      }
      gather_shared(n, phase);
      for (std::size_t i = 0; i < node.outputs.size(); ++i)
        make_output(node, static_cast<int>(i), n, phase, parameter_gradients, adds_gradients);
      std::vector<BufferId> inputs, outputs;
      for (ValueId input : node.inputs) inputs.push_back(buffer_of(input));
      for (ValueId output : node.outputs) outputs.push_back(buffer_of(output));
      scheduler_.append_call(routine_, node.op, std::move(inputs), std::move(outputs), node.layer, phase);
      if (adds_gradients) add_to_gradients(node, parameter_gradients, phase);
      release_dead(node, n, phase);
      release_shared(n, phase);
      if (!updates_behind_.empty()) append_updates(updates_behind_[n], parameter_gradients);
      if (sums_gradients) append_sums(n, gradients, pass.adds);
    }
    if (!graph_.nodes.empty()) started_.finish_all(no_layer, last_phase());
  }

  /// To be told where the routine may be cut: Scheduler::schedule_segments.
  void note_segments(const Scheduler::SegmentOptions& options) { segments_ = &options; }
  /// Cuts the routine there.
  std::vector<Scheduler::Segment> take_segments() {
    std::vector<Scheduler::Segment> segments;
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      const std::size_t begin = i == 0 ? 0 : marks_[i].begin;
      const std::size_t end = i + 1 < marks_.size() ? marks_[i + 1].begin : routine_.instructions.size();
      Scheduler::Segment& segment = segments.emplace_back(std::move(marks_[i].segment));
      segment.routine.name = routine_.name;
      segment.routine.batch_size = routine_.batch_size;
      segment.routine.instructions.assign(routine_.instructions.begin() + static_cast<std::ptrdiff_t>(begin),
                                          routine_.instructions.begin() + static_cast<std::ptrdiff_t>(end));
      if (i != fields_mark_) continue;
      segment.routine.fields = routine_.fields;
      segment.routine.num_inputs = routine_.num_inputs;
    }
    return segments;
  }

  /// The prediction outlives the routine; the buffer that has it is known once it has been scheduled.
  void keep_prediction() { keeps_prediction_ = true; }
  BufferId prediction() const { return buffer_of(graph_.prediction); }

 private:
  static constexpr std::int64_t forever = std::numeric_limits<std::int64_t>::max();

  Phase first_phase() const { return graph_.mode == GraphMode::training ? Phase::forward : Phase::eval; }
  Phase last_phase() const { return graph_.mode == GraphMode::training ? Phase::backward : Phase::eval; }

  ValueId root(ValueId value) const { return root_of(graph_, value); }
  BufferId buffer_of(ValueId value) const { return buffers_[root(value)]; }

  /// Those that the stage of a pipeline reads, or all.
  void allocate_fields() {
    routine_.num_inputs = graph_.inputs.size();
    for (const ValueId field : graph_.fields()) {
      const bool is_read = program_.parameter_stages.empty() || last_use_[root(field)] >= 0;
      if (is_read) allocate(field, first_phase());
      routine_.fields.push_back(is_read ? buffer_of(field) : -1);
    }
  }

  struct Mark {
    std::size_t begin = 0;  ///< in the instructions
    Scheduler::Segment segment;
  };

  void mark(Scheduler::Segment::Kind kind, std::int32_t place, bool is_gradient = false) {
    marks_.push_back({routine_.instructions.size(), {kind, place, is_gradient, {}}});
  }

  /// That of a node which computes: its kind, and the chunk that it is of.
  std::pair<Scheduler::Segment::Kind, std::int32_t> segment_of(std::size_t n) const {
    using SegmentKind = Scheduler::Segment::Kind;
    // What is computed again is part of the backward pass of what reads it, whatever layer it is of.
    std::size_t of = n;
    while (graph_.nodes[of].phase == Phase::recompute && of + 1 < graph_.nodes.size()) ++of;
    SegmentKind kind = graph_.nodes[n].phase == Phase::forward ? SegmentKind::forward : SegmentKind::backward;
    if (n + segments_->num_deferred >= graph_.nodes.size()) kind = SegmentKind::weight_gradients;
    return {kind, segments_->chunk_of(graph_.nodes[of].layer)};
  }

  bool reads_field(const GraphNode& node) const {
    const std::vector<ValueId> fields = graph_.fields();
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return std::any_of(fields.begin(), fields.end(), [&](ValueId field) { return root(field) == root(input); });
    });
  }

  void begin_segment(std::size_t n) {
    const GraphNode& node = graph_.nodes[n];
    if (is_message(node))
      return mark(Scheduler::Segment::Kind::exchange, attributes_of<PeerAttributes>(node.op).message,
                  node.phase != Phase::forward);
    const auto segment = segment_of(n);
    if (!marks_.empty() && std::pair(marks_.back().segment.kind, marks_.back().segment.place) == segment) return;
    mark(segment.first, segment.second);
    if (fields_mark_ != no_mark) return;
    // The host's data comes in front of all that the segment runs.
    for (std::size_t i = n; i < graph_.nodes.size() && !is_message(graph_.nodes[i]) && segment_of(i) == segment; ++i) {
      if (!reads_field(graph_.nodes[i])) continue;
      fields_mark_ = marks_.size() - 1;
      return allocate_fields();
    }
  }
  static bool is_message(const GraphNode& node) {
    return node.op.kind == OpKind::send || node.op.kind == OpKind::receive;
  }

  void exchange(const GraphNode& node, std::size_t n, Phase phase, std::vector<BufferId>& parameter_gradients) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      make_output(node, static_cast<int>(i), n, phase, parameter_gradients, false);
    std::vector<BufferId> inputs, outputs;
    for (const ValueId input : node.inputs) inputs.push_back(buffer_of(input));
    for (const ValueId output : node.outputs) outputs.push_back(buffer_of(output));
    std::vector<BufferId> operands = inputs;
    operands.insert(operands.end(), outputs.begin(), outputs.end());
    Op op = segments_->starts ? started(node.op) : node.op;
    scheduler_.append_call(routine_, std::move(op), std::move(inputs), std::move(outputs), node.layer, phase);
    if (segments_->starts) {
      const Scheduler::Segment& begun = marks_.back().segment;
      mark(Scheduler::Segment::Kind::finish, begun.place, begun.is_gradient);
      const std::vector<TensorType> types = types_of(program_, operands);
      scheduler_.append_call(routine_, finish_exchange_op(types), std::move(operands), {}, node.layer, phase);
    }
    release_dead(node, n, phase);
  }

  void bind_given() {
    buffers_.assign(graph_.values.size(), -1);
    last_use_.assign(graph_.values.size(), -1);
    gradient_of_.assign(graph_.values.size(), -1);
    const bool trains = graph_.mode == GraphMode::training;
    for (std::size_t p = 0; p < graph_.parameters.size(); ++p) {
      bind(graph_.parameter_values[p], trains ? program_.parameter_buffers[p] : program_.model_buffer(p));
      // Of another stage's parameter there is none.
      const BufferId copy = program_.copy_buffers[p];
      if (graph_.parameter_copies[p] >= 0 && copy >= 0) bind(graph_.parameter_copies[p], copy);
    }
    for (std::size_t k = 0; k < graph_.kept.size(); ++k)
      bind(graph_.kept[k], program_.generation ? program_.generation->kept[k] : program_.kept_predictions.back());
    if (graph_.loss_statistics >= 0) bind(graph_.loss_statistics, program_.loss_statistics);
    if (graph_.metric_counts >= 0) bind(graph_.metric_counts, program_.metric_counts);
    if (graph_.loss_scale >= 0) bind(graph_.loss_scale, program_.loss_scale);
    if (!shared_.empty()) find_spans();
  }
  void bind(ValueId value, BufferId buffer) {
    last_use_[value] = forever;
    if (is_cut(program_.buffers[buffer]))
      shared_.push_back({value, buffer, {}});
    else
      buffers_[value] = buffer;
  }

  /// A value of which this rank holds a part, and the nodes for which it is gathered.
  struct Shared {
    ValueId value = -1;
    BufferId part = -1;
    std::vector<std::pair<std::size_t, std::size_t>> spans;  ///< first and last node
  };

  /// Nodes that may stand between two that read a gathered value and not gather it twice.
  static constexpr std::size_t most_between = 2;

  /// Values that are gathered for the same node, and on their way to it if that has been started.
  struct Gather {
    std::size_t node = 0;
    std::vector<const Shared*> shared;
    std::vector<BufferId> wholes;        ///< as `shared`
    std::optional<std::size_t> started;  ///< the last of its exchanges
  };

  void find_spans() {
    std::vector<Shared*> shared_of(graph_.values.size(), nullptr);
    for (Shared& shared : shared_) shared_of[shared.value] = &shared;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      Gather gather{.node = n, .shared = {}, .wholes = {}, .started = {}};
      // Where gathers are started, that of this node is behind the node of an earlier one.
      const std::size_t num_ahead = std::min(num_prefetched(), gathers_.size());
      const std::size_t started_behind = num_ahead > 0 ? gathers_[gathers_.size() - num_ahead].node : n;
      for (const ValueId input : graph_.nodes[n].inputs) {
        Shared* const shared = shared_of[root(input)];
        if (shared == nullptr) continue;
        const bool is_there = !shared->spans.empty() && (n <= shared->spans.back().second + 1 + most_between ||
                                                         started_behind <= shared->spans.back().second);
        if (!is_there) {
          shared->spans.emplace_back(n, n);
          gather.shared.push_back(shared);
        }
        shared->spans.back().second = n;
      }
      if (!gather.shared.empty()) gathers_.push_back(std::move(gather));
    }
    released_behind_.resize(graph_.nodes.size());
    for (Shared& shared : shared_)
      for (const auto& [first, last] : shared.spans) released_behind_[last].push_back(&shared);
  }

  std::size_t num_prefetched() const {
    const Scheduler::GradientSums& sums = scheduler_.gradient_sums();
    return sums.starts ? static_cast<std::size_t>(sums.num_prefetched) : 0;
  }

  /// Has what a node reads, and starts to gather what the next ones do.
  void gather_shared(std::size_t n, Phase phase) {
    if (next_gather_ == gathers_.size() || gathers_[next_gather_].node != n) return;
    Gather& gather = gathers_[next_gather_++];
    if (gather.wholes.empty()) append_gather(gather, false, phase);
    if (gather.started) started_.finish(*gather.started, graph_.nodes[n].layer, phase);
    for (std::size_t i = 0; i < gather.shared.size(); ++i) buffers_[gather.shared[i]->value] = gather.wholes[i];
    const std::size_t end = std::min(next_gather_ + num_prefetched(), gathers_.size());
    for (next_started_ = std::max(next_started_, next_gather_); next_started_ < end; ++next_started_)
      append_gather(gathers_[next_started_], true, phase);
  }

  void append_gather(Gather& gather, bool starts, Phase phase) {
    const LayerId layer = graph_.nodes[gather.node].layer;
    std::map<DType, std::vector<const Shared*>> by_type;
    for (const Shared* shared : gather.shared) by_type[graph_.values[shared->value].type.dtype].push_back(shared);
    gather.shared.clear();
    for (const auto& [type, gathered] : by_type) {
      std::vector<TensorType> types;
      std::vector<BufferId> parts, wholes;
      for (const Shared* const shared : gathered) {
        const Buffer part = program_.buffers[shared->part];
        types.push_back(layer_part_type(*part.part, program_.ranks));
        wholes.push_back(
            scheduler_.add_buffer(part.name + ".gathered", part.layer, Category::communication, types.back()));
        routine_.instructions.push_back({Kind::allocate, wholes.back(), part.layer, phase});
        if (part.num_bytes > 0) parts.push_back(shared->part);
        gather.shared.push_back(shared);
        gather.wholes.push_back(wholes.back());
      }
      Op op = all_gather_op(types, program_.ranks.data_group(), program_.ranks.data_place());
      if (starts)
        gather.started = started_.start(std::move(op), std::move(parts), std::move(wholes), layer, phase);
      else
        scheduler_.append_call(routine_, std::move(op), std::move(parts), std::move(wholes), layer, phase);
    }
  }

  void release_shared(std::size_t n, Phase phase) {
    if (shared_.empty()) return;
    for (const Shared* const shared : released_behind_[n])
      routine_.instructions.push_back(
          {Kind::release, std::exchange(buffers_[shared->value], -1), graph_.nodes[n].layer, phase});
  }

  /// By node, the number of the segment that it is in: other micro-batches come between two of them.
  std::vector<std::size_t> segments_of_nodes() const {
    std::vector<std::size_t> segments(graph_.nodes.size(), 0);
    if (segments_ == nullptr) return segments;
    std::optional<std::pair<Scheduler::Segment::Kind, std::int32_t>> before;
    std::size_t number = 0;
    for (std::size_t n = 0; n < segments.size(); ++n) {
      if (!is_message(graph_.nodes[n])) {
        const auto segment = segment_of(n);
        if (before && *before != segment) ++number;
        before = segment;
      }
      segments[n] = number;
    }
    return segments;
  }

  /// Parameters whose gradients are summed together, and the node behind which the last of them is complete.
  void find_buckets() {
    std::vector<std::size_t> last(graph_.parameters.size(), 0), order;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      for (const auto* operands : {&graph_.nodes[n].inputs, &graph_.nodes[n].outputs})
        for (const ValueId operand : *operands)
          if (const std::int32_t p = gradient_of_[root(operand)]; p >= 0) last[p] = n;
    const std::vector<std::size_t> segments = segments_of_nodes();
    for (std::size_t p = graph_.parameters.size(); p-- > 0;)
      if (graph_.parameter_gradients[p] >= 0) order.push_back(p);
    // Whole gradients are gone where another micro-batch makes its own.
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return segments[last[a]] < segments[last[b]]; });
    std::int64_t num_bytes = 0;
    std::size_t ready = 0;  // buckets keep their order
    for (const std::size_t p : order) {
      const TensorType& type = graph_.values[graph_.parameter_gradients[p]].type;
      if (buckets_.empty() || type.dtype != bucket_type(buckets_.back()) ||
          segments[last[p]] != buckets_.back().segment ||
          num_bytes + type.num_bytes() > scheduler_.gradient_sums().bucket_bytes) {
        buckets_.push_back({.parameters = {}, .behind = 0, .segment = segments[last[p]]});
        num_bytes = 0;
      }
      num_bytes += type.num_bytes();
      ready = std::max(ready, last[p]);
      buckets_.back().parameters.push_back(static_cast<std::int32_t>(p));
      buckets_.back().behind = ready;
    }
    // Nothing runs beside the last: where wholes are kept the update does it with the statistics.
    if (scheduler_.gradient_sums().keeps_wholes && !buckets_.empty()) buckets_.pop_back();
  }

  struct Bucket {
    std::vector<std::int32_t> parameters;
    std::size_t behind = 0;
    std::size_t segment = 0;  ///< of the nodes that complete it
  };
  DType bucket_type(const Bucket& bucket) const {
    return graph_.values[graph_.parameter_gradients[bucket.parameters.front()]].type.dtype;
  }

  /// Of the buckets that are complete behind a node.
  void append_sums(std::size_t n, Scheduler::Gradients& gradients, bool adds) {
    const Scheduler::GradientSums& sums = scheduler_.gradient_sums();
    for (const Bucket& bucket : buckets_) {
      if (bucket.behind != n) continue;
      auto [op, inputs] = sum_of(bucket, gradients, adds);
      const bool is_last =
          (&bucket == &buckets_.back() || (&bucket + 1)->segment != bucket.segment) && !sums.keeps_wholes;
      const bool is_started = sums.starts && !is_last;
      if (is_started) {
        const std::size_t number = started_.start(std::move(op), std::move(inputs), {}, no_layer, Phase::backward);
        // Two buckets at a time are on their way, or as many as there are where their memory is kept anyway.
        if (!sums.keeps_wholes && last_sum_) started_.finish(*last_sum_, no_layer, Phase::backward);
        last_sum_ = number;
      } else {
        started_.finish_all(no_layer, Phase::backward);
        scheduler_.append_call(routine_, std::move(op), std::move(inputs), {}, no_layer, Phase::backward);
      }
      for (const std::int32_t p : bucket.parameters) {
        if (sums.keeps_wholes)
          gradients.are_summed[p] = 1;
        else if (is_started)
          started_.release_behind_last(gradients.wholes[p], graph_.parameters[p].layer);
        else
          routine_.instructions.push_back(
              {Kind::release, gradients.wholes[p], graph_.parameters[p].layer, Phase::backward});
      }
    }
  }

  /// The op that sums a bucket, and its inputs.
  std::pair<Op, std::vector<BufferId>> sum_of(const Bucket& bucket, Scheduler::Gradients& gradients, bool adds) {
    const Scheduler::GradientSums& sums = scheduler_.gradient_sums();
    std::vector<BufferId> wholes, parts;
    for (const std::int32_t p : bucket.parameters) wholes.push_back(gradients.wholes[p]);
    if (!sums.has_parts) return {all_reduce_op(types_of(program_, wholes), program_.ranks.data_group()), wholes};
    for (const std::int32_t p : bucket.parameters) {
      if (sums.keeps_wholes && gradients.parts[p] < 0)
        gradients.parts[p] = part_of(program_, scheduler_, gradients.wholes[p]);
      parts.push_back(sums.keeps_wholes ? gradients.parts[p] : gradient_part(gradients, p));
      if (!sums.keeps_wholes && !adds && parts.back() >= 0)
        routine_.instructions.push_back({Kind::allocate, parts.back(), graph_.parameters[p].layer, Phase::backward});
    }
    return reduce_scatter_of(program_, wholes, parts, adds);
  }

  BufferId gradient_part(Scheduler::Gradients& gradients, std::int32_t p) {
    const TensorType whole = program_.buffers[gradients.wholes[p]].type;
    const ElementRange range = rank_part(whole.num_elements(), program_.ranks.num_data, program_.ranks.data_place());
    BufferId& part = gradients.parts[p];
    if (part < 0 && range.count > 0)
      part = scheduler_.add_buffer(graph_.parameters[p].name + ".grad.part", graph_.parameters[p].layer,
                                   Category::gradient, {whole.dtype, {range.count}});
    return part;
  }

  void find_last_uses() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (ValueId input : graph_.nodes[n].inputs) {
        std::int64_t& last = last_use_[root(input)];
        if (last != forever) last = static_cast<std::int64_t>(n);
      }
    }
  }

  void find_parameter_gradients() {
    for (std::size_t p = 0; p < graph_.parameter_gradients.size(); ++p) {
      if (graph_.parameter_gradients[p] < 0) continue;
      const ValueId gradient = root(graph_.parameter_gradients[p]);
      gradient_of_[gradient] = static_cast<std::int32_t>(p);
      last_use_[gradient] = forever;
    }
  }

  /// The node behind which a parameter is updated: its gradient is there, and nothing reads it or its copy any more.
  void find_update_points() {
    std::vector<std::int64_t> last(graph_.parameters.size(), -1);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const ValueId input : graph_.nodes[n].inputs)
        if (const std::int32_t p = graph_.values[input].parameter; p >= 0) last[p] = static_cast<std::int64_t>(n);
      // Also what is added to it later.
      for (const auto* operands : {&graph_.nodes[n].inputs, &graph_.nodes[n].outputs})
        for (const ValueId operand : *operands)
          if (gradient_of_[operand] >= 0) last[gradient_of_[operand]] = static_cast<std::int64_t>(n);
    }
    updates_behind_.resize(graph_.nodes.size());
    for (std::size_t p = 0; p < last.size(); ++p)
      if (graph_.parameter_gradients[p] >= 0) updates_behind_[last[p]].push_back(static_cast<std::int32_t>(p));
  }

  void append_updates(const std::vector<std::int32_t>& parameters, const std::vector<BufferId>& gradients) {
    if (parameters.empty()) return;
    scheduler_.append_update()(routine_, parameters);
    for (const std::int32_t p : parameters)
      routine_.instructions.push_back({Kind::release, gradients[p], graph_.parameters[p].layer, Phase::update});
  }

  void allocate(ValueId value, Phase phase) {
    const Value& info = graph_.values[value];
    const std::string& path = graph_.layers[info.layer].path;
    buffers_[value] = scheduler_.add_buffer(path + "." + info.role, info.layer, info.category, info.type);
    routine_.instructions.push_back({Kind::allocate, buffers_[value], info.layer, phase});
  }

  bool is_kept(ValueId value) const {
    return std::find(graph_.kept.begin(), graph_.kept.end(), value) != graph_.kept.end();
  }

  void make_output(const GraphNode& node, int position, std::size_t n, Phase phase, std::vector<BufferId>& kept,
                   bool adds_gradients) {
    const ValueId output = node.outputs[position];
    if (is_kept(output)) return;
    for (const InPlace& rule : in_place_rules(node.op)) {
      if (rule.output != position || !scheduler_.in_place()) continue;
      const ValueId input = root(node.inputs[rule.input]);
      const bool is_free = last_use_[input] == static_cast<std::int64_t>(n) &&
                           graph_.values[input].category != Category::input &&
                           graph_.values[input].type.num_bytes() == graph_.values[output].type.num_bytes();
      // An operand that stands twice is taken once.
      const bool is_taken = std::find(taken_.begin(), taken_.end(), input) != taken_.end();
      // A parameter's gradient lives on; it must not sit in a buffer of another category.
      if (!is_free || is_taken || gradient_of_[output] >= 0) continue;
      buffers_[output] = buffers_[input];
      taken_.push_back(input);
      return;
    }
    const std::int32_t parameter = gradient_of_[output];
    if (parameter >= 0 && !adds_gradients && kept[parameter] >= 0) {
      buffers_[output] = kept[parameter];
      routine_.instructions.push_back({Kind::allocate, kept[parameter], node.layer, phase});
      return;
    }
    allocate(output, phase);
    if (parameter >= 0 && !adds_gradients) kept[parameter] = buffers_[output];
  }

  /// In a routine that accumulates: has an op that makes a gradient, and can, add it to what the first micro-batch
  /// left.
  bool add_at_once(const GraphNode& node, const std::vector<BufferId>& kept, Phase phase) {
    const auto adding = definition_of(node.op.kind).adding;
    if (adding == nullptr || node.outputs.size() != 1 || gradient_of_[node.outputs[0]] < 0) return false;
    std::vector<BufferId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(buffer_of(input));
    buffers_[node.outputs[0]] = kept[gradient_of_[node.outputs[0]]];
    inputs.push_back(buffers_[node.outputs[0]]);
    scheduler_.append_call(routine_, adding(node.op), std::move(inputs), {}, node.layer, phase);
    return true;
  }

  /// In a routine that accumulates, a gradient is added to what the first micro-batch left and then released. What
  /// adds to it later adds to that.
  void add_to_gradients(const GraphNode& node, const std::vector<BufferId>& kept, Phase phase) {
    for (ValueId output : node.outputs) {
      const std::int32_t parameter = gradient_of_[output];
      if (parameter < 0) continue;
      const BufferId sum = kept[parameter];
      scheduler_.append_call(routine_, add_op(graph_.values[output].type), {sum, buffers_[output]}, {sum}, node.layer,
                             phase);
      routine_.instructions.push_back({Kind::release, buffers_[output], node.layer, phase});
      buffers_[output] = sum;
    }
  }

  void release_dead(const GraphNode& node, std::size_t n, Phase phase) {
    auto release = [&](ValueId value) {
      routine_.instructions.push_back({Kind::release, buffers_[value], node.layer, phase});
    };
    for (ValueId operand : node.inputs) {
      const ValueId input = root(operand);
      if (last_use_[input] != static_cast<std::int64_t>(n)) continue;
      last_use_[input] = -1;  // an operand that appears twice dies once
      bool is_taken = false;
      for (ValueId taken : taken_) is_taken = is_taken || taken == input;
      if (!is_taken) release(input);
    }
    taken_.clear();
    // An output that nothing reads: the last layer's, or a gradient nobody asked for.
    for (ValueId output : node.outputs)
      if (last_use_[output] < 0 && gradient_of_[output] < 0) release(output);
  }

  Scheduler& scheduler_;
  Program& program_;
  const Graph& graph_;
  Routine& routine_;
  static constexpr std::size_t no_mark = std::numeric_limits<std::size_t>::max();
  const Scheduler::SegmentOptions* segments_ = nullptr;
  std::vector<Mark> marks_;
  std::size_t fields_mark_ = no_mark;  // the one in which fields are allocated
  bool keeps_prediction_ = false;
  std::vector<BufferId> buffers_;                          // by value; views ask their root
  std::vector<std::int64_t> last_use_;                     // by root value: the node, `forever`, or -1 for none
  std::vector<std::int32_t> gradient_of_;                  // by value: the parameter, or -1
  std::vector<std::vector<std::int32_t>> updates_behind_;  // by node: parameters; empty: all are updated at the end
  std::vector<Shared> shared_;
  std::vector<std::vector<const Shared*>> released_behind_;  // by node; empty: nothing is shared
  std::vector<Gather> gathers_;                              // in their order
  std::size_t next_gather_ = 0;                              // the one that has not been used yet
  std::size_t next_started_ = 0;                             // the one that has not been started yet, if they are
  std::vector<Bucket> buckets_;                              // in the order in which they are summed
  StartedCalls started_;
  std::optional<std::size_t> last_sum_;  // of gradients, that was started last
  std::vector<ValueId> taken_;           // inputs whose buffer the current node's outputs took over
};

}  // namespace

BufferId Scheduler::add_buffer(std::string name, LayerId layer, Category category, const TensorType& type) {
  program_.buffers.push_back({std::move(name), layer, category, type, type.num_bytes()});
  return static_cast<BufferId>(program_.buffers.size() - 1);
}

void Scheduler::append_call(Routine& routine, Op op, std::vector<BufferId> inputs, std::vector<BufferId> outputs,
                            LayerId layer, Phase phase) {
  const std::int64_t num_bytes = workspace_bytes(op);
  BufferId workspace = -1;
  if (num_bytes > 0) {
    const std::string owner = layer >= 0 ? program_.layers[layer].path : "optimizer";
    const bool communicates = definition_of(op.kind).role == Role::communication;
    workspace = add_buffer(owner + "." + std::string(name_of(op.kind)) + ".workspace", layer,
                           communicates ? Category::communication : Category::workspace, {DType::u8, {num_bytes}});
    routine.instructions.push_back({Kind::allocate, workspace, layer, phase});
  }
  append_run(routine, std::move(op), std::move(inputs), std::move(outputs), workspace, layer, phase);
  if (workspace >= 0) routine.instructions.push_back({Kind::release, workspace, layer, phase});
}

void Scheduler::append_run(Routine& routine, Op op, std::vector<BufferId> inputs, std::vector<BufferId> outputs,
                           BufferId workspace, LayerId layer, Phase phase) {
  program_.calls.push_back({std::move(op), std::move(inputs), std::move(outputs), workspace, layer, phase});
  routine.instructions.push_back({Kind::run, static_cast<std::int32_t>(program_.calls.size() - 1), layer, phase});
}

void Scheduler::append_start_of_statistics(Routine& routine, int num_terms, LayerId layer, Phase phase) {
  const LossStatisticsAttributes attributes{.num_terms = num_terms, .keeps_non_finite = program_.loss_scale < 0};
  append_call(routine, start_loss_statistics_op(attributes), {program_.loss_statistics}, {}, layer, phase);
}

Routine Scheduler::schedule_training(const Graph& graph, const Pass& pass, std::string name) {
  Gradients& gradients = gradients_at(pass.place);
  gradients.wholes.resize(graph.parameters.size(), -1);
  gradients.parts.resize(graph.parameters.size(), -1);
  gradients.are_summed.resize(graph.parameters.size(), 0);
  Routine routine;
  routine.name = std::move(name);
  routine.batch_size = graph.batch_size;
  RoutineSchedule(*this, program_, graph, routine).run(gradients, pass);
  return routine;
}

std::vector<Scheduler::Segment> Scheduler::schedule_segments(const Graph& graph, const Pass& pass,
                                                             const std::string& name, const SegmentOptions& options) {
  Gradients& gradients = gradients_at(pass.place);
  gradients.wholes.resize(graph.parameters.size(), -1);
  gradients.parts.resize(graph.parameters.size(), -1);
  gradients.are_summed.resize(graph.parameters.size(), 0);
  Routine routine;
  routine.name = name;
  routine.batch_size = graph.batch_size;
  RoutineSchedule schedule(*this, program_, graph, routine);
  schedule.note_segments(options);
  schedule.run(gradients, pass);
  return schedule.take_segments();
}

Routine Scheduler::schedule_evaluation(const Graph& graph, std::string name) {
  Gradients no_gradients;
  Routine routine;
  routine.name = std::move(name);
  routine.batch_size = graph.batch_size;
  RoutineSchedule(*this, program_, graph, routine).run(no_gradients, {});
  return routine;
}

Routine Scheduler::schedule_prediction(const Graph& graph, std::string name, BufferId& prediction) {
  Gradients no_gradients;
  Routine routine;
  routine.name = std::move(name);
  routine.batch_size = graph.batch_size;
  RoutineSchedule schedule(*this, program_, graph, routine);
  schedule.keep_prediction();
  schedule.run(no_gradients, {});
  prediction = schedule.prediction();
  return routine;
}

}  // namespace trainer
