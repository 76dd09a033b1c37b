#include "engine/train/files/sharded_checkpoint.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "engine/train/agreement.h"
#include "engine/train/files/checkpoint_writing.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/tensor_shards.h"
#include "engine/train/shared_reads.h"

namespace trainer {
namespace {

constexpr std::array<std::string_view, 2> list_stems = {"model", "optimizer"};
constexpr std::int64_t all_are_finite = std::numeric_limits<std::int64_t>::max();

/// What a rank tells of its files.
struct ShardReport {
  std::int64_t non_finite = all_are_finite;     ///< the first tensor of both lists that is not
  std::array<std::uint64_t, 2> num_bytes = {};  ///< by list; 0: the rank has no file of it
  std::array<std::uint32_t, 2> crc32 = {};
};

/// Goes through the pieces of a file, one by one.
class ShardPieces {
 public:
  ShardPieces(const std::vector<SavedTensor>& tensors, const TensorShards& shards, int shard)
      : tensors_(tensors), shards_(shards), shard_(shard) {
    find();
  }
  bool is_done() const { return tensor_ == tensors_.size(); }
  /// In the list.
  std::size_t position() const { return tensor_; }
  const SavedTensor& tensor() const { return tensors_[tensor_]; }
  const TensorPiece& piece() const { return pieces_[piece_]; }
  void advance() {
    if (++piece_ < pieces_.size()) return;
    ++tensor_;
    find();
  }

 private:
  /// The next tensor of the file that has a piece.
  void find() {
    for (; tensor_ < tensors_.size(); ++tensor_) {
      if (shards_.of_tensor[tensor_] != shard_) continue;
      pieces_ = tensor_pieces(tensors_[tensor_].order, tensors_[tensor_].kept);
      piece_ = 0;
      if (!pieces_.empty()) return;
    }
  }

  const std::vector<SavedTensor>& tensors_;
  const TensorShards& shards_;
  const int shard_;
  std::size_t tensor_ = 0, piece_ = 0;
  std::vector<TensorPiece> pieces_;
};

/// The files of one rank.
class ShardWriting {
 public:
  ShardWriting(const std::string& folder, Executor& executor, Communicator& ranks, const ShardMemory& memory)
      : folder_(folder), executor_(executor), ranks_(ranks), memory_(memory) {}

  /// Takes part in writing a list. Where its own file fails it goes on to give others what they need.
  void write(std::size_t list, const std::vector<SavedTensor>& tensors, const TensorShards& shards) {
    const int own = ranks_.rank();
    std::vector<ShardPieces> files;
    files.reserve(static_cast<std::size_t>(shards.count));
    for (int shard = 0; shard < shards.count; ++shard) files.emplace_back(tensors, shards, shard);
    const bool writes = own < shards.count;
    if (writes) attempt([&] { open(list, tensors, shards); });
    while (std::any_of(files.begin(), files.end(), [](const ShardPieces& file) { return !file.is_done(); })) {
      for (int shard = 0; shard < shards.count; ++shard) bring(files[static_cast<std::size_t>(shard)], shard);
      if (writes && !files[static_cast<std::size_t>(own)].is_done()) append(files[static_cast<std::size_t>(own)]);
      for (ShardPieces& file : files)
        if (!file.is_done()) file.advance();
    }
    first_of_list_ += static_cast<std::int64_t>(tensors.size());
    attempt([&] {
      if (!writer_) return;
      if (report_.non_finite == all_are_finite) writer_->finish();
      report_.num_bytes[list] = writer_->file_bytes();
      report_.crc32[list] = writer_->checksum();
    });
    writer_.reset();
  }
  /// Flushes the names of its files.
  void finish() {
    attempt([&] { sync_directory(folder_); });
  }

  const std::string& failure() const { return failure_; }
  const ShardReport& report() const { return report_; }

 private:
  template <typename Work>
  void attempt(const Work& work) {
    try {
      work();
    } catch (const DataError& error) {
      if (failure_.empty()) failure_ = fmt::format("rank {}: {}", ranks_.rank(), error.what());
      writer_.reset();
    }
  }

  void open(std::size_t list, const std::vector<SavedTensor>& tensors, const TensorShards& shards) {
    std::vector<NamedTensor> named;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (shards.of_tensor[i] == ranks_.rank()) named.push_back(tensors[i].tensor);
    const std::string name = shard_file(list_stems[list], ranks_.rank(), shards.count);
    const std::map<std::string, std::string> metadata = {{"format", "pt"}};
    writer_.emplace(fmt::format("{}/{}", folder_, name), named, metadata);
  }

  /// Brings the next piece of a file to the memory of who writes it.
  void bring(const ShardPieces& file, int writer) {
    if (file.is_done()) return;
    const bool is_own = writer == ranks_.rank();
    const BufferId buffer = file.tensor().buffer;
    const bool is_shared = executor_.program().buffers[buffer].part.has_value();
    if (!is_own && !is_shared) return;
    require_internal(is_own || memory_.given != nullptr, "there is memory for what other ranks are given");
    PieceMemory& memory = is_own ? memory_.own : *memory_.given;
    const std::int64_t num_bytes = file.piece().kept.num_bytes();
    require_internal(num_bytes <= memory.num_bytes(), "there is room for the largest piece");
    read_shared(executor_, &ranks_, buffer, file.piece().offset, num_bytes, memory.data(), writer);
  }

