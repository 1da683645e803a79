// What a trial runs: a configuration of a search space, or a plan.

#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "common/fields.h"
#include "trials/parallel_config.h"
#include "trials/plan.h"

namespace trials {

// The text form of a configuration in JSON files.
inline void FromText(std::string_view text, ParallelConfig& config) {
  config = ParseParallelConfig(text);
}

// A configuration or a plan, whose stages may differ. Code that treats them
// alike takes a Candidate; Visit is where they part.
class Candidate {
 public:
  Candidate() = default;
  // NOLINTBEGIN(google-explicit-constructor): both are candidates.
  Candidate(const ParallelConfig& config) : config_(config) {}
  Candidate(Plan plan)
      : config_(StageConfig(plan, 0)), plan_(std::move(plan)) {}
  // NOLINTEND(google-explicit-constructor)

  // The configuration; of a plan, that of its first stage.
  [[nodiscard]] const ParallelConfig& config() const { return config_; }
  [[nodiscard]] bool IsPlan() const { return plan_.has_value(); }

  // Errors: throws std::logic_error for a plan, which the backend cannot run.
  void RejectPlan(std::string_view backend) const {
    if (plan_) {
      throw std::logic_error("the backend '" + std::string(backend) +
                             "' cannot run the plan " + Label());
    }
  }

  // The result of `call` for the configuration or for the plan.
  template <typename Call>
  [[nodiscard]] decltype(auto) Visit(const Call& call) const {
    return plan_ ? call(*plan_) : call(config_);
  }

  // Identifies the candidate, in records and messages.
  [[nodiscard]] std::string Label(const KnobSet& knobs) const {
    return plan_ ? ToString(*plan_) : ToString(config_, knobs);
  }
  [[nodiscard]] std::string Label() const {
    return Visit([](const auto& what) { return ToString(what); });
  }

  friend bool operator==(const Candidate&, const Candidate&) = default;

  friend void VisitFields(common::FieldsOf<Candidate> auto& candidate,
                          const auto& visit) {
    visit("config", candidate.config_);
    visit("plan", candidate.plan_);
  }

 private:
  ParallelConfig config_;
  std::optional<Plan> plan_;
};

}  // namespace trials
