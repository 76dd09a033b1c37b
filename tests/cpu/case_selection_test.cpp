#include "tests/op_cases/case_selection.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>

#include "engine/ops/activation.h"
#include "engine/ops/add.h"

namespace trainer {

namespace {

OpCase of_size(Op op, const std::string& name) { return {name, std::move(op), {}, {}}; }

std::vector<OpCase> cases_of_two_ops() {
  std::vector<OpCase> cases;
  for (const std::int64_t size : {3, 1, 4, 1, 5, 9, 2, 6})
    cases.push_back(of_size(activation_op({DType::f32, {size}}, {}), "activation " + std::to_string(cases.size())));
  for (const std::int64_t size : {2, 7})
    cases.push_back(of_size(add_op({DType::f32, {size}}, {}), "add " + std::to_string(size)));
  return cases;
}

std::vector<std::string> names(const std::vector<OpCase>& cases) {
  std::vector<std::string> result;
  for (const OpCase& c : cases) result.push_back(c.name);
  return result;
}

constexpr const char* choice_variable = "TRAINER_CASES_PER_OP";

/// Others may run under a choice: it is there again when a test is over.
class GivenChoice {
 public:
  GivenChoice() {
    if (const char* const value = std::getenv(choice_variable)) value_ = value;
  }
  ~GivenChoice() { value_ ? setenv(choice_variable, value_->c_str(), 1) : unsetenv(choice_variable); }
  GivenChoice(const GivenChoice&) = delete;
  GivenChoice& operator=(const GivenChoice&) = delete;

 private:
  std::optional<std::string> value_;
};

}  // namespace

TEST_CASE("of each op at most so many cases stay, in their order, the largest among them") {
  using Names = std::vector<std::string>;
  CHECK(names(at_most(1, cases_of_two_ops())) == Names{"activation 5", "add 7"});
  CHECK(names(at_most(3, cases_of_two_ops())) ==
        Names{"activation 0", "activation 3", "activation 5", "add 2", "add 7"});
  CHECK(names(at_most(8, cases_of_two_ops())) == names(cases_of_two_ops()));
  CHECK(names(at_most(100, cases_of_two_ops())) == names(cases_of_two_ops()));
}

TEST_CASE("the environment chooses how many cases of an op are run, and a wrong word there is told") {
  const GivenChoice given;
  const auto count_with = [](const char* value) {
    REQUIRE(setenv(choice_variable, value, 1) == 0);
    return selected_cases(cases_of_two_ops()).size();
  };
  REQUIRE(unsetenv(choice_variable) == 0);
  CHECK(selected_cases(cases_of_two_ops()).size() == 10);
  CHECK(count_with("") == 10);
  CHECK(count_with("1") == 2);
  CHECK(count_with("2") == 4);
  CHECK_THROWS_WITH(count_with("0"), Catch::Contains("not '0'"));
  CHECK_THROWS_WITH(count_with("few"), Catch::Contains("not 'few'"));
}

}  // namespace trainer