  void append(const ShardPieces& file) {
    std::byte* const bytes = memory_.own.data();
    if (!may_be_saved(file.tensor(), file.piece(), bytes))
      report_.non_finite = std::min(report_.non_finite, first_of_list_ + static_cast<std::int64_t>(file.position()));
    to_file_order(file.piece().order, file.piece().kept, bytes);
    attempt([&] {
      if (writer_) writer_->append(bytes, file.piece().kept.num_bytes());
    });
  }

  const std::string& folder_;
  Executor& executor_;
  Communicator& ranks_;
  const ShardMemory& memory_;
  std::optional<SafetensorsWriter> writer_;
  std::int64_t first_of_list_ = 0;  ///< counted over the lists
  std::string failure_;
  ShardReport report_;
};

CheckpointFile write_index(const std::string& folder, std::string_view stem, const std::vector<SavedTensor>& tensors,
                           const TensorShards& shards) {
  const std::string text = shards_index(stem, tensors, shards);
  const std::string name = shards_index_file(stem);
  write_file_durably(fmt::format("{}/{}", folder, name), text);
  return {name, text.size(), checksum_of_text(text)};
}

/// Throws on all ranks where `work` throws on rank 0, which alone does it.
template <typename Work>
void let_first_rank(Communicator& ranks, const std::string& directory, const Work& work) {
  std::string failure;
  if (ranks.rank() == 0) {
    try {
      work();
    } catch (const DataError& error) {
      failure = fmt::format("rank 0: {}", error.what());
    } catch (const std::filesystem::filesystem_error& error) {
      failure = fmt::format("rank 0: cannot write a checkpoint under {}: {}", directory, error.code().message());
    }
  }
  fail_together(&ranks, failure);
}

}  // namespace

SavedCheckpoint save_sharded_checkpoint(const std::string& directory, const TrainingState& state,
                                        const Experiment& experiment, const std::string& trainer_version,
                                        Executor& executor, Communicator& ranks, const ShardMemory& memory) {
  std::optional<TemporaryDirectory> temporary;
  let_first_rank(ranks, directory, [&] {
    make_directories_durably(directory);
    temporary.emplace(unfinished_path(directory, state.step));
  });
  const std::string folder = text_of_rank(ranks, 0, temporary ? temporary->path() : "");

  const Program& program = executor.program();
  const std::array<std::vector<SavedTensor>, 2> lists = {model_tensors(program), optimizer_tensors(program)};
  std::vector<std::int64_t> bytes_of_ranks(static_cast<std::size_t>(ranks.size()));
  const std::array<TensorShards, 2> shards = {share_out(lists[0], bytes_of_ranks), share_out(lists[1], bytes_of_ranks)};
  ShardWriting writing(folder, executor, ranks, memory);
  for (std::size_t list = 0; list < lists.size(); ++list) writing.write(list, lists[list], shards[list]);
  writing.finish();
  fail_together(&ranks, writing.failure());

  const std::vector<ShardReport> reports = gathered_by_first(ranks, writing.report());
  std::int64_t non_finite = all_are_finite;
  for (const ShardReport& report : reports) non_finite = std::min(non_finite, report.non_finite);
  const std::string first_non_finite = text_of_rank(ranks, 0, std::to_string(non_finite));
  SavedCheckpoint saved;
  if (const auto position = static_cast<std::size_t>(std::stoll(first_non_finite));
      position < lists[0].size() + lists[1].size()) {
    const bool is_of_model = position < lists[0].size();
    const SavedTensor& tensor = is_of_model ? lists[0][position] : lists[1][position - lists[0].size()];
    saved.non_finite_parameter = tensor.trainable_parameter;
    return saved;
  }
  saved.path = path_of_checkpoint(directory, state.step);
  let_first_rank(ranks, directory, [&] {
    std::vector<CheckpointFile> files;
    for (std::size_t list = 0; list < lists.size(); ++list) {
      for (int shard = 0; shard < shards[list].count; ++shard) {
        const ShardReport& report = reports[static_cast<std::size_t>(shard)];
        files.push_back(
            {shard_file(list_stems[list], shard, shards[list].count), report.num_bytes[list], report.crc32[list]});
      }
      if (shards[list].has_index()) files.push_back(write_index(folder, list_stems[list], lists[list], shards[list]));
    }
    const bool is_sharded = shards[0].has_index() || shards[1].has_index();
    write_description(folder, is_sharded ? sharded_checkpoint_version : whole_checkpoint_version, state, experiment,
                      trainer_version, files);
    replace_durably(folder, saved.path);
  });
  return saved;
}

}  // namespace trainer
