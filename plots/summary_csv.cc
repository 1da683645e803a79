#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "common/text.h"
#include "plots/summary_text.h"
#include "plots/table.h"

namespace plots {
namespace {

// A throughput is in the unit of the objective.
std::vector<std::string> Header(const trials::Valuation& valuation) {
  std::vector<std::string> header = {"problem",
                                     "method",
                                     "label",
                                     "family",
                                     "repeats",
                                     "runs",
                                     "finished",
                                     "throughput_median_steps_per_s",
                                     "throughput_q1_steps_per_s",
                                     "throughput_q3_steps_per_s",
                                     "throughput_halfway_steps_per_s",
                                     "ratio_mean",
                                     "ratio_mean_low",
                                     "ratio_mean_high",
                                     "ratio_median",
                                     "ratio_median_low",
                                     "ratio_median_high",
                                     "ratio_q1",
                                     "ratio_q3"};
  for (std::size_t c = 0; c < kEnd; ++c) {
    const std::string after = "ratio_after_" + CheckpointName(c);
    for (const char* of : {"_mean", "_mean_low", "_mean_high", "_median"}) {
      header.push_back(after + of);
    }
  }
  for (const char* column :
       {"time_to_95_s", "trials_to_95", "runs_to_95", "time_to_99_s",
        "trials_to_99", "runs_to_99", "trials", "terminated_early",
        "out_of_memory", "thinking_s_per_trial", "best_steps_per_s",
        "best_config", "optimum_steps_per_s", "optimum_config", "backend"}) {
    header.emplace_back(column);
  }
  if (valuation.objective == trials::Objective::kMoney) {
    constexpr std::string_view kTime = "_steps_per_s";
    for (std::string& column : header) {
      if (column.ends_with(kTime)) {
        column.replace(column.size() - kTime.size(), kTime.size(),
                       "_steps_per_usd");
      }
    }
  }
  return header;
}

std::vector<std::string> CsvCells(const MethodSummary& s,
                                  const trials::ProblemInfo& info) {
  std::vector<std::string> cells = {s.problem,
                                    s.method,
                                    s.label,
                                    s.family,
                                    std::to_string(s.repeats),
                                    std::to_string(s.runs),
                                    std::to_string(s.finished)};
  const auto add = [&cells](std::initializer_list<double> numbers) {
    for (const double number : numbers) {
      cells.push_back(common::ExactText(number));
    }
  };
  const auto add_reach = [&](const Reach& reach) {
    add({reach.time_s, reach.trials});
    cells.push_back(std::to_string(reach.runs));
  };
  add({s.throughput.median, s.throughput.q1, s.throughput.q3,
       s.throughput_halfway});
  const Share& end = s.shares[kEnd];
  add({end.mean.value, end.mean.low, end.mean.high});
  add({end.median.value, end.median.low, end.median.high, end.q1, end.q3});
  for (std::size_t c = 0; c < kEnd; ++c) {
    const Share& share = s.shares[c];
    add({share.mean.value, share.mean.low, share.mean.high});
    add({share.median.value});
  }
  add_reach(s.reach_95);
  add_reach(s.reach_99);
  add({s.trials, s.terminated_early, s.out_of_memory, s.thinking_s,
       s.best_steps_per_s});
  cells.push_back(s.best_config);
  add({info.optimum_steps_per_s});
  cells.push_back(info.optimum_config);
  cells.push_back(info.backend);
  return cells;
}

}  // namespace

std::string ToCsv(const Summary& summary) {
  std::string text = CsvRow(Header(ValuationOf(summary)));
  for (const ProblemSummary& problem : summary.problems) {
    for (const MethodSummary& s : problem.methods) {
      text += CsvRow(CsvCells(s, problem.info));
    }
  }
  for (const MeanSummary& mean : summary.means) {
    for (const MethodSummary& s : mean.methods) {
      text += CsvRow(CsvCells(s, {}));
    }
  }
  return text;
}

}  // namespace plots
