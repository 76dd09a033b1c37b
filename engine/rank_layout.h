#pragma once

#include <cstdint>

namespace trainer {

/// Ranks first, first + stride, … of a run: those that an exchange is among. {n}: all of n.
struct RankGroup {
  std::int64_t count = 1;
  std::int64_t first = 0, stride = 1;

  constexpr std::int64_t rank_at(std::int64_t place) const { return first + place * stride; }
  constexpr std::int64_t last() const { return rank_at(count - 1); }
  friend bool operator==(const RankGroup&, const RankGroup&) = default;
};

// Note [Layouts of ranks]
// ~~~~~~~~~~~~~~~~~~~~~~~
// A model may be shared by ranks in three ways at once: they take parts of each batch (parallel.data), of each layer
// (parallel.tensor), and of the list of layers (parallel.pipeline). So a rank has three places, and its number is
//
//   tensor place + tensor · (data place + data · stage)
//
// since ranks of one layer tell each other most, and stages least: neighbours are mostly on one machine. All that
// exchange something are then ranks of one distance.

/// How many ranks share a model in each way, and which of them this is.
struct RankLayout {
  std::int64_t num_data = 1, num_stages = 1, num_tensor = 1;
  std::int64_t rank = 0;

  constexpr std::int64_t num_ranks() const { return num_data * num_stages * num_tensor; }

  constexpr std::int64_t tensor_place() const { return rank % num_tensor; }
  constexpr std::int64_t data_place() const { return rank / num_tensor % num_data; }
  constexpr std::int64_t stage() const { return rank / (num_tensor * num_data); }
  /// The rank with this one's other places.
  constexpr std::int64_t rank_of_stage(std::int64_t of) const { return rank + (of - stage()) * num_tensor * num_data; }
  constexpr RankLayout of_rank(std::int64_t other) const { return {num_data, num_stages, num_tensor, other}; }

  constexpr RankGroup all() const { return {num_ranks()}; }
  /// Those that share a batch, and hold the same part of the model.
  constexpr RankGroup data_group() const { return {num_data, rank - data_place() * num_tensor, num_tensor}; }
  /// Those that share the list of layers.
  constexpr RankGroup pipeline_group() const { return {num_stages, rank_of_stage(0), num_tensor * num_data}; }
  /// Those that share layers.
  constexpr RankGroup tensor_group() const { return {num_tensor, rank - tensor_place(), 1}; }
  /// Those that together have each sample of a batch once, and each stage of it.
  constexpr RankGroup sample_group() const { return {num_data * num_stages, tensor_place(), num_tensor}; }
  /// All that hold parts of this rank's layers.
  constexpr RankGroup stage_group() const { return {num_tensor * num_data, stage() * num_tensor * num_data, 1}; }

  friend bool operator==(const RankLayout&, const RankLayout&) = default;
};

}  // namespace trainer
