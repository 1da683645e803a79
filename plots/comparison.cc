#include "plots/comparison.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/ranges.h"

namespace plots {
namespace {

constexpr double kLevel = 0.05;

// Separately for rivals and variants.
void AdjustP(std::vector<Comparison>& methods) {
  for (const bool variants : {false, true}) {
    const std::vector<double> adjusted =
        common::Holm(common::Map(methods, [&](const Comparison& method) {
          return method.is_variant == variants ? method.test.wilcoxon_p
                                               : trials::kUnknown;
        }));
    for (std::size_t m = 0; m < methods.size(); ++m) {
      if (methods[m].is_variant == variants) {
        methods[m].holm_p = adjusted[m];
      }
    }
  }
}

// Over these problems, whose methods are the same ones in the same order.
ComparisonSet CompareAt(const std::string& name,
                        const std::vector<const ProblemSummary*>& problems,
                        bool over_problems, std::size_t checkpoint,
                        std::size_t reference) {
  const std::vector<MethodSummary>& methods = problems.front()->methods;
  ComparisonSet set{.problems = name,
                    .checkpoint = checkpoint,
                    .reference = methods[reference].method,
                    .reference_label = methods[reference].label,
                    .over_problems = over_problems};
  for (std::size_t m = 0; m < methods.size(); ++m) {
    std::vector<double> units;
    for (const ProblemSummary* problem : problems) {
      const std::vector<double> repeats =
          PairedDifferences(problem->methods[m].run_shares,
                            problem->methods[reference].run_shares, checkpoint);
      if (!over_problems) {
        units = repeats;
      } else if (!repeats.empty()) {
        units.push_back(Quantized(common::Mean(repeats)));
      }
    }
    if (m != reference && !units.empty()) {
      const std::string& family = methods[m].family;
      set.methods.push_back(
          {.method = methods[m].method,
           .label = methods[m].label,
           .is_variant = !family.empty() && family != methods[m].method,
           .difference = common::Bootstrap({units}, common::Statistic::kMean),
           .test = common::TestPairs(units)});
    }
  }
  AdjustP(set.methods);
  return set;
}

Cell PValue(double p) { return p < 0.001 ? Cell("< 0.001", p) : Fixed(p, 3); }

}  // namespace

double ComparisonSet::SmallestHolmP(bool variants) const {
  double smallest = 1.0;
  int count = 0;
  for (const Comparison& method : methods) {
    if (method.is_variant == variants) {
      ++count;
      smallest = std::min(smallest, common::SmallestP(method.test.pairs));
    }
  }
  return std::min(1.0, count * smallest);
}

double Quantized(double share) { return std::round(share * 1e9) / 1e9; }

std::vector<double> PairedDifferences(const std::vector<RunShare>& runs,
                                      const std::vector<RunShare>& others,
                                      std::size_t checkpoint) {
  std::vector<double> differences;
  for (const RunShare& run : runs) {
    for (const RunShare& other : others) {
      const double difference = run.at[checkpoint] - other.at[checkpoint];
      if (run.repeat == other.repeat && run.finished && other.finished &&
          !std::isnan(difference)) {
        differences.push_back(Quantized(difference));
      }
    }
  }
  return differences;
}

std::vector<ComparisonSet> Compare(const Summary& summary,
                                   const std::string& reference) {
  std::vector<ComparisonSet> sets;
  const auto add = [&](const std::string& name,
                       const std::vector<const ProblemSummary*>& problems,
                       bool over_problems) {
    const auto& methods = problems.front()->methods;
    const auto found =
        std::ranges::find(methods, reference, &MethodSummary::method);
    for (std::size_t c = 0; found != methods.end() && c < kCheckpoints.size();
         ++c) {
      ComparisonSet set =
          CompareAt(name, problems, over_problems, c,
                    static_cast<std::size_t>(found - methods.begin()));
      if (!set.methods.empty()) {
        sets.push_back(std::move(set));
      }
    }
  };
  if (summary.problems.size() == 1 && summary.means.empty()) {
    add(summary.problems.front().info.name, {&summary.problems.front()}, false);
  }
  for (const MeanSummary& mean : summary.means) {
    add(mean.name,
        common::Map(
            mean.problems,
            [&](std::size_t problem) { return &summary.problems[problem]; }),
        true);
  }
  return sets;
}

namespace {

Row RowOf(const ComparisonSet& set, const Comparison& one) {
  const common::PairedTest& test = one.test;
  return {
      {"problems", "", set.problems},
      {"after", "", CheckpointName(set.checkpoint)},
      {"method", "", one.method},
      {"label",
       (one.is_variant ? "variant, minus " : "method, minus ") +
           set.reference_label,
       one.label},
      {"group", "", one.is_variant ? "variant" : "rival"},
      {"reference", "", set.reference},
      {"unit", "", set.over_problems ? "problem" : "repeat"},
      {"pairs", "", test.pairs},
      {"difference", "difference (points)", Interval(one.difference, 1, 100.0),
       "of the share of the optimum, mean, with its bootstrap 95% interval"},
      {"wins", "", test.wins},
      {"losses", "", test.losses},
      {"ties", "", test.ties},
      {"wilcoxon_p", "", test.wilcoxon_p},
      {"holm_p", "p (Holm)", PValue(one.holm_p),
       "Wilcoxon signed-rank test, adjusted within the table"},
      {"sign_p", "", test.sign_p},
      {"rank_biserial", "rank-biserial", Fixed(test.rank_biserial, 2),
       "of the pairs, -1 to 1"},
      {"superiority", "superiority", Fixed(test.superiority, 2),
       "probability to be better, ties as a half"},
      {"", "wins/losses/ties",
       Figures(fmt::format("{}/{}/{}", test.wins, test.losses, test.ties))},
      {"smallest_holm_p", "", set.SmallestHolmP(one.is_variant)}};
}

}  // namespace

std::string ToCsv(const std::vector<ComparisonSet>& sets) {
  Table table{.columns = RowOf(ComparisonSet{}, Comparison{})};
  for (const ComparisonSet& set : sets) {
    for (const Comparison& one : set.methods) {
      table.Add(RowOf(set, one));
    }
  }
  return ToCsv(table);
}

Table ComparisonTable(const ComparisonSet& set, bool variants) {
  Table table;
  for (const Comparison& one : set.methods) {
    if (one.is_variant == variants) {
      table.Add(RowOf(set, one));
    }
  }
  return table;
}

std::string Describe(const ComparisonSet& set) {
  int fewest = set.methods.front().test.pairs;
  int most = fewest;
  for (const Comparison& one : set.methods) {
    fewest = std::min(fewest, one.test.pairs);
    most = std::max(most, one.test.pairs);
  }
  std::string text =
      fmt::format("Share of the optimum at the end, paired by {}; {}{} {}.",
                  set.over_problems
                      ? "problem and repeat, tested over problems (means over "
                        "repeats)"
                      : "repeat, tested over repeats of one problem",
                  fewest == most ? "" : fmt::format("{} to ", fewest), most,
                  set.over_problems ? "problems" : "repeats");
  std::vector<std::string> smallest;
  for (const bool variants : {false, true}) {
    const double p = set.SmallestHolmP(variants);
    const bool any = std::ranges::any_of(set.methods, [&](const auto& one) {
      return one.is_variant == variants;
    });
    if (any && p >= kLevel) {
      smallest.push_back(fmt::format("{:.2g} among the {}", p,
                                     variants ? "variants" : "methods"));
    }
  }
  if (!smallest.empty()) {
    text += fmt::format(
        " These are too few for p < {}: the smallest possible p is {}.", kLevel,
        fmt::join(smallest, " and "));
  }
  return text;
}

}  // namespace plots
