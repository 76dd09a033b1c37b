#include <nlohmann/json.hpp>

#include "engine/report/memory/diagnosis_text.h"

namespace trainer {

nlohmann::ordered_json diagnosis_json(const Diagnosis& diagnosis) {
  if (!diagnosis.is_known) return nullptr;
  auto not_enough = nlohmann::ordered_json::array();
  for (const Change& change : diagnosis.not_enough)
    not_enough.push_back({{"set", change.set}, {"peak_reserved", change.peak_reserved}});
  return {{"fragmentation", diagnosis.is_fragmentation()},
          {"peak_requested", diagnosis.peak_requested},
          {"peak_reserved", diagnosis.peak_reserved},
          {"persistent", diagnosis.persistent},
          {"model_too_large", diagnosis.is_model_too_large()},
          {"largest_buffer",
           {{"name", diagnosis.largest_buffer},
            {"layer", diagnosis.largest_layer},
            {"bytes", diagnosis.largest_bytes},
            {"too_large", diagnosis.is_buffer_too_large()}}},
          {"training_peak", diagnosis.training_peak},
          {"evaluation_peak", diagnosis.evaluation_peak},
          {"only_evaluation", diagnosis.is_only_evaluation()},
          {"held_by_others", diagnosis.held_by_others},
          {"fits_without_others", diagnosis.fits_without_others},
          {"not_enough", std::move(not_enough)}};
}

}  // namespace trainer
