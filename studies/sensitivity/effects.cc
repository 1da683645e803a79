#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "plots/comparison.h"
#include "studies/sensitivity/sensitivity.h"

namespace studies {
namespace {

// By problem.
using Shares = std::map<std::string, std::vector<plots::RunShare>>;

Shares SharesOf(const plots::ExperimentRecords& records,
                const std::string& method) {
  Shares shares;
  for (const plots::ProblemRecords& problem : records.problems) {
    for (const plots::MethodRecords& each : problem.methods) {
      if (each.name == method) {
        shares[problem.info.name] = plots::RunSharesOf(each.runs, problem.info);
      }
    }
  }
  return shares;
}

// In points at the end of the budget, by problem.
std::vector<std::vector<double>> Differences(const Shares& better,
                                             const Shares& worse) {
  std::vector<std::vector<double>> differences;
  for (const auto& [problem, runs] : better) {
    const auto other = worse.find(problem);
    std::vector<double> points =
        other == worse.end()
            ? std::vector<double>()
            : plots::PairedDifferences(runs, other->second, plots::kEnd);
    for (double& one : points) {
      one *= 100.0;
    }
    if (!points.empty()) {
      differences.push_back(std::move(points));
    }
  }
  return differences;
}

// "failure = 5".
std::string Text(const Variation& variation) {
  return variation.constant.empty()
             ? "default"
             : fmt::format("{} = {}", variation.constant, variation.value);
}

plots::Table EffectTable(const SensitivityStudy& study,
                         const std::vector<ClaimEffect>& effects) {
  plots::Table table;
  for (const ClaimEffect& effect : effects) {
    const Claim& claim = study.claims[effect.claim];
    const Variation& variation = effect.varied->variation;
    const common::Estimate& points = effect.points.mean;
    table.Add({{"claim", claim.text},
               {"better", claim.better},
               {"worse", claim.worse},
               {"experiment", effect.varied->experiment},
               {"constant", variation.constant.empty() ? variation.name
                                                       : variation.constant},
               {"value", variation.value},
               {"n", effect.points.pairs},
               {"effect_points", points.value},
               {"low_points", points.low},
               {"high_points", points.high},
               {"verdict", ToString(effect.points.verdict())}});
  }
  return table;
}

// A row per claim.
plots::Table ClaimTable(const SensitivityStudy& study,
                        const std::vector<ClaimEffect>& effects) {
  plots::Table table;
  for (std::size_t c = 0; c < study.claims.size(); ++c) {
    std::array<int, 3> counts{};
    double least = std::numeric_limits<double>::infinity();
    double most = -least;
    std::vector<std::string> turns;
    for (const ClaimEffect& effect : effects) {
      if (static_cast<std::size_t>(effect.claim) != c) {
        continue;
      }
      const Verdict verdict = effect.points.verdict();
      ++counts.at(static_cast<std::size_t>(verdict));
      least = std::min(least, effect.points.mean.value);
      most = std::max(most, effect.points.mean.value);
      if (verdict == Verdict::kTurns) {
        turns.push_back(fmt::format("{} ({})", Text(effect.varied->variation),
                                    effect.varied->experiment));
      }
    }
    const int cases = std::accumulate(counts.begin(), counts.end(), 0);
    table.Add(
        {{"claim", study.claims[c].text},
         {"cases", cases},
         {"holds", counts[0]},
         {"open", counts[1]},
         {"turns", counts[2]},
         {"effects (points)",
          cases == 0 ? "-" : fmt::format("{:+.1f} to {:+.1f}", least, most)},
         {"turns at",
          turns.empty() ? "-" : fmt::format("{}", fmt::join(turns, "; "))}});
  }
  return table;
}

// A panel per experiment, a point per variation.
plots::Figure FigureOf(const SensitivityStudy& study, int claim,
                       const std::vector<ClaimEffect>& effects) {
  const Claim& about = study.claims[claim];
  plots::Figure figure{
      .name = fmt::format("{}-over-{}", about.better, about.worse),
      .title = about.text};
  plots::Panel empty{.x_column = "number",
                     .y_label = "effect (points)",
                     .x_min = 0.0,
                     .x_max = static_cast<double>(study.variations.size() + 1),
                     .horizontal = 0.0,
                     .series = {{.name = "effect",
                                 .style = plots::ThinStyle(0),
                                 .mark = plots::Mark::kPoints}},
                     .name_column = "variation"};
  std::vector<std::string> legend;
  for (const Variation& variation : study.variations) {
    empty.names.push_back(variation.name);
    legend.push_back(
        fmt::format("{}: {}", empty.names.size(), Text(variation)));
  }
  plots::Band& band = empty.series.front().band;
  band.x = Counting(static_cast<int>(study.variations.size()));
  band.y.resize(band.x.size());
  figure.caption =
      fmt::format("Effect in points of the optimum, mean and 95% interval. {}.",
                  fmt::join(legend, ", "));
  for (const ClaimEffect& effect : effects) {
    if (effect.claim != claim) {
      continue;
    }
    const std::string& experiment = effect.varied->experiment;
    if (figure.panels.empty() || figure.panels.back().name != experiment) {
      plots::Panel& panel = figure.panels.emplace_back(empty);
      panel.name = panel.x_label = experiment;
    }
    const auto at =
        std::ranges::find(study.variations, effect.varied->variation) -
        study.variations.begin();
    const common::Estimate& points = effect.points.mean;
    figure.panels.back().series.front().band.y[at] = {points.low, points.value,
                                                      points.high};
  }
  return figure;
}

}  // namespace

std::string_view ToString(Verdict verdict) {
  constexpr std::array<std::string_view, 3> kNames = {"holds", "open", "turns"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

Verdict Effect::verdict() const {
  if (pairs >= kFewestPairs && mean.low > 0.0) {
    return Verdict::kHolds;
  }
  return pairs >= kFewestPairs && mean.high < 0.0 ? Verdict::kTurns
                                                  : Verdict::kOpen;
}

Effect EffectOf(const std::vector<std::vector<double>>& differences) {
  Effect effect{.mean =
                    common::Bootstrap(differences, common::Statistic::kMean)};
  for (const std::vector<double>& of_problem : differences) {
    effect.pairs += static_cast<int>(of_problem.size());
  }
  return effect;
}

std::vector<ClaimEffect> ClaimEffects(const SensitivityStudy& study) {
  std::map<std::filesystem::path, std::map<std::string, Shares>> shares;
  for (const VariedExperiment& varied : study.experiments) {
    if (std::filesystem::exists(varied.Folder() / "experiment.json")) {
      const plots::ExperimentRecords records =
          plots::LoadExperiment(varied.Folder());
      for (const std::string& method : varied.overrides.methods) {
        shares[varied.Folder()][method] = SharesOf(records, method);
      }
    }
  }
  std::vector<ClaimEffect> effects;
  for (std::size_t c = 0; c < study.claims.size(); ++c) {
    const auto& [text, better, worse] = study.claims[c];
    std::set<std::vector<std::filesystem::path>> judged;
    for (const VariedExperiment& varied : study.experiments) {
      const auto folders = varied.RecordsOf({better, worse});
      if (!judged.insert(folders).second) {
        continue;
      }
      const std::vector<std::vector<double>> differences =
          Differences(shares[folders[0]][better], shares[folders[1]][worse]);
      if (!differences.empty()) {
        effects.push_back(
            {static_cast<int>(c), &varied, EffectOf(differences)});
      }
    }
  }
  return effects;
}

Output SensitivityOutput(const SensitivityStudy& study,
                         const std::vector<ClaimEffect>& effects) {
  Output output{
      .name = "sensitivity",
      .table = ClaimTable(study, effects),
      .data = EffectTable(study, effects),
      .conclusion = fmt::format(
          "{}, {} repeats. A case is an experiment under one variation that "
          "changes one of the two methods. A claim holds in a case if the 95% "
          "bootstrap interval of its effect is above 0, turns if it is below "
          "0, and is open otherwise. The "
          "intervals are not corrected for the number of cases: where there "
          "is no effect, a few percent of the cases hold and as many turn.",
          study.title, study.repeats)};
  for (std::size_t c = 0; c < study.claims.size(); ++c) {
    plots::Figure figure = FigureOf(study, static_cast<int>(c), effects);
    if (!figure.panels.empty()) {
      output.figures.push_back(std::move(figure));
    }
  }
  return output;
}

}  // namespace studies
