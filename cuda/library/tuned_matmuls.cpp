#include "cuda/library/tuned_matmuls.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "cuda/kernels/bias_gradient.h"
#include "engine/memory/rounding.h"

namespace trainer::cuda {

namespace {

/// Scratch beyond what was planned is worth it for no more than this share of the time without it.
constexpr float worthwhile = 0.95F;

/// Products whose operands begin within a tensor are left to the heuristics.
bool can_be_timed(const MatmulCall& call) {
  constexpr std::int64_t whole = 16;
  return call.alignment >= whole;
}

std::int64_t planned_with(const MatmulCall& call, const MatmulCandidate& choice) {
  std::int64_t bytes = choice.workspace_bytes;
  if (call.epilogue == Epilogue::bias_gradient_a)
    bytes = std::max(bytes, bias_gradient_workspace_bytes(call.k, call.m));
  return round_up(bytes, least_block_bytes);
}

}  // namespace

std::string text_of(const MatmulCandidate& candidate) {
  return fmt::format("{} {} {}", candidate.is_fused ? "fused" : "plain", candidate.workspace_bytes,
                     candidate.algorithm);
}

std::optional<MatmulCandidate> candidate_of(const std::string& text) {
  std::istringstream words(text);
  std::string form, rest;
  MatmulCandidate candidate;
  if (!(words >> form >> candidate.workspace_bytes >> candidate.algorithm) || words >> rest) return std::nullopt;
  if ((form != "fused" && form != "plain") || candidate.workspace_bytes < 0) return std::nullopt;
  candidate.is_fused = form == "fused";
  return candidate;
}

std::string text_key(const MatmulCall& call) {
  return fmt::format("{} {}x{}x{}{}{} epilogue {}{}{}{}", name_of(call.type), call.m, call.n, call.k,
                     call.transpose_a ? " a transposed" : "", call.transpose_b ? " b transposed" : "",
                     static_cast<int>(call.epilogue), call.tf32 ? " tf32" : "", call.f32_result ? " to f32" : "",
                     call.adds ? " added" : "");
}

std::string tuned_matmuls_path(const std::string& properties_json, std::int64_t version) {
  return engine_choices_path("products", device_name_in(properties_json), version);
}

TunedMatmuls::TunedMatmuls(const std::string& choices_path, FindMatmuls find, TimeMatmuls time)
    : choices_(choices_path), find_(std::move(find)), time_(std::move(time)) {}

TunedMatmuls::Entry& TunedMatmuls::entry_of(const MatmulCall& call) {
  const std::string key = text_key(call);
  const auto [place, is_new] = entries_.try_emplace(key);
  Entry& entry = place->second;
  if (is_new) entry = stored_entry(call, key);
  if (!entry.is_settled && !entry.is_counted && can_be_timed(call)) {
    entry.is_counted = true;
    ++num_untuned_;
  }
  return entry;
}

TunedMatmuls::Entry TunedMatmuls::stored_entry(const MatmulCall& call, const std::string& key) const {
  const std::optional<std::string> stored = choices_.find(key);
  const std::optional<MatmulCandidate> choice = stored ? candidate_of(*stored) : std::nullopt;
  const std::int64_t untimed_bytes = matmul_workspace_bytes(call);
  // No process stores a choice that takes more.
  if (!choice || choice->workspace_bytes > std::max(untimed_bytes, largest_workspace_bytes))
    return {.planned_bytes = untimed_bytes};
  return {.planned_bytes = planned_with(call, *choice), .running = choice, .is_settled = true};
}

std::optional<MatmulCandidate> TunedMatmuls::choice_to_run(const MatmulCall& call) {
  Entry& entry = entry_of(call);
  if (!can_be_timed(call)) return std::nullopt;
  if (!entry.is_settled && time_) {
    entry.running = choose_by_time(call, entry.planned_bytes);
    entry.is_settled = true;
  }
  return entry.running;
}

std::optional<MatmulCandidate> TunedMatmuls::choose_by_time(const MatmulCall& call, std::int64_t planned_bytes) {
  std::vector<MatmulCandidate> candidates = find_(call, planned_bytes);
  for (MatmulCandidate& candidate : find_(call, std::max(planned_bytes, largest_workspace_bytes)))
    if (std::find(candidates.begin(), candidates.end(), candidate) == candidates.end())
      candidates.push_back(std::move(candidate));
  const std::vector<std::optional<float>> times = time_(call, candidates);
  std::optional<std::size_t> fastest, fastest_planned;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!times.at(i)) continue;
    if (!fastest || *times[i] < *times[*fastest]) fastest = i;
    if (candidates[i].workspace_bytes > planned_bytes) continue;
    if (!fastest_planned || *times[i] < *times[*fastest_planned]) fastest_planned = i;
  }
  if (!fastest) return std::nullopt;
  if (fastest_planned && *times[*fastest] > worthwhile * *times[*fastest_planned]) fastest = fastest_planned;
  choices_.store(text_key(call), text_of(candidates[*fastest]));
  return fastest_planned ? std::optional(candidates[*fastest_planned]) : std::nullopt;
}

}  // namespace trainer::cuda
