#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/findings/find_evaluation.h"
#include "engine/report/text/style.h"

namespace trainer {

/// Of a class in a confusion matrix with TP, FP, FN: precision TP / (TP + FP), recall TP / (TP + FN), F1 their harmonic
/// mean, 2 · TP / (2 · TP + FP + FN), as scikit-learn's precision_recall_fscore_support; nothing where it divides by 0.
struct ClassScores {
  std::int64_t num_true = 0;  ///< samples of the class
  std::optional<double> precision, recall, f1;
};
std::vector<ClassScores> class_scores(const CountedMetrics& counted);

/// The evaluation for people: loss and metrics, each class, the confusion matrix, the samples of the highest loss,
/// memory.
std::string evaluation_report(const EvaluationFindings& findings, const Style& style);
/// Where it does not fit: who would hold the memory, and the batch that fits, to paste.
std::string evaluation_out_of_memory(const EvaluationFindings& findings, const Style& style);
/// The event `evaluation`.
std::string evaluation_json(const EvaluationFindings& findings);
/// The confusion matrix as CSV: a line for each true class, a column for each guess, both with their names.
std::string confusion_csv(const EvaluationFindings& findings);

}  // namespace trainer
