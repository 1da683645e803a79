// What a profile of the present job says about its search.

#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "jobs/plan/run_comparison.h"
#include "jobs/tune/tune_job.h"
#include "trials/simulator/simulator.h"

namespace jobs {

// The measured parts of the present step, and those of other configurations,
//
//   t_i(c) = p_i(c) m_i / p_i(present),
//
// with the measured m_i and the predicted p_i of part i; a part that the
// present configuration lacks is scaled as the whole step.
class Profile {
 public:
  // `trace`: of PyTorch's profiler. The job must outlive the object.
  // Errors: throws InputError for another file, and for a job without its
  // present configuration or without the links of its machine.
  Profile(const std::filesystem::path& trace, const TuneJob& job);

  // The configuration of the space with the shortest step by these parts that
  // is predicted to fit; nothing if that is the present one.
  [[nodiscard]] std::optional<trials::ParallelConfig> Fastest() const;

  // The measured parts, and the one that the fastest configuration shortens
  // most; in lines.
  [[nodiscard]] std::string Text() const;

  // What limits a configuration, and what changes it; a line.
  [[nodiscard]] std::string LimitText(
      const trials::ParallelConfig& config) const;

 private:
  [[nodiscard]] Parts PartsOfConfig(const trials::ParallelConfig& config) const;

  const TuneJob& job_;
  std::filesystem::path file_;
  trials::ParallelConfig present_;
  trials::Simulator simulator_;
  Parts measured_ = {};
  Parts factors_ = {};
};

}  // namespace jobs
