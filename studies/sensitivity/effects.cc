#include "studies/sensitivity/effects.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/quantiles.h"
#include "common/text.h"
#include "plots/curve.h"
#include "plots/experiment_records.h"

namespace studies {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// problem -> repeat -> percent of the optimum, of finished runs.
using Shares = std::map<std::string, std::map<int, double>>;

Shares SharesOf(const plots::ExperimentRecords& records,
                const std::string& method) {
  Shares shares;
  for (const plots::ProblemRecords& problem : records.problems) {
    for (const plots::MethodRecords& each : problem.methods) {
      if (each.name != method || !(problem.info.optimum_steps_per_s > 0.0)) {
        continue;
      }
      for (const plots::Run& run : each.runs) {
        if (!run.finished) {
          continue;
        }
        const plots::StepCurve curve = plots::IncumbentCurve(
            run, problem.info, plots::Cost::kTrials, plots::Value::kExact);
        shares[problem.info.name][run.repeat] =
            100.0 * (curve.y.empty() ? 0.0 : curve.y.back()) /
            problem.info.optimum_steps_per_s;
      }
    }
  }
  return shares;
}

// By problem.
std::vector<std::vector<double>> Differences(const Shares& better,
                                             const Shares& worse) {
  std::vector<std::vector<double>> differences;
  for (const auto& [problem, repeats] : better) {
    const auto other = worse.find(problem);
    if (other == worse.end()) {
      continue;
    }
    std::vector<double> of_problem;
    for (const auto& [repeat, share] : repeats) {
      if (other->second.contains(repeat)) {
        of_problem.push_back(share - other->second.at(repeat));
      }
    }
    if (!of_problem.empty()) {
      differences.push_back(std::move(of_problem));
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

std::string Text(const Effect& effect) {
  return fmt::format("{:+.1f} [{:+.1f}, {:+.1f}]", effect.mean.value,
                     effect.mean.low, effect.mean.high);
}

std::string Joined(const std::vector<std::string>& texts) {
  return texts.empty() ? "-" : fmt::format("{}", fmt::join(texts, "; "));
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
    std::vector<std::string> turns;
    for (const ClaimEffect& effect : effects) {
      if (static_cast<std::size_t>(effect.claim) != c) {
        continue;
      }
      const Verdict verdict = effect.points.verdict();
      ++counts.at(static_cast<std::size_t>(verdict));
      if (verdict == Verdict::kTurns) {
        turns.push_back(fmt::format("{} ({})", Text(effect.varied->variation),
                                    effect.varied->experiment));
      }
    }
    table.Add({{"claim", study.claims[c].text},
               {"cases", std::accumulate(counts.begin(), counts.end(), 0)},
               {"holds", counts[0]},
               {"open", counts[1]},
               {"turns", counts[2]},
               {"turns at", Joined(turns)}});
  }
  return table;
}

// The effects of a claim in an experiment, the default first.
using Group = std::vector<const ClaimEffect*>;

std::vector<Group> GroupsOf(const std::vector<ClaimEffect>& effects) {
  std::map<std::pair<int, std::string>, std::size_t> places;
  std::vector<Group> groups;
  for (const ClaimEffect& effect : effects) {
    const auto [place, first] = places.try_emplace(
        {effect.claim, effect.varied->experiment}, groups.size());
    if (first) {
      groups.emplace_back();
    }
    groups[place->second].push_back(&effect);
  }
  return groups;
}

// A row per claim and experiment: the effect at the defaults, and where the
// verdict is another one.
plots::Table ExperimentTable(const SensitivityStudy& study,
                             const std::vector<Group>& groups) {
  plots::Table table;
  for (const Group& group : groups) {
    const ClaimEffect& first = *group.front();
    if (!first.varied->variation.constant.empty()) {
      continue;  // no records of the default yet
    }
    const auto [least, most] = std::minmax_element(
        group.begin(), group.end(), [](const auto* a, const auto* b) {
          return a->points.mean.value < b->points.mean.value;
        });
    std::vector<std::string> others;
    for (const ClaimEffect* effect : group) {
      if (effect->points.verdict() != first.points.verdict()) {
        others.push_back(fmt::format("{} ({})", Text(effect->varied->variation),
                                     ToString(effect->points.verdict())));
      }
    }
    const auto extreme = [](const ClaimEffect& effect) {
      return fmt::format("{:+.1f} ({})", effect.points.mean.value,
                         Text(effect.varied->variation));
    };
    table.Add({{"claim", study.claims[first.claim].text},
               {"experiment", first.varied->experiment},
               {"default", Text(first.points)},
               {"verdict", ToString(first.points.verdict())},
               {"least", extreme(**least)},
               {"most", extreme(**most)},
               {"another verdict at", Joined(others)}});
  }
  return table;
}

// A panel per experiment, a point per variation.
plots::Figure FigureOf(const SensitivityStudy& study, int claim,
                       const std::vector<Group>& groups) {
  const Claim& about = study.claims[claim];
  plots::Figure figure{
      .name = fmt::format("{}-over-{}", about.better, about.worse),
      .title = about.text};
  std::vector<std::string> legend;
  for (std::size_t v = 0; v < study.variations.size(); ++v) {
    legend.push_back(fmt::format("{}: {}", v + 1, Text(study.variations[v])));
  }
  figure.caption =
      fmt::format("Effect in points of the optimum, mean and 95% interval. {}.",
                  fmt::join(legend, ", "));
  for (const Group& group : groups) {
    if (group.front()->claim != claim) {
      continue;
    }
    const std::string& experiment = group.front()->varied->experiment;
    plots::Panel panel{
        .name = experiment,
        .x_column = "number",
        .x_label = experiment,
        .y_label = "effect (points)",
        .x_min = 0.0,
        .x_max = static_cast<double>(study.variations.size() + 1),
        .horizontal = 0.0,
        .name_column = "variation"};
    plots::Series series{.name = "effect",
                         .style = plots::ThinStyle(0),
                         .mark = plots::Mark::kPoints};
    for (std::size_t v = 0; v < study.variations.size(); ++v) {
      const auto found =
          std::find_if(group.begin(), group.end(), [&](const auto* effect) {
            return effect->varied->variation == study.variations[v];
          });
      series.band.x.push_back(static_cast<double>(v + 1));
      series.band.y.push_back(
          found == group.end() ? common::Quartiles{kUnknown, kUnknown, kUnknown}
                               : common::Quartiles{(*found)->points.mean.low,
                                                   (*found)->points.mean.value,
                                                   (*found)->points.mean.high});
      panel.names.push_back(study.variations[v].name);
    }
    panel.series = {std::move(series)};
    figure.panels.push_back(std::move(panel));
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
    for (const VariedExperiment& varied : study.experiments) {
      const auto of = [&](const std::string& method) -> const Shares& {
        return shares[varied.records.at(method)][method];
      };
      const std::vector<std::vector<double>> differences =
          Differences(of(study.claims[c].better), of(study.claims[c].worse));
      if (!differences.empty()) {
        effects.push_back(
            {static_cast<int>(c), &varied, EffectOf(differences)});
      }
    }
  }
  return effects;
}

std::vector<Output> SensitivityOutputs(
    const SensitivityStudy& study, const std::vector<ClaimEffect>& effects) {
  const std::vector<Group> groups = GroupsOf(effects);
  Output claims{
      .name = "sensitivity",
      .table = ClaimTable(study, effects),
      .data = EffectTable(study, effects),
      .conclusion = fmt::format(
          "{}, {} repeats. A case is an experiment under one variation. A "
          "claim holds in a case if the 95% bootstrap interval of its effect "
          "is above 0, turns if it is below 0, and is open otherwise. The "
          "intervals are not corrected for the number of cases: where there "
          "is no effect, a few percent of the cases hold and as many turn.",
          study.title, study.repeats)};
  for (std::size_t c = 0; c < study.claims.size(); ++c) {
    plots::Figure figure = FigureOf(study, static_cast<int>(c), groups);
    if (!figure.panels.empty()) {
      claims.figures.push_back(std::move(figure));
    }
  }
  Output by_experiment{
      .name = "claims-by-experiment",
      .table = ExperimentTable(study, groups),
      .conclusion =
          "Effects in points (percent of the optimum) with 95% "
          "bootstrap intervals."};
  return {std::move(claims), std::move(by_experiment)};
}

}  // namespace studies
