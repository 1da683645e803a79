#include "jobs/tune/profile.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/testbeds/program.h"
#include "trials/data_folder.h"
#include "trials/simulator/framework.h"

namespace jobs {
namespace {

using common::InputError;
using trials::ParallelConfig;

// What shortens a part, in the order of Part.
constexpr std::array<std::string_view, kPartNames.size()> kRemedies = {
    "larger microbatches, less recomputation, fused or compiled kernels",
    "less tensor parallelism, sequence parallelism",
    "less context parallelism",
    "less expert parallelism, a faster dispatcher",
    "larger microbatches or more accumulation, overlap, another ZeRO stage",
    "more microbatches, fewer stages, interleaved chunks",
    "larger microbatches, compilation, CUDA graphs",
    "data loading and the host: no layout changes them"};

double Sum(const Parts& parts) {
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

trials::Simulator MakeSimulator(const TuneJob& job) {
  const trials::CommandOptions& options = job.testbed().program->options();
  const trials::Cluster& cluster = job.testbed().program->cluster();
  if (!(cluster.intra.bandwidth_bytes_per_s > 0.0)) {
    throw InputError(
        "--profile: nothing is predicted without a machine: give --gpu or "
        "--cluster");
  }
  const std::string framework =
      options.adapter == nullptr || options.adapter->framework().empty()
          ? "generic"
          : options.adapter->framework();
  return {
      options.workload,
      cluster,
      {trials::ReadFramework(trials::FindDataFile("frameworks", framework))}};
}

// "computation 52%, launch gaps 9%": what takes 1% or more, longest first.
std::string SharesText(const Parts& parts) {
  std::vector<std::pair<double, std::string_view>> shares;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    shares.emplace_back(parts[i] / Sum(parts), kPartNames[i]);
  }
  std::ranges::sort(shares, std::greater());
  std::string text;
  for (const auto& [share, name] : shares) {
    if (share >= 0.01) {
      text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", name,
                          100.0 * share);
    }
  }
  return text;
}

}  // namespace

Profile::Profile(const std::filesystem::path& trace, const TuneJob& job)
    : job_(job), file_(trace), simulator_(MakeSimulator(job)) {
  const std::optional<ParallelConfig> present = job.Present();
  if (!present) {
    throw InputError(
        "--profile: the present configuration is not known: give --start, "
        "which names the parameters of the profiled run");
  }
  present_ = *present;
  measured_ = ReadProfile(trace, present_);
  const Parts predicted = PartsOf(simulator_.Simulate(present_).time);
  const double whole = Sum(measured_) / Sum(predicted);
  for (std::size_t i = 0; i < factors_.size(); ++i) {
    factors_[i] = predicted[i] > 0.0 ? measured_[i] / predicted[i] : whole;
  }
}

Parts Profile::PartsOfConfig(const ParallelConfig& config) const {
  Parts parts = PartsOf(simulator_.Simulate(config).time);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] *= factors_[i];
  }
  parts[kIdle] = measured_[kIdle];  // it is not predicted
  return parts;
}

std::optional<ParallelConfig> Profile::Fastest() const {
  constexpr double kUsable = 0.9;  // of the memory
  const double allowed = kUsable * job_.testbed().machine.memory_bytes();
  ParallelConfig fastest = present_;
  double least_s = Sum(measured_);
  for (const ParallelConfig& config : job_.testbed().space->configs()) {
    try {
      const double step_s = Sum(PartsOfConfig(config));
      if (step_s < least_s &&
          simulator_.Simulate(config).peak_memory_bytes <= allowed) {
        least_s = step_s;
        fastest = config;
      }
    } catch (const trials::InvalidPlan&) {
      continue;  // the framework cannot run it
    }
  }
  return fastest == present_ ? std::nullopt : std::optional(fastest);
}

std::string Profile::Text() const {
  std::string text =
      fmt::format("profile {}: a step of {:.4g} s is {}\n", file_.string(),
                  Sum(measured_), SharesText(measured_));
  const std::optional<ParallelConfig> next = Fastest();
  if (!next) {
    return text + "no configuration is predicted to shorten a part of it\n";
  }
  const Parts parts = PartsOfConfig(*next);
  std::size_t most = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (measured_[i] - parts[i] > measured_[most] - parts[most]) {
      most = i;
    }
  }
  return text + fmt::format(
                    "after your configuration, the trials attack {}: {:.4g} s "
                    "with {}, by its prediction\n",
                    kPartNames[most], parts[most], job_.Text(*next));
}

std::string Profile::LimitText(const ParallelConfig& config) const {
  const Parts parts = PartsOfConfig(config);
  const auto most =
      static_cast<std::size_t>(std::ranges::max_element(parts) - parts.begin());
  return fmt::format(
      "What limits you now: {} ({}), by the profile and the predictions. It "
      "gets shorter by: {}\n",
      kPartNames[most], SharesText(parts), kRemedies[most]);
}

}  // namespace jobs
