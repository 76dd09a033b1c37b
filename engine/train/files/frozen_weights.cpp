#include "engine/train/files/frozen_weights.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <utility>

#include "engine/train/files/intact_weights.h"
#include "engine/train/files/saved_tensors.h"
#include "engine/train/parameter_init.h"

namespace trainer {
namespace {

std::uint32_t with_bytes(std::uint32_t checksum, const void* bytes, std::size_t num_bytes) {
  return static_cast<std::uint32_t>(crc32_z(checksum, static_cast<const unsigned char*>(bytes), num_bytes));
}

/// Of what is loaded of a file, each tensor with its name and how it is read.
std::uint32_t checksum_of(const WeightsMatch& match, const WeightFiles& files) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 20;
  std::vector<std::byte> piece(static_cast<std::size_t>(most_bytes));
  std::uint32_t checksum = 0;
  for (const WeightsRow& row : match.rows) {
    if (row.status != WeightsStatus::loaded) continue;
    const std::string head = fmt::format("{} {} {};", row.name, row.file_dtype, row.is_transposed ? "swapped" : "");
    checksum = with_bytes(checksum, head.data(), head.size());
    const WeightTensor& tensor = files.tensors()[static_cast<std::size_t>(row.tensor)];
    const std::int64_t num_bytes = tensor.type.num_bytes();
    for (std::int64_t done = 0; done < num_bytes; done += most_bytes) {
      const std::int64_t part = std::min(most_bytes, num_bytes - done);
      files.read(tensor, done, part, piece.data());
      checksum = with_bytes(checksum, piece.data(), static_cast<std::size_t>(part));
    }
  }
  return checksum;
}

}  // namespace

FrozenWeights::FrozenWeights(const Experiment& experiment, const Program& program) {
  for (std::size_t i = 0; i < program.frozen_networks.size(); ++i) {
    const FrozenNetwork& network = program.frozen_networks[i];
    const WeightsConfig& config = experiment.losses[static_cast<std::size_t>(network.loss)].feature.weights;
    std::string name = program.layers[static_cast<std::size_t>(network.layer)].path;
    WeightFiles files = intact_weights(config.file);
    WeightsMatch match =
        match_frozen_weights(config, files, frozen_tensors(program, static_cast<std::int32_t>(i)), name);
    networks_.push_back({std::move(name), std::move(files), std::move(match)});
  }
}

std::vector<WeightsMatch> FrozenWeights::matches() const {
  std::vector<WeightsMatch> matches;
  for (const Network& network : networks_) matches.push_back(network.match);
  return matches;
}

void FrozenWeights::require_matches() const {
  for (const Network& network : networks_) require_match(network.match);
}

std::vector<FrozenChecksum> FrozenWeights::checksums() const {
  std::vector<FrozenChecksum> checksums;
  for (const Network& network : networks_)
    checksums.push_back({network.name, checksum_of(network.match, network.files)});
  return checksums;
}

void FrozenWeights::load(Executor& executor, PieceMemory& memory) const {
  write_frozen_constants(executor);
  for (std::size_t i = 0; i < networks_.size(); ++i)
    load_weights(networks_[i].match, networks_[i].files,
                 frozen_tensors(executor.program(), static_cast<std::int32_t>(i)), executor, memory);
}

void require_same_networks(const std::string& checkpoint, const std::vector<FrozenChecksum>& saved,
                           const std::vector<FrozenChecksum>& now) {
  for (const FrozenChecksum& network : now) {
    const auto before = std::find_if(saved.begin(), saved.end(),
                                     [&](const FrozenChecksum& each) { return each.network == network.network; });
    if (before == saved.end() || before->crc32 == network.crc32) continue;
    throw DataError(
        fmt::format("checkpoint {} was made with other weights in the frozen network '{}' (CRC-32 {:08x}, now {:08x}): "
                    "its file has changed\n"
                    "To train on from its weights alone: --weights {} output=FOLDER",
                    checkpoint, network.network, before->crc32, network.crc32, checkpoint));
  }
}

}  // namespace trainer
