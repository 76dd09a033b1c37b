#pragma once

#include <cstdint>
#include <string>

#include "engine/errors.h"

namespace trainer {

/// Somebody who waits while many plans are made.
class PlanningWatch {
 public:
  virtual ~PlanningWatch() = default;
  /// Before each plan; true: nobody waits any longer, and PlanningInterrupted is thrown.
  virtual bool is_interrupted() = 0;
  /// What the next plans are for: "h100, 5 of 8".
  virtual void plans_for(const std::string& what) = 0;
  /// A search for the largest value has planned this one.
  virtual void planned(std::int64_t value, bool fits) = 0;
};

class PlanningInterrupted : public Error {
 public:
  explicit PlanningInterrupted(const std::string& message = "interrupted") : Error(ExitCode::interrupted, message) {}
};

}  // namespace trainer
