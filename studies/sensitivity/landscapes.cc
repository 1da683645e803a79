#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files.h"
#include "common/statistics.h"
#include "common/units.h"
#include "plots/experiment_records.h"
#include "studies/sensitivity/sensitivity.h"
#include "studies/validation/statistics.h"

namespace studies {
namespace {

// A claim for a method under one variation.
struct Case {
  const VariedExperiment* varied;
  JudgedClaim judged;

  [[nodiscard]] bool is_cluster() const {
    return !varied->variation.draws.empty();
  }
};
// By claim and method, in the order of the ledger within an experiment.
using Cases = std::vector<std::pair<JudgedClaim, std::vector<Case>>>;

// Whether the records have as many finished runs of the method.
bool HasRuns(const plots::ExperimentRecords& records, const std::string& method,
             int repeats) {
  int finished = 0;
  for (const plots::ProblemRecords& problem : records.problems) {
    for (const plots::MethodRecords& each : problem.methods) {
      if (each.name == method) {
        finished += static_cast<int>(
            std::ranges::count(each.runs, true, &plots::Run::finished));
      }
    }
  }
  return finished >= repeats;
}

// Those whose runs are complete, and not those of an earlier case.
Cases CasesOf(const SensitivityStudy& study) {
  Cases cases;
  std::set<std::pair<std::string, std::vector<std::filesystem::path>>> judged;
  for (const VariedExperiment& varied : study.experiments) {
    // Records of several folders: a variation that does not affect a method has
    // its runs elsewhere.
    std::map<std::filesystem::path, plots::ExperimentRecords> folders;
    const auto records = [&](const std::string& method) -> const auto& {
      const std::filesystem::path& folder = varied.records.at(method);
      const auto [found, is_new] = folders.try_emplace(folder);
      if (is_new && common::IsFile(folder / "experiment.json")) {
        found->second = plots::LoadExperiment(folder);
      }
      return found->second;
    };
    if (!std::ranges::all_of(varied.records, [&](const auto& each) {
          return HasRuns(records(each.first), each.first, study.repeats);
        })) {
      continue;
    }
    for (JudgedClaim& claim :
         JudgeExperiment(study.ledger, varied.experiment, records)) {
      if (!judged.emplace(claim.id, varied.RecordsOf(claim.compared)).second) {
        continue;
      }
      auto found = std::ranges::find_if(cases, [&](const auto& each) {
        return each.first.id == claim.id && each.first.method == claim.method;
      });
      if (found == cases.end()) {
        found = cases.insert(cases.end(), {claim, {}});
      }
      found->second.push_back({&varied, std::move(claim)});
    }
  }
  return cases;
}

// Two-sided p-value of Spearman's r of n pairs, by Fisher's transformation with
// the variance 1.06 / (n - 3) of Fieller et al. (1957).
double SpearmanP(double r, std::size_t n) {
  const double z = std::atanh(std::min(std::abs(r), 1.0 - 1e-12)) *
                   std::sqrt((static_cast<double>(n) - 3.0) / 1.06);
  return 2.0 * (1.0 - common::NormalProbability(z));
}

// The drawn constant that the claim turns on, "noise.landscape (-0.71)"; "-" if
// none is significant.
std::string TurnsOn(const std::vector<Case>& clusters) {
  constexpr std::size_t kFewestClusters = 8;
  if (clusters.size() < kFewestClusters) {
    return "-";
  }
  std::vector<double> favor;
  for (const Case& each : clusters) {
    favor.push_back(each.judged.favor);
  }
  std::vector<std::string> constants;
  std::vector<double> correlations;
  std::vector<double> p;
  const std::size_t count = clusters.front().varied->variation.draws.size();
  for (std::size_t d = 0; d < count; ++d) {
    std::vector<double> values;
    for (const Case& each : clusters) {
      values.push_back(each.varied->variation.draws[d].second);
    }
    const double r = Spearman(values, favor);
    constants.push_back(clusters.front().varied->variation.draws[d].first);
    correlations.push_back(r);
    p.push_back(std::isnan(r) ? r : SpearmanP(r, favor.size()));
  }
  const std::vector<double> adjusted = common::Holm(p);
  std::vector<std::string> texts;
  for (std::size_t d = 0; d < count; ++d) {
    if (adjusted[d] < 0.05) {
      texts.push_back(
          fmt::format("{} ({:+.2f})", constants[d], correlations[d]));
    }
  }
  return texts.empty() ? "-" : fmt::format("{}", fmt::join(texts, ", "));
}

plots::Row CaseRow(const Case& each) {
  const Variation& variation = each.varied->variation;
  plots::Row row = {{"claim", each.judged.id},
                    {"method", each.judged.method},
                    {"rival", each.judged.rival},
                    {"experiment", each.varied->experiment},
                    {"variation", variation.name},
                    {"n", each.judged.x.pairs},
                    {"x", each.judged.x.mean.value},
                    {"low", each.judged.x.mean.low},
                    {"high", each.judged.x.mean.high},
                    {"verdict", ToString(each.judged.verdict)}};
  return row;
}

// A panel per method: the share of clusters for each of its claims.
void AddToFigure(const JudgedClaim& claim, const common::Estimate& share,
                 plots::Figure& figure) {
  auto panel =
      std::ranges::find(figure.panels, claim.method, &plots::Panel::name);
  if (panel == figure.panels.end()) {
    panel = figure.panels.insert(panel,
                                 {.name = claim.method,
                                  .title = claim.method,
                                  .x_column = "claim",
                                  .y_label = "clusters on which it holds",
                                  .by_name = true,
                                  .y_min = -0.05,  // room for points at 0 and 1
                                  .y_max = 1.05});
  }
  panel->series.push_back(
      {.name = claim.id,
       .label = claim.id,
       .style = {.symbol = 7},
       .band = {.x = {1.0}, .y = {{share.low, share.value, share.high}}},
       .mark = plots::Mark::kPoints});
}

}  // namespace

common::Estimate WilsonShare(int holds, int n) {
  if (n == 0) {
    return {};
  }
  const double p = static_cast<double>(holds) / n;
  const double zz = common::kNormal95 * common::kNormal95 / n;
  const double half = std::sqrt(zz * p * (1.0 - p) + zz * zz / 4.0);
  return {p, (p + zz / 2.0 - half) / (1.0 + zz),
          (p + zz / 2.0 + half) / (1.0 + zz)};
}

std::vector<Output> LandscapeOutput(const SensitivityStudy& study) {
  Output output{.name = "landscapes"};
  Output all_cases{.name = "landscape-cases"};
  plots::Figure figure{.name = "claims-clusters",
                       .title = "Claims over simulated clusters",
                       .caption =
                           "Share of the clusters on which a claim of "
                           "the ledger holds, with its 95% interval."};
  for (const auto& [claim, cases] : CasesOf(study)) {
    std::vector<Case> clusters;
    std::array<int, 3> counts{};  // of clusters, by verdict
    int varied = 0;
    int holds = 0;
    for (const Case& each : cases) {
      all_cases.data.Add(CaseRow(each));
      if (each.is_cluster()) {
        clusters.push_back(each);
        ++counts.at(static_cast<std::size_t>(each.judged.verdict));
      } else if (!each.varied->variation.constant.empty()) {
        ++varied;
        holds += each.judged.verdict == Verdict::kHolds ? 1 : 0;
      }
    }
    const int n = static_cast<int>(clusters.size());
    const common::Estimate share = WilsonShare(counts[0], n);
    output.table.Add(
        {{"claim", claim.id},
         {"method", claim.method},
         {"clusters", n},
         {"holds (%)",
          n == 0 ? "-"
                 : fmt::format("{:.0f} [{:.0f}, {:.0f}]", 100.0 * share.value,
                               100.0 * share.low, 100.0 * share.high)},
         {"open", counts[1]},
         {"does not hold", counts[2]},
         {"variations",
          varied == 0 ? "-" : fmt::format("{} of {}", holds, varied)},
         {"turns on", TurnsOn(clusters)}});
    if (n > 0) {
      AddToFigure(claim, share, figure);
    }
  }
  figure.columns = 1;
  if (!figure.panels.empty()) {
    output.figures.push_back(std::move(figure));
  }
  output.conclusion = fmt::format(
      "{} repeats of each search. A claim is judged on each cluster as in the "
      "ledger, and holds on the share of clusters with its 95% interval "
      "(Wilson). It turns on a drawn constant with which what is claimed "
      "correlates (Spearman's correlation, p < 0.05 after Holm's correction "
      "over the constants).",
      study.repeats);
  return {std::move(output), std::move(all_cases)};
}

}  // namespace studies
