#include <algorithm>
#include <bit>
#include <span>
#include <utility>
#include <vector>

#include "cuda/kernels/add.h"
#include "cuda/ops/link_of.h"
#include "cuda/ops/tree_sum.h"

namespace trainer::cuda {

namespace {

/// Elements [begin, begin + count) of a tensor of the list.
struct ListPiece {
  std::size_t tensor = 0;
  std::int64_t begin = 0, count = 0;
};
using ListPieces = std::vector<ListPiece>;

/// Of the elements of ranges of tensors, one range behind the other, those from `begin` to `end`.
ListPieces cut_list(std::span<const ElementRange> ranges, std::int64_t begin, std::int64_t end) {
  ListPieces pieces;
  std::int64_t place = 0;
  for (std::size_t tensor = 0; tensor < ranges.size(); ++tensor) {
    const std::int64_t low = std::max(begin, place), high = std::min(end, place + ranges[tensor].count);
    if (low < high) pieces.push_back({tensor, ranges[tensor].begin + low - place, high - low});
    place += ranges[tensor].count;
  }
  return pieces;
}

std::int64_t elements_of(const ListPieces& pieces) {
  std::int64_t count = 0;
  for (const ListPiece& piece : pieces) count += piece.count;
  return count;
}

/// What of a stretch is for each rank, by rank.
using Stretch = std::vector<ListPieces>;

std::vector<Stretch> stretches_of_all_reduce(const Op& op, std::int64_t num_ranks) {
  std::vector<ElementRange> wholes;
  std::int64_t num_elements = 0;
  for (const TensorType& tensor : op.inputs) {
    wholes.push_back({0, tensor.num_elements()});
    num_elements += tensor.num_elements();
  }
  const std::int64_t slice = all_reduce_slice(op);
  std::vector<Stretch> stretches;
  for (std::int64_t begin = 0; begin < num_elements; begin += num_ranks * slice) {
    Stretch& stretch = stretches.emplace_back();
    for (std::int64_t rank = 0; rank < num_ranks; ++rank)
      stretch.push_back(cut_list(wholes, begin + rank * slice, begin + (rank + 1) * slice));
  }
  return stretches;
}

std::vector<Stretch> stretches_of_reduce_scatter(const Op& op, const RankPartsAttributes& attributes) {
  const std::int64_t length = reduce_scatter_stretch(op);
  std::vector<Stretch> stretches;
  for (std::int64_t rank = 0; rank < attributes.ranks.count; ++rank) {
    std::vector<ElementRange> parts;
    std::int64_t num_elements = 0;
    for (std::int64_t i = 0; i < attributes.num_tensors; ++i) {
      parts.push_back(rank_part(op.inputs[static_cast<std::size_t>(i)].num_elements(), attributes.ranks.count, rank));
      num_elements += parts.back().count;
    }
    // Rank 0, which is the first, has the most.
    if (rank == 0) stretches.resize(static_cast<std::size_t>((num_elements + length - 1) / length));
    for (std::size_t i = 0; i < stretches.size(); ++i) {
      const std::int64_t begin = static_cast<std::int64_t>(i) * length;
      stretches[i].push_back(cut_list(parts, begin, begin + length));
    }
  }
  return stretches;
}

/// Where in `inputs` the sums of each tensor go, and which element of it stands there first.
struct SumPlace {
  std::size_t input = 0;
  std::int64_t first = 0;
};

std::vector<SumPlace> places_of_sums(const Op& op) {
  std::vector<SumPlace> places;
  if (op.kind == OpKind::all_reduce) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) places.push_back({i, 0});
    return places;
  }
  const auto& attributes = attributes_of<RankPartsAttributes>(op);
  const auto num_tensors = static_cast<std::size_t>(attributes.num_tensors);
  std::size_t next = num_tensors;
  for (std::size_t i = 0; i < num_tensors; ++i) {
    const ElementRange own = rank_part(op.inputs[i].num_elements(), attributes.ranks.count, attributes.place);
    places.push_back({own.count > 0 ? next++ : i, own.begin});
  }
  return places;
}

class TreeSumKernel final : public Kernel {
 public:
  TreeSumKernel(const Op& op, const CudaContext& context)
      : context_(context),
        type_(op.inputs[0].dtype),
        gathers_(op.kind == OpKind::all_reduce),
        adds_(!gathers_ && attributes_of<RankPartsAttributes>(op).adds),
        group_(ranks_of(op)),
        num_ranks_(group_.count),
        sum_bytes_(tree_sum_scratch(op).sum_bytes),
        stretches_(gathers_ ? stretches_of_all_reduce(op, num_ranks_)
                            : stretches_of_reduce_scatter(op, attributes_of<RankPartsAttributes>(op))),
        places_(places_of_sums(op)) {
    require_internal(type_ == DType::f32 || type_ == DType::f64 || num_ranks_ == 2,
                     "sums in one order are not rounded on their way");
    require_internal(std::has_single_bit(static_cast<std::uint64_t>(num_ranks_)), "ranks add up in pairs");
  }

  void run(const OperandAddresses& addresses) override {
    RankLink& ranks = link_to_all(context_);
    const auto place = static_cast<int>((ranks.rank() - group_.first) / group_.stride);
    for (const Stretch& stretch : stretches_) {
      sum(ranks, place, stretch, addresses);
      if (gathers_) gather(ranks, place, stretch, addresses);
    }
  }

