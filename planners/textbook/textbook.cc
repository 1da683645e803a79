#include "planners/textbook/textbook.h"

#include <cstddef>
#include <optional>

#include "common/units.h"
#include "methods/sampling/nearest.h"
#include "planners/textbook/textbook_model.h"

namespace planners {
namespace {

TextbookModel ModelOf(const methods::Problem& problem,
                      const TextbookOptions& options) {
  constexpr double kTera = 1e12;
  using common::kGiga;
  return {WorkloadFor("textbook", problem),
          {.gpus_per_node = problem.machine.gpus_per_node(),
           .memory_bytes = problem.machine.memory_bytes(),
           .flops_per_s = kTera * options.tflops,
           .intra_node_bytes_per_s = kGiga * options.intra_node_gb_per_s,
           .inter_node_bytes_per_s = kGiga * options.inter_node_gb_per_s}};
}

class Textbook final : public methods::Method {
 public:
  Textbook(const methods::Problem& problem, const TextbookOptions& options)
      : methods::Method(problem),
        space_(*problem.space),
        weight_(problem.weight) {
    const TextbookModel model = ModelOf(problem, options);
    const double most_bytes = kMemoryShare * problem.machine.memory_bytes();
    for (const trials::ParallelConfig& config : space_.configs()) {
      steps_.push_back(model.Step(config));
      passes_.push_back(model.Memory(config).Total() <= most_bytes &&
                        model.CommunicationShare(config) <=
                            options.communication_share);
    }
    if (options.advice) {
      const std::vector<double> weighted = WeightedTimes();
      for (const methods::Problem& part : methods::PartsOf(problem)) {
        const int advised = methods::NearestUntried(
            space_, history_.tried(), model.Advise(part.machine.gpus()));
        first_ = IsBetter(advised, first_, weighted) ? advised : first_;
      }
    }
  }

  std::optional<methods::Suggestion> Suggest() override {
    if (history_.exhausted()) {
      return std::nullopt;
    }
    methods::Suggestion suggestion;
    suggestion.candidate =
        first_ >= 0 && !Tried(first_) ? first_ : FastestUntried();
    suggestion.chosen_by = trials::ChosenBy::kModel;
    return suggestion;
  }

 private:
  [[nodiscard]] bool Tried(int candidate) const {
    return history_.tried()[candidate] != 0;
  }

  [[nodiscard]] TextbookFactors Factors() const {
    std::vector<TextbookMeasurement> measurements;
    for (const trials::Trial& trial : history_.trials()) {
      if (trial.HasThroughput()) {
        measurements.push_back(
            {steps_[trial.candidate], 1.0 / trial.throughput.steps_per_s});
      }
    }
    return Calibrate(measurements);
  }

  // The step time of every candidate, times its weight.
  [[nodiscard]] std::vector<double> WeightedTimes() const {
    const TextbookFactors factors = Factors();
    std::vector<double> times;
    for (const TextbookStep& step : steps_) {
      times.push_back(factors.StepTime(step) *
                      weight_(space_[static_cast<int>(times.size())]));
    }
    return times;
  }

  // One that passes the filters is better than one that does not.
  [[nodiscard]] bool IsBetter(int candidate, int best,
                              const std::vector<double>& weighted) const {
    const auto i = static_cast<std::size_t>(candidate);
    const auto b = static_cast<std::size_t>(best);
    return best < 0 || passes_[i] > passes_[b] ||
           (passes_[i] == passes_[b] && weighted[i] < weighted[b]);
  }

  [[nodiscard]] int FastestUntried() const {
    const std::vector<double> weighted = WeightedTimes();
    int best = -1;
    for (int candidate = 0; candidate < space_.size(); ++candidate) {
      if (!Tried(candidate) && IsBetter(candidate, best, weighted)) {
        best = candidate;
      }
    }
    return best;
  }

  const trials::SearchSpace& space_;
  trials::Weight weight_;
  std::vector<TextbookStep> steps_;
  std::vector<char> passes_;  // the filters
  int first_ = -1;
};

}  // namespace

std::vector<methods::Option> OptionsOf(TextbookOptions& o) {
  return {
      {"tflops", methods::Number{&o.tflops, 0.001},
       "Dense TFLOP/s of a GPU in 16 bits, of its data sheet."},
      {"intra_node_gb_per_s", methods::Number{&o.intra_node_gb_per_s, 0.001},
       "GB/s of a GPU within a host."},
      {"inter_node_gb_per_s", methods::Number{&o.inter_node_gb_per_s, 0.001},
       "GB/s of a GPU between hosts."},
  };
}

trials::Predictions EstimatesOf(const methods::Problem& problem,
                                const TextbookOptions& options) {
  const TextbookModel model = ModelOf(problem, options);
  trials::Predictions estimates;
  for (const trials::ParallelConfig& config : problem.space->configs()) {
    estimates.step_time_s.push_back(model.Step(config).Total());
    estimates.peak_memory_bytes.push_back(model.Memory(config).Total());
  }
  return estimates;
}

std::unique_ptr<methods::Method> MakeTextbook(const methods::Problem& problem,
                                              const TextbookOptions& options,
                                              std::uint64_t /*seed*/) {
  return std::make_unique<Textbook>(problem, options);
}

}  // namespace planners
