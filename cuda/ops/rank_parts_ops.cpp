#include <utility>
#include <vector>

#include "cuda/kernels/add.h"
#include "cuda/kernels/copy_channels.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/link_of.h"
#include "cuda/ops/tree_sum.h"
#include "engine/memory/rounding.h"

namespace trainer::cuda {

namespace {

std::byte* element_at(const void* tensor, std::int64_t element, DType type) {
  return static_cast<std::byte*>(const_cast<void*>(tensor)) + element * static_cast<std::int64_t>(size_of(type));
}

/// What ranks tell each other of tensors of which each has a part. Tensors whose parts are all of one size go by NCCL's
/// calls for that, the others range by range.
class SharedTensors {
 public:
  SharedTensors(std::span<const TensorType> wholes, const RankPartsAttributes& attributes)
      : attributes_(attributes), type_(wholes[0].dtype) {
    for (const TensorType& whole : wholes) counts_.push_back(whole.num_elements());
  }

  DType type() const { return type_; }
  std::size_t num_tensors() const { return counts_.size(); }
  ElementRange own(std::size_t tensor) const { return part(tensor, attributes_.place); }

  /// `parts`: of those tensors of which this rank has one.
  void reduce_scatter(RankLink& ranks, std::span<void* const> wholes, std::span<void* const> parts, Stream stream) {
    begin();
    walk(wholes, parts, [&](std::size_t i, void* whole, void* part) {
      if (is_even(i)) return slices_.push_back({whole, part, own(i).count});
      for_each_range(i, [&](int rank, const ElementRange& range) {
        ranges_.push_back(
            {element_at(whole, range.begin, type_), rank == attributes_.place ? part : nullptr, range.count, rank});
      });
    });
    if (!slices_.empty()) ranks.reduce_scatter(slices_, type_, stream);
    if (!ranges_.empty()) ranks.reduce(ranges_, type_, stream);
  }

  void all_gather(RankLink& ranks, std::span<void* const> parts, std::span<void* const> wholes, Stream stream) {
    begin();
    walk(wholes, parts, [&](std::size_t i, void* whole, void* part) {
      if (is_even(i)) return slices_.push_back({part, whole, own(i).count});
      for_each_range(i, [&](int rank, const ElementRange& range) {
        void* const place = element_at(whole, range.begin, type_);
        ranges_.push_back({rank == attributes_.place ? part : place, place, range.count, rank});
      });
    });
    if (!slices_.empty()) ranks.all_gather(slices_, type_, stream);
    if (!ranges_.empty()) ranks.broadcast(ranges_, type_, stream);
  }

 private:
  ElementRange part(std::size_t tensor, std::int64_t rank) const {
    return rank_part(counts_[tensor], attributes_.ranks.count, rank, attributes_.unit);
  }
  bool is_even(std::size_t tensor) const {
    return part(tensor, 0).count == part(tensor, attributes_.ranks.count - 1).count;
  }
  template <typename Visit>
  void for_each_range(std::size_t tensor, Visit visit) const {
    for (std::int64_t rank = 0; rank < attributes_.ranks.count; ++rank)
      if (const ElementRange range = part(tensor, rank); range.count > 0) visit(static_cast<int>(rank), range);
  }
  template <typename Visit>
  void walk(std::span<void* const> wholes, std::span<void* const> parts, Visit visit) const {
    std::size_t next = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) visit(i, wholes[i], own(i).count > 0 ? parts[next++] : nullptr);
  }
  void begin() {
    slices_.clear();
    ranges_.clear();
  }

  const RankPartsAttributes attributes_;
  DType type_;
  std::vector<std::int64_t> counts_;
  std::vector<RankSlices> slices_;
  std::vector<RankRange> ranges_;
};

/// Of one rank, whose parts are whole: copies what is not in its place.
std::unique_ptr<Kernel> make_copies(std::span<const TensorType> wholes, bool to_inputs, CudaContext& context) {
  return make_kernel([tensors = std::vector<TensorType>(wholes.begin(), wholes.end()), to_inputs,
                      &stream = context.stream](const OperandAddresses& addresses) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const void* const from = addresses.inputs[i];
      void* const to = to_inputs ? addresses.inputs[tensors.size() + i] : addresses.outputs[i];
      const std::int64_t count = tensors[i].num_elements();
      if (from != to)
        copy_channels(tensors[i].dtype, from, {.row_channels = count}, to, {.row_channels = count}, 1, count, stream);
    }
  });
}

}  // namespace

/// Where it adds, the sum goes to the workspace first.
std::unique_ptr<Kernel> make_reduce_scatter_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<RankPartsAttributes>(op);
  const std::span<const TensorType> wholes =
      std::span(op.inputs).first(static_cast<std::size_t>(attributes.num_tensors));
  if (attributes.ranks.count == 1) return make_copies(wholes, !attributes.is_output, context);
  if (sums_as_tree(op, context.sums.in_order)) return make_tree_sum_kernel(op, context);
  return make_kernel([tensors = SharedTensors(wholes, attributes), attributes,
                      &context](const OperandAddresses& addresses) mutable {
    const std::span<void* const> all = addresses.inputs;
    const std::span<void* const> parts = attributes.is_output ? addresses.outputs : all.subspan(tensors.num_tensors());
    RankLink& ranks = link_of(context, attributes.ranks);
    if (!attributes.adds) return tensors.reduce_scatter(ranks, all.first(tensors.num_tensors()), parts, context.stream);
    std::vector<void*> sums;
    std::vector<std::int64_t> counts;
    auto* next = static_cast<std::byte*>(addresses.workspace);
    for (std::size_t i = 0; i < tensors.num_tensors(); ++i) {
      const std::int64_t count = tensors.own(i).count;
      if (count == 0) continue;
      counts.push_back(count);
      sums.push_back(next);
      next += round_to_blocks(count * static_cast<std::int64_t>(size_of(tensors.type())));
    }
    tensors.reduce_scatter(ranks, all.first(tensors.num_tensors()), sums, context.stream);
    for (std::size_t i = 0; i < sums.size(); ++i)
      add(tensors.type(), false, parts[i], sums[i], parts[i], counts[i], context.stream);
  });
}

std::unique_ptr<Kernel> make_all_gather_kernel(const Op& op, CudaContext& context) {
  const auto& attributes = attributes_of<RankPartsAttributes>(op);
  if (attributes.ranks.count == 1) return make_copies(op.outputs, false, context);
  return make_kernel([tensors = SharedTensors(op.outputs, attributes), group = attributes.ranks,
                      &context](const OperandAddresses& addresses) mutable {
    tensors.all_gather(link_of(context, group), addresses.inputs, addresses.outputs, context.stream);
  });
}

}  // namespace trainer::cuda
