#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/cpu/exchange_ranks.h"
#include "engine/cpu/exchange_thread.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/rank_sum.h"

namespace trainer {

namespace {

/// Elements [begin, begin + count) of every rank's part of a tensor, or as many of them as it has.
struct PartStretch {
  std::size_t tensor = 0;
  std::int64_t begin = 0, count = 0;
};

/// Tensors that ranks share, and where a rank's parts stand among an op's operands.
class SharedTensors {
 public:
  SharedTensors(std::span<const TensorType> wholes, const RankPartsAttributes& attributes)
      : wholes_(wholes.begin(), wholes.end()),
        attributes_(attributes),
        size_(static_cast<std::int64_t>(size_of(wholes_[0].dtype))) {
    int parts = 0;
    for (std::size_t i = 0; i < wholes_.size(); ++i)
      part_operands_.push_back(part(i, attributes.place).count > 0 ? parts++ : -1);
  }

  std::size_t num_tensors() const { return wholes_.size(); }
  DType type() const { return wholes_[0].dtype; }
  std::int64_t size() const { return size_; }
  ElementRange part(std::size_t tensor, std::int64_t rank) const {
    return rank_part(wholes_[tensor].num_elements(), attributes_.ranks.count, rank, attributes_.unit);
  }
  /// The number of the own part among those that are there, or -1.
  int part_operand(std::size_t tensor) const { return part_operands_[tensor]; }

  /// All parts, in stretches that have so many elements of each rank at most, and one at least.
  std::vector<std::vector<PartStretch>> stretches(std::int64_t most) const {
    require_internal(most > 0, "a stretch has elements");
    std::vector<std::vector<PartStretch>> all(1);
    std::int64_t left = most;
    for (std::size_t i = 0; i < wholes_.size(); ++i) {
      const std::int64_t longest = part(i, 0).count;
      for (std::int64_t begin = 0; begin < longest;) {
        if (left == 0) {
          all.emplace_back();
          left = most;
        }
        const std::int64_t count = std::min(left, longest - begin);
        all.back().push_back({i, begin, count});
        begin += count;
        left -= count;
      }
    }
    return all;
  }
  /// What a rank has of a stretch, in the whole tensor.
  ElementRange range_of(const PartStretch& stretch, std::int64_t rank) const {
    const ElementRange whole = part(stretch.tensor, rank);
    return {whole.begin + stretch.begin, std::clamp(whole.count - stretch.begin, std::int64_t{0}, stretch.count)};
  }

 private:
  std::vector<TensorType> wholes_;
  RankPartsAttributes attributes_;
  std::int64_t size_;  ///< bytes of an element
  std::vector<int> part_operands_;
};

std::span<const TensorType> first_inputs(const Op& op) {
  return std::span(op.inputs).first(static_cast<std::size_t>(attributes_of<RankPartsAttributes>(op).num_tensors));
}

class ReduceScatterKernel final : public CpuKernel {
 public:
  ReduceScatterKernel(const Op& op, const CpuContext& context)
      : attributes_(attributes_of<RankPartsAttributes>(op)),
        ranks_(context, attributes_.ranks),
        num_threads_(threads_of_exchange(op, context)),
        tensors_(first_inputs(op), attributes_) {
    if (attributes_.ranks.count > 1) stretches_ = tensors_.stretches(reduce_scatter_stretch(op));
  }

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    if (attributes_.ranks.count == 1) return keep_own(addresses);
    Communicator& ranks = ranks_.reach();
    for (const std::vector<PartStretch>& stretch : stretches_) sum_stretch(addresses, ranks, stretch);
  }

 private:
  std::byte* at(const OperandAddresses& addresses, std::size_t tensor, std::int64_t element) const {
    return modified_input<std::byte>(addresses, static_cast<int>(tensor)) + element * tensors_.size();
  }
  std::byte* part_at(const OperandAddresses& addresses, std::size_t tensor, std::int64_t element) const {
    if (attributes_.is_output) return output<std::byte>(addresses, 0) + element * tensors_.size();
    return at(addresses, tensors_.num_tensors() + static_cast<std::size_t>(tensors_.part_operand(tensor)), element);
  }

  void keep_own(const OperandAddresses& addresses) const {
    for (std::size_t i = 0; i < tensors_.num_tensors(); ++i) {
      const std::byte* const addend[] = {at(addresses, i, 0)};
      sum_over_ranks(num_threads_, tensors_.type(), addend, part_at(addresses, i, 0), tensors_.part(i, 0).count,
                     attributes_.adds);
    }
  }

