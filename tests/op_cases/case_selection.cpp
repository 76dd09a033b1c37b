#include "tests/op_cases/case_selection.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace trainer {

namespace {

std::int64_t num_numbers(const OpCase& op_case) {
  std::int64_t sum = 0;
  for (const TensorType& type : op_case.op.inputs) sum += type.num_elements();
  return sum;
}

}  // namespace

std::vector<OpCase> at_most(std::size_t num_cases_per_op, std::vector<OpCase> cases) {
  std::map<OpKind, std::vector<std::size_t>> positions;
  for (std::size_t i = 0; i < cases.size(); ++i) positions[cases[i].op.kind].push_back(i);
  std::vector<bool> stays(cases.size(), false);
  for (auto& [kind, of_kind] : positions) {
    // The largest has the most blocks.
    const auto largest = std::max_element(of_kind.begin(), of_kind.end(), [&](std::size_t a, std::size_t b) {
      return num_numbers(cases[a]) < num_numbers(cases[b]);
    });
    const std::size_t count = std::min(num_cases_per_op, of_kind.size());
    if (count == 0) continue;
    stays[*largest] = true;
    of_kind.erase(largest);
    for (std::size_t i = 0; i + 1 < count; ++i) stays[of_kind[i * of_kind.size() / (count - 1)]] = true;
  }
  std::vector<OpCase> result;
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (stays[i]) result.push_back(std::move(cases[i]));
  return result;
}

std::vector<OpCase> selected_cases(std::vector<OpCase> cases) {
  const char* const text = std::getenv("TRAINER_CASES_PER_OP");
  if (text == nullptr || *text == '\0') return cases;
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  if (*end != '\0' || count < 1)
    throw std::invalid_argument(std::string("TRAINER_CASES_PER_OP is a number of at least 1, not '") + text + "'");
  return at_most(static_cast<std::size_t>(count), std::move(cases));
}

}  // namespace trainer
