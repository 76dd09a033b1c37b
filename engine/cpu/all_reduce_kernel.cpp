#include <algorithm>
#include <vector>

#include "engine/cpu/exchange_ranks.h"
#include "engine/cpu/exchange_thread.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/rank_sum.h"

namespace trainer {

namespace {

/// Elements [begin, begin + count) of a tensor of the list.
struct TensorPiece {
  std::size_t tensor = 0;
  std::int64_t begin = 0, count = 0;
};

class AllReduceKernel final : public CpuKernel {
 public:
  AllReduceKernel(const Op& op, const CpuContext& context)
      : op_(op),
        ranks_(context, attributes_of<AllReduceAttributes>(op).ranks),
        num_threads_(threads_of_exchange(op, context)),
        slice_(all_reduce_slice(op)),
        size_(static_cast<std::int64_t>(size_of(op.inputs[0].dtype))) {
    for (const TensorType& tensor : op.inputs) {
      begins_.push_back(num_elements_);
      num_elements_ += tensor.num_elements();
    }
    begins_.push_back(num_elements_);
  }

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    if (ranks_.size() == 1) return;
    for (std::int64_t begin = 0; begin < num_elements_; begin += ranks_.size() * slice_)
      sum_stretch(addresses, ranks_.reach(), begin);
  }

 private:
  std::vector<TensorPiece> pieces_of(std::int64_t begin, std::int64_t end) const {
    std::vector<TensorPiece> pieces;
    end = std::min(end, num_elements_);
    if (begin >= end) return pieces;
    auto tensor =
        static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) - begins_.begin() - 1);
    for (; begin < end; ++tensor) {
      const std::int64_t last = std::min(end, begins_[tensor + 1]);
      if (last > begin) pieces.push_back({tensor, begin - begins_[tensor], last - begin});
      begin = std::max(begin, last);
    }
    return pieces;
  }
  std::byte* at(const OperandAddresses& addresses, const TensorPiece& piece) const {
    return modified_input<std::byte>(addresses, static_cast<int>(piece.tensor)) + piece.begin * size_;
  }

  void sum_stretch(const OperandAddresses& addresses, Communicator& ranks, std::int64_t begin) {
    const int own = ranks.rank(), num_ranks = ranks.size();
    std::vector<std::vector<TensorPiece>> slices;
    slices.reserve(static_cast<std::size_t>(num_ranks));
    for (int rank = 0; rank < num_ranks; ++rank)
      slices.push_back(pieces_of(begin + rank * slice_, begin + (rank + 1) * slice_));
    const std::vector<TensorPiece>& mine = slices[static_cast<std::size_t>(own)];
    std::int64_t own_bytes = 0;
    for (const TensorPiece& piece : mine) own_bytes += piece.count * size_;
    // What others have of the own slice, one rank behind the other.
    auto* const scratch = static_cast<std::byte*>(addresses.workspace);
    const auto of_rank = [&](int rank) { return scratch + (rank < own ? rank : rank - 1) * own_bytes; };

    sends_.clear();
    receives_.clear();
    for (int rank = 0; rank < num_ranks; ++rank) {
      if (rank == own) continue;
      for (const TensorPiece& piece : slices[static_cast<std::size_t>(rank)])
        sends_.push_back({rank, at(addresses, piece), piece.count * size_});
      if (own_bytes > 0) receives_.push_back({rank, of_rank(rank), own_bytes});
    }
    ranks.exchange(sends_, receives_);

    std::int64_t offset = 0;
    for (const TensorPiece& piece : mine) {
      addends_.clear();
      for (int rank = 0; rank < num_ranks; ++rank)
        addends_.push_back(rank == own ? at(addresses, piece) : of_rank(rank) + offset);
      sum_over_ranks(num_threads_, op_.inputs[0].dtype, addends_, at(addresses, piece), piece.count);
      offset += piece.count * size_;
    }

    sends_.clear();
    receives_.clear();
    for (int rank = 0; rank < num_ranks; ++rank) {
      if (rank == own) continue;
      for (const TensorPiece& piece : mine) sends_.push_back({rank, at(addresses, piece), piece.count * size_});
      for (const TensorPiece& piece : slices[static_cast<std::size_t>(rank)])
        receives_.push_back({rank, at(addresses, piece), piece.count * size_});
    }
    ranks.exchange(sends_, receives_);
  }

  const Op op_;
  ExchangeRanks ranks_;
  const int num_threads_;
  const std::int64_t slice_;  ///< elements that a rank sums at a time
  const std::int64_t size_;   ///< bytes of an element
  std::int64_t num_elements_ = 0;
  std::vector<std::int64_t> begins_;  ///< by tensor, in the list
  std::vector<SentBytes> sends_;
  std::vector<ReceivedBytes> receives_;
  std::vector<const std::byte*> addends_;  ///< of a piece, by rank
};

std::unique_ptr<CpuKernel> make_all_reduce_kernel(const Op& op, CpuContext& context) {
  return make_exchange(op, std::make_unique<AllReduceKernel>(op, context), context);
}

/// A slice of every other rank's.
std::int64_t all_reduce_workspace(const Op& op, CpuContext&) {
  return (attributes_of<AllReduceAttributes>(op).ranks.count - 1) * all_reduce_slice(op) *
         static_cast<std::int64_t>(size_of(op.inputs[0].dtype));
}

}  // namespace

const CpuOp all_reduce_on_cpu = {make_all_reduce_kernel, takes_16_bit, all_reduce_workspace};

}  // namespace trainer