  void sum_stretch(const OperandAddresses& addresses, Communicator& ranks, const std::vector<PartStretch>& stretch) {
    const int own = ranks.rank(), num_ranks = ranks.size();
    std::int64_t own_bytes = 0;
    for (const PartStretch& piece : stretch) own_bytes += tensors_.range_of(piece, own).count * tensors_.size();
    // What others have of the own parts, one rank behind the other.
    auto* const scratch = static_cast<std::byte*>(addresses.workspace);
    const auto of_rank = [&](int rank) { return scratch + (rank < own ? rank : rank - 1) * own_bytes; };

    sends_.clear();
    receives_.clear();
    for (int rank = 0; rank < num_ranks; ++rank) {
      if (rank == own) continue;
      for (const PartStretch& piece : stretch)
        if (const ElementRange range = tensors_.range_of(piece, rank); range.count > 0)
          sends_.push_back({rank, at(addresses, piece.tensor, range.begin), range.count * tensors_.size()});
      if (own_bytes > 0) receives_.push_back({rank, of_rank(rank), own_bytes});
    }
    ranks.exchange(sends_, receives_);

    std::int64_t offset = 0;
    for (const PartStretch& piece : stretch) {
      const ElementRange range = tensors_.range_of(piece, own);
      if (range.count == 0) continue;
      addends_.clear();
      for (int rank = 0; rank < num_ranks; ++rank)
        addends_.push_back(rank == own ? at(addresses, piece.tensor, range.begin) : of_rank(rank) + offset);
      sum_over_ranks(num_threads_, tensors_.type(), addends_, part_at(addresses, piece.tensor, piece.begin),
                     range.count, attributes_.adds);
      offset += range.count * tensors_.size();
    }
  }

  const RankPartsAttributes attributes_;
  ExchangeRanks ranks_;
  const int num_threads_;
  const SharedTensors tensors_;
  std::vector<std::vector<PartStretch>> stretches_;  ///< none of one rank
  std::vector<SentBytes> sends_;
  std::vector<ReceivedBytes> receives_;
  std::vector<const std::byte*> addends_;  ///< of a piece, by rank
};

class AllGatherKernel final : public CpuKernel {
 public:
  AllGatherKernel(const Op& op, const CpuContext& context)
      : attributes_(attributes_of<RankPartsAttributes>(op)),
        ranks_(context, attributes_.ranks),
        tensors_(op.outputs, attributes_) {}

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    sends_.clear();
    receives_.clear();
    for (std::size_t i = 0; i < tensors_.num_tensors(); ++i) {
      auto* const whole = output<std::byte>(addresses, static_cast<int>(i));
      if (const int operand = tensors_.part_operand(i); operand >= 0) {
        const ElementRange own = tensors_.part(i, attributes_.place);
        const auto* const part = input<std::byte>(addresses, operand);
        std::byte* const place = whole + own.begin * tensors_.size();
        if (place != part) std::memcpy(place, part, static_cast<std::size_t>(own.count * tensors_.size()));
        for (int rank = 0; rank < attributes_.ranks.count; ++rank)
          if (rank != attributes_.place) sends_.push_back({rank, part, own.count * tensors_.size()});
      }
      for (int rank = 0; rank < attributes_.ranks.count; ++rank)
        if (const ElementRange theirs = tensors_.part(i, rank); rank != attributes_.place && theirs.count > 0)
          receives_.push_back({rank, whole + theirs.begin * tensors_.size(), theirs.count * tensors_.size()});
    }
    if (attributes_.ranks.count > 1) ranks_.reach().exchange(sends_, receives_);
  }

 private:
  const RankPartsAttributes attributes_;
  ExchangeRanks ranks_;
  const SharedTensors tensors_;
  std::vector<SentBytes> sends_;
  std::vector<ReceivedBytes> receives_;
};

std::unique_ptr<CpuKernel> make_reduce_scatter_kernel(const Op& op, CpuContext& context) {
  return make_exchange(op, std::make_unique<ReduceScatterKernel>(op, context), context);
}
std::unique_ptr<CpuKernel> make_all_gather_kernel(const Op& op, CpuContext& context) {
  return make_exchange(op, std::make_unique<AllGatherKernel>(op, context), context);
}

/// What every other rank has of rank 0's parts, which are the largest.
std::int64_t reduce_scatter_workspace(const Op& op, CpuContext&) {
  return (attributes_of<RankPartsAttributes>(op).ranks.count - 1) * reduce_scatter_stretch(op) *
         static_cast<std::int64_t>(size_of(op.inputs[0].dtype));
}

}  // namespace

const CpuOp reduce_scatter_on_cpu = {make_reduce_scatter_kernel, takes_16_bit, reduce_scatter_workspace};
const CpuOp all_gather_on_cpu = {make_all_gather_kernel, takes_16_bit};

}  // namespace trainer
