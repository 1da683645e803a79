// The testbed that simulates a cluster.

#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/testbed.h"
#include "harness/testbeds/noise.h"
#include "trials/cluster.h"
#include "trials/search_space.h"
#include "trials/workload.h"

namespace trials {
struct Guess;
struct StepReport;
class Landscape;
}  // namespace trials

namespace harness {

// The input of a simulation.
struct SimulatorSetup {
  trials::Workload workload;
  // The GPUs of each type, of at least one.
  std::vector<trials::Cluster> gpu_types;
  trials::SearchSpaceOptions space;
  std::shared_ptr<const trials::Framework> framework;  // never null
  std::string framework_name;  // "": the default, Colossal-AI
  std::vector<std::filesystem::path> inputs;
  Noise noise;

  [[nodiscard]] const trials::Cluster& cluster() const {
    return gpu_types.front();
  }
  [[nodiscard]] bool mixed() const { return gpu_types.size() > 1; }
  [[nodiscard]] std::string FrameworkName() const;
};

// Predicted cost of a configuration.
struct Expectation {
  double step_time_s = 0.0;
  double peak_memory_bytes = 0.0;
  double fit_probability = 0.0;
};

// The simulator of a problem's steps, with the deviations of [noise] landscape
// if there are any. Two threads must not use one object at the same time.
class StepModel {
 public:
  StepModel(const SimulatorSetup& setup, const trials::Machine& machine,
            std::shared_ptr<const trials::Landscape> deviations);

  // Runs configurations of every size, without noise.
  [[nodiscard]] std::unique_ptr<trials::TrialRunner> MakeRunner() const;
  // What to expect of a configuration, also of one that does not fit.
  [[nodiscard]] Expectation Expect(const trials::ParallelConfig& config) const;
  // The components of one step as a table.
  [[nodiscard]] std::string Explain(const trials::ParallelConfig& config) const;
  // The explanation of a plan, whose stages may differ.
  // Errors: throws trials::InvalidPlan.
  [[nodiscard]] std::string Explain(const trials::Plan& plan) const;
  [[nodiscard]] bool ExplainsPlans() const { return sizes_.size() == 1; }
  // Where its numbers were compared with measurements, in one line.
  [[nodiscard]] std::string Validation() const;

 private:
  class Parts;
  [[nodiscard]] std::vector<trials::Guess> Guesses() const;
  [[nodiscard]] std::string ErrorBands(const trials::StepReport& report) const;

  SimulatorSetup setup_;
  std::vector<int> sizes_;
  std::shared_ptr<const trials::Landscape> deviations_;  // may be null
  std::shared_ptr<const Parts> parts_;
};

// "nanotron: compared with published measurements (ultrascale)".
[[nodiscard]] std::string ValidationOf(const std::string& framework,
                                       const std::vector<std::string>& tables);
// With which measurements the simulated GPU was compared, a line.
[[nodiscard]] std::string ValidationOf(const trials::Gpu& gpu);
// That a forecast is a guess, and why, a line; "" if it is none.
[[nodiscard]] std::string GuessText(const std::vector<trials::Guess>& guesses);
// How often published jobs on this cluster were much slower than a forecast, a
// line; "" on one host and without such jobs.
[[nodiscard]] std::string JobStatesOf(const trials::Cluster& cluster);
// How far measurements of comparable runs are from a report; "" without the
// file of bands.
[[nodiscard]] std::string ErrorBandsOf(
    const trials::Framework& framework,
    const std::vector<trials::Guess>& guesses,
    const trials::StepReport& report);

[[nodiscard]] Testbed MakeSimulator(const ProblemSpec& problem);

}  // namespace harness
