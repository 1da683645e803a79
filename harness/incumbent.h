// The best trial of a search so far.

#pragma once

#include "trials/objective.h"
#include "trials/record.h"
#include "trials/trial.h"

namespace harness {

// The incumbent of a search (see Trial::incumbent_steps_per_s).
class Incumbent {
 public:
  explicit Incumbent(const trials::Weight& weight) : weight_(weight) {}

  void Add(const trials::Trial& trial);
  [[nodiscard]] double steps_per_s() const { return steps_per_s_; }

 private:
  trials::Weight weight_;
  double steps_per_s_ = trials::kUnknown;
  double value_ = trials::kUnknown;
};

}  // namespace harness
