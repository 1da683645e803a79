#include <string>
#include <vector>

#include "common/text.h"
#include "plots/summary_text.h"
#include "plots/table.h"

namespace plots {
namespace {

std::vector<std::string> CsvCells(const MethodSummary& s,
                                  const trials::ProblemInfo& info) {
  using common::ExactText;
  return {s.problem,
          s.method,
          s.label,
          std::to_string(s.repeats),
          std::to_string(s.runs),
          std::to_string(s.finished),
          ExactText(s.throughput.median),
          ExactText(s.throughput.q1),
          ExactText(s.throughput.q3),
          ExactText(s.throughput_halfway),
          ExactText(s.ratio.median),
          ExactText(s.ratio.q1),
          ExactText(s.ratio.q3),
          ExactText(s.ratio_after_10),
          ExactText(s.ratio_after_20),
          ExactText(s.reach_95.time_s),
          ExactText(s.reach_95.trials),
          std::to_string(s.reach_95.runs),
          ExactText(s.reach_99.time_s),
          ExactText(s.reach_99.trials),
          std::to_string(s.reach_99.runs),
          ExactText(s.trials),
          ExactText(s.terminated_early),
          ExactText(s.out_of_memory),
          ExactText(s.thinking_s),
          ExactText(s.best_steps_per_s),
          s.best_config,
          ExactText(info.optimum_steps_per_s),
          info.optimum_config,
          info.backend};
}

}  // namespace

std::string ToCsv(const Summary& summary) {
  std::string text =
      "problem,method,label,repeats,runs,finished,"
      "throughput_median_steps_per_s,throughput_q1_steps_per_s,"
      "throughput_q3_steps_per_s,throughput_halfway_steps_per_s,"
      "ratio_median,ratio_q1,ratio_q3,"
      "ratio_after_10,ratio_after_20,"
      "time_to_95_s,trials_to_95,runs_to_95,"
      "time_to_99_s,trials_to_99,runs_to_99,"
      "trials,terminated_early,out_of_memory,thinking_s_per_trial,"
      "best_steps_per_s,best_config,optimum_steps_per_s,optimum_config,"
      "backend\n";
  for (const ProblemSummary& problem : summary.problems) {
    for (const MethodSummary& s : problem.methods) {
      text += CsvRow(CsvCells(s, problem.info));
    }
  }
  for (const MethodSummary& s : summary.mean.methods) {
    text += CsvRow(CsvCells(s, {}));
  }
  return text;
}

}  // namespace plots
