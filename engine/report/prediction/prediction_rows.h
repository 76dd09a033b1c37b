#pragma once

#include <cstdint>
#include <string>

#include "engine/train/prediction_outputs.h"
#include "engine/train/prediction_run.h"

namespace trainer {

// Note [Rows of predictions]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// A row an input, in their order, with the reason in `error` where there is no prediction:
//
//   classes    input, class, probability, p(NAME) of each class, error; of --top K: input, class, probability, class_2,
//              probability_2, …, error
//   labels     input, labels (of probability 0.5 or more, with '|' between), p(NAME) of each label, error
//   numbers    input, NAME of each number, error
//   class_map  input, mask (its file), error
//   next_token input, tokens, loss, perplexity, next (the likeliest token), probability, next_2, probability_2, … of
//              --top K, error
//
// CSV is that of RFC 4180 with a header and line feeds. JSON Lines has {"event": "prediction", "input", …, "error"},
// where what there is not is null: of a text of one token loss and perplexity are, in CSV they are empty. A token is
// told as text with what a terminal cannot show written out, "\n", or in CSV by its number where it has no text.
// Numbers are f32 in the fewest digits that tell them.

/// What is asked of rows.
struct PredictionRowOptions {
  std::int64_t top = 0;  ///< likeliest classes that are told; 0: the likeliest, and the probabilities of all, of
                         ///< tokens the likeliest alone
};

/// The first line, with its line feed.
std::string prediction_csv_header(const PredictionOutputs& outputs, const PredictionRowOptions& options);
/// A line, with its line feed. `mask`: the file of class_map.
std::string prediction_csv_row(const PredictionOutputs& outputs, const PredictionRowOptions& options,
                               const PredictedInput& predicted, const std::string& mask);
std::string prediction_json_row(const PredictionOutputs& outputs, const PredictionRowOptions& options,
                                const PredictedInput& predicted, const std::string& mask);

}  // namespace trainer
