// Paired comparisons of methods with a reference method, and the summary of an
// experiment with them.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/statistics.h"
#include "plots/summary.h"
#include "plots/table.h"

namespace plots {

// One method against the reference, in shares of the optimum: method minus
// reference, so that a negative difference means that the reference is better.
//
// Runs are paired by problem and repeat: within a repeat, all methods have the
// same seeds and measure the same step times. Only pairs of finished runs
// count. With several problems, the unit is a problem, and its difference is
// the mean over its repeats, because repeats within a problem are not
// independent problems. With one problem, the unit is a repeat. The interval is
// the bootstrap of the mean difference over units, the tests are those of
// common::TestPairs over units.
struct Comparison {
  std::string method;
  std::string label;
  // Whether the method is an ablation or a variant of one, as opposed to a
  // rival: it is of a family, and not what the family is named after.
  bool is_variant = false;
  common::Estimate difference;
  common::PairedTest test;
  double holm_p = trials::kUnknown;  // Wilcoxon's, see ComparisonTable
};

// All comparisons at one checkpoint over one set of problems. Holm's correction
// covers the rivals and the variants of a set separately, because they answer
// two questions.
struct ComparisonSet {
  std::string problems;  // MeanSummary::name, or the name of the only problem
  std::size_t checkpoint = kEnd;
  std::string reference;            // name
  std::string reference_label;      // label
  bool over_problems = false;       // the unit
  std::vector<Comparison> methods;  // in the order of the manifest

  // The smallest p after Holm's correction that the number of units allows,
  // over rivals or variants; 1 if there are none.
  [[nodiscard]] double SmallestHolmP(bool variants) const;
};

// Shares, or differences of them, that differ by rounding only are equal.
[[nodiscard]] double Quantized(double share);

// The first share minus the second, quantized, in each repeat that both have
// finished and where both shares are known.
[[nodiscard]] std::vector<double> PairedDifferences(
    const std::vector<RunShare>& runs, const std::vector<RunShare>& others,
    std::size_t checkpoint);

// At each checkpoint and over each set of problems. Empty where the optimum is
// not known, or with one method only.
[[nodiscard]] std::vector<ComparisonSet> Compare(const Summary& summary,
                                                 const std::string& reference);

// comparison.csv; columns in docs/figures.md.
[[nodiscard]] std::string ToCsv(const std::vector<ComparisonSet>& sets);

// The rivals or the variants of one set.
[[nodiscard]] Table ComparisonTable(const ComparisonSet& set, bool variants);

// Unit, number and reachable p of a set, in a sentence or two.
[[nodiscard]] std::string Describe(const ComparisonSet& set);

// The summary for readers: rounded, with the comparisons at the end of the
// budget, the optimum and the best configuration found. On a terminal, with an
// axis over problems, only the means and the ratio per problem.
enum class Form { kTerminal, kMarkdown };
[[nodiscard]] std::string ToText(const Summary& summary,
                                 const std::vector<ComparisonSet>& comparisons,
                                 const trials::ExperimentInfo& info, Form form);

}  // namespace plots
