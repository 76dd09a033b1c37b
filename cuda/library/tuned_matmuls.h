#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/library/engine_choices.h"
#include "cuda/library/matmul.h"

namespace trainer::cuda {

/// One way in which a product is computed on a device.
struct MatmulCandidate {
  bool is_fused = true;              ///< with its epilogue; else that is a kernel of its own behind the product
  std::int64_t workspace_bytes = 0;  ///< that the library needs
  std::string algorithm;             ///< the library's own description, without spaces
  friend bool operator==(const MatmulCandidate&, const MatmulCandidate&) = default;
};

/// "fused 4096 0a1b…", and back; empty for what is no such text.
std::string text_of(const MatmulCandidate& candidate);
std::optional<MatmulCandidate> candidate_of(const std::string& text);

/// The whole call but its alignment in one line, as a key in files and maps.
std::string text_key(const MatmulCall& call);

/// Where the choices for a device are stored, which cuDNN describes by `properties_json`, with cuBLASLt's version.
std::string tuned_matmuls_path(const std::string& properties_json, std::int64_t version);

/// The library's candidates within a scratch, those that its heuristics put first, first; all of them give the same
/// bits on every run.
using FindMatmuls = std::function<std::vector<MatmulCandidate>(const MatmulCall&, std::int64_t workspace_limit)>;
/// Milliseconds of each, nothing for one that does not run.
using TimeMatmuls =
    std::function<std::vector<std::optional<float>>(const MatmulCall&, const std::vector<MatmulCandidate>&)>;

// Note [Products that are timed]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// As Note [One plan] in cuda/library/cudnn_convolution.cpp has it for convolutions: with device.autotune a product's
// scratch and algorithm are the choice that an earlier process stored for the device, else matmul_workspace_bytes and
// the heuristics' first. Products are timed only where one without a choice is prepared to run: the heuristics' first
// eight, with the epilogue and without it and our kernel behind, within the planned scratch and within 32 MiB. What is
// planned holds for as long as the process, so the fastest within it runs now; the fastest of all is stored, but
// scratch beyond what was planned must save a twentieth of the time. From the next process on the stored choice is what
// is planned, and what runs where the library takes it: one that it refuses is left to the heuristics within the same
// scratch. A bias gradient's sums have room in every plan: where they are not fused they stand in the
// same scratch. Products whose operands begin within a tensor are not timed; the heuristics choose for them, within
// what is planned.

class TunedMatmuls final : public MatmulPlanner {
 public:
  static constexpr std::int64_t largest_workspace_bytes = std::int64_t{32} << 20;

  /// Choices from the file at `choices_path`. Without `time` (on a device that is only described) none are made.
  TunedMatmuls(const std::string& choices_path, FindMatmuls find, TimeMatmuls time);

  std::int64_t workspace_bytes(const MatmulCall& call) override { return entry_of(call).planned_bytes; }
  std::int64_t num_untuned() const override { return num_untuned_; }
  /// What to run within workspace_bytes(call); nothing where that is left to the heuristics.
  std::optional<MatmulCandidate> choice_to_run(const MatmulCall& call);
  /// EngineChoices::note.
  const std::string& note() const { return choices_.note(); }

 private:
  struct Entry {
    std::int64_t planned_bytes = 0;
    std::optional<MatmulCandidate> running = {};
    bool is_settled = false;
    bool is_counted = false;  ///< in num_untuned_
  };

  Entry& entry_of(const MatmulCall& call);
  Entry stored_entry(const MatmulCall& call, const std::string& key) const;
  std::optional<MatmulCandidate> choose_by_time(const MatmulCall& call, std::int64_t planned_bytes);

  EngineChoices choices_;
  FindMatmuls find_;
  TimeMatmuls time_;
  std::unordered_map<std::string, Entry> entries_;  ///< by text_key
  std::int64_t num_untuned_ = 0;
};

}  // namespace trainer::cuda