 private:
  int num_rounds() const { return std::countr_zero(static_cast<std::uint64_t>(num_ranks_)); }
  std::int64_t num_kept(int round) const { return num_ranks_ >> (round + 1); }
  // Ranks by their places in the group.
  static int partner_of(int rank, int round) { return rank ^ (1 << round); }

  /// For whom the index-th is of what `rank` has: what it keeps in a round are the first of those that it had.
  const ListPieces& pieces_for(const Stretch& stretch, int rank, std::int64_t index) const {
    std::int64_t reversed = 0;
    for (int bit = 0; bit < num_rounds(); ++bit)
      if ((index >> bit & 1) != 0) reversed |= std::int64_t{1} << (num_rounds() - 1 - bit);
    return stretch[static_cast<std::size_t>(rank ^ reversed)];
  }
  std::int64_t elements_for(const Stretch& stretch, int rank, std::int64_t begin, std::int64_t end) const {
    std::int64_t count = 0;
    for (std::int64_t index = begin; index < end; ++index) count += elements_of(pieces_for(stretch, rank, index));
    return count;
  }

  std::byte* at(void* tensor, std::int64_t element) const {
    return static_cast<std::byte*>(tensor) + element * static_cast<std::int64_t>(size_of(type_));
  }
  std::byte* at(const OperandAddresses& addresses, const ListPiece& piece) const {
    return at(addresses.inputs[piece.tensor], piece.begin);
  }
  std::byte* sum_at(const OperandAddresses& addresses, const ListPiece& piece) const {
    const SumPlace& place = places_[piece.tensor];
    return at(addresses.inputs[place.input], piece.begin - place.first);
  }

  void add_up(const void* a, const void* b, void* y, std::int64_t count) const {
    if (type_ == DType::f64)
      add_doubles(static_cast<const double*>(a), static_cast<const double*>(b), static_cast<double*>(y), count,
                  context_.stream);
    else
      add(type_, false, a, b, y, count, context_.stream);
  }
  void exchange(RankLink& ranks, int own, int round) {
    if (!sends_.empty() || !receives_.empty())
      ranks.exchange(static_cast<int>(group_.rank_at(partner_of(own, round))), sends_, receives_, type_,
                     context_.stream);
    sends_.clear();
    receives_.clear();
  }

  void sum(RankLink& ranks, int own, const Stretch& stretch, const OperandAddresses& addresses) {
    std::byte* const sums = static_cast<std::byte*>(addresses.workspace);
    std::byte* const received = sums + sum_bytes_;
    std::int64_t place = 0;
    for (std::int64_t index = 0; index < num_kept(0); ++index) {
      for (const ListPiece& piece : pieces_for(stretch, partner_of(own, 0), index))
        sends_.push_back({at(addresses, piece), piece.count});
      for (const ListPiece& piece : pieces_for(stretch, own, index)) {
        receives_.push_back({at(sums, place), piece.count});
        place += piece.count;
      }
    }
    exchange(ranks, own, 0);
    // Of two ranks what was received is all that is added.
    const bool is_last = num_rounds() == 1;
    place = 0;
    for (std::int64_t index = 0; index < num_kept(0) && !is_last; ++index)
      for (const ListPiece& piece : pieces_for(stretch, own, index)) {
        add_up(at(addresses, piece), at(sums, place), at(sums, place), piece.count);
        place += piece.count;
      }
    for (int round = 1; round < num_rounds(); ++round) {
      const std::int64_t kept = elements_for(stretch, own, 0, num_kept(round));
      const std::int64_t given = elements_for(stretch, own, num_kept(round), num_kept(round - 1));
      if (given > 0) sends_.push_back({at(sums, kept), given});
      if (kept > 0) receives_.push_back({received, kept});
      exchange(ranks, own, round);
      if (kept > 0 && round + 1 < num_rounds()) add_up(sums, received, sums, kept);
    }
    place = 0;
    for (const ListPiece& piece : pieces_for(stretch, own, 0)) {
      std::byte* const sum = adds_ ? at(sums, place) : sum_at(addresses, piece);
      add_up(is_last ? at(addresses, piece) : at(sums, place), at(is_last ? sums : received, place), sum, piece.count);
      if (adds_) add_up(sum_at(addresses, piece), sum, sum_at(addresses, piece), piece.count);
      place += piece.count;
    }
  }

  void gather(RankLink& ranks, int own, const Stretch& stretch, const OperandAddresses& addresses) {
    for (int round = num_rounds(); round-- > 0;) {
      for (std::int64_t index = 0; index < num_kept(round); ++index) {
        for (const ListPiece& piece : pieces_for(stretch, own, index))
          sends_.push_back({at(addresses, piece), piece.count});
        for (const ListPiece& piece : pieces_for(stretch, partner_of(own, round), index))
          receives_.push_back({at(addresses, piece), piece.count});
      }
      exchange(ranks, own, round);
    }
  }

  const CudaContext& context_;
  const DType type_;
  const bool gathers_;  ///< the sums, which are for all ranks
  const bool adds_;     ///< them to what their places hold
  const RankGroup group_;
  const std::int64_t num_ranks_, sum_bytes_;
  const std::vector<Stretch> stretches_;
  const std::vector<SumPlace> places_;
  std::vector<RankTensor> sends_, receives_;
};

}  // namespace

std::unique_ptr<Kernel> make_tree_sum_kernel(const Op& op, CudaContext& context) {
  return std::make_unique<TreeSumKernel>(op, context);
}

}  // namespace trainer::cuda
