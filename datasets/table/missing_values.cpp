#include "datasets/table/missing_values.h"

namespace trainer {

MissingValues::MissingValues(const std::vector<std::string>& more) {
  for (const std::string_view usual : {"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND",
                                       "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"})
    texts_.emplace(usual);
  texts_.insert(more.begin(), more.end());
  for (const std::string& text : texts_)
    if (!text.empty()) begins_[static_cast<unsigned char>(text.front())] = true;
}

}  // namespace trainer
