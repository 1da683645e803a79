// A sensitivity study: experiments under variations of constants, and where
// claims hold.

#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/ranges.h"
#include "common/statistics.h"
#include "harness/spec.h"
#include "studies/output.h"

namespace plots {
struct ExperimentRecords;
}

namespace studies {

// The claim that one method finds better configurations than another.
struct Claim {
  std::string text;
  std::string better;  // names of methods
  std::string worse;
};

// A constant with its value in a drawn cluster.
using DrawnConstant = std::pair<std::string, double>;

// Values of constants that differ from those of the experiment.
struct Variation {
  std::string name = "default";       // folder: "failure-5-batch"
  std::string constant;               // "failure"; empty: the default
  std::string value;                  // "5, batch"
  std::vector<std::string> settings;  // see harness::ManifestOverrides
  std::vector<DrawnConstant> draws;   // of a drawn cluster

  friend bool operator==(const Variation&, const Variation&) = default;
};

// One experiment under one variation: an experiment of its own, with records in
// results/<study>/<experiment>/<variation>.
struct VariedExperiment {
  std::string experiment;  // name: "qwen-8gpu"
  Variation variation;
  std::filesystem::path manifest;
  std::filesystem::path results;  // the folder above its records
  // Repeats, settings and the methods to run; there may be none.
  harness::ManifestOverrides overrides;
  // For every method of the claims, the folder of the experiment that has its
  // runs: this one, or an earlier one whose runs have the same RunHash.
  std::map<std::string, std::filesystem::path> records;

  [[nodiscard]] std::filesystem::path Folder() const {
    return results / variation.name;
  }
  // Those of methods. Equal ones mean that the variation changes none of them.
  [[nodiscard]] std::vector<std::filesystem::path> RecordsOf(
      const std::vector<std::string>& methods) const {
    return common::Map(methods, [this](const std::string& method) {
      return records.at(method);
    });
  }
};

struct SensitivityStudy {
  std::string title;
  std::filesystem::path folder;  // results/<study>
  int repeats = 1;
  std::vector<Claim> claims;
  std::filesystem::path ledger;       // claims.csv, in their place; "": none
  std::vector<Variation> variations;  // the default first
  // By variation, so that a part of a study has all problems.
  std::vector<VariedExperiment> experiments;
};

// Reads the manifest of a study (format: docs/studies.md) and checks every
// experiment under every variation.
// Errors: throws InputError with the place of the variation.
[[nodiscard]] SensitivityStudy ReadSensitivityStudy(
    const std::filesystem::path& manifest, const std::filesystem::path& results,
    std::optional<int> repeats = {});

// The interval of the effect is above 0, contains 0, or is below 0.
enum class Verdict { kHolds, kOpen, kTurns };
[[nodiscard]] std::string_view ToString(Verdict verdict);

// The mean difference of pairs, with the same weight for every problem, and its
// bootstrap interval (common::Bootstrap). With fewer than kFewestPairs, the
// verdict is open: with 5 pairs, a sign test cannot reject at 5% even if all
// differences have the same sign.
struct Effect {
  static constexpr int kFewestPairs = 6;

  int pairs = 0;
  common::Estimate mean;

  [[nodiscard]] Verdict verdict() const;
};
[[nodiscard]] Effect EffectOf(
    const std::vector<std::vector<double>>& differences);

// A claim in one experiment under one variation: the effect in points (percent
// of the exhaustive optimum) of the noise-free throughput of the incumbent at
// the end of the budget. A pair is a repeat of a problem, in which the methods
// have the same seeds.
struct ClaimEffect {
  int claim = 0;  // of SensitivityStudy::claims
  const VariedExperiment* varied = nullptr;
  Effect points;
};

// Reads the records. Left out are combinations without a finished pair and
// variations that change neither method, whose runs are those of another case.
[[nodiscard]] std::vector<ClaimEffect> ClaimEffects(
    const SensitivityStudy& study);

// sensitivity.csv (a row per effect), sensitivity.md (a row per claim), and a
// figure for each claim.
[[nodiscard]] Output SensitivityOutput(const SensitivityStudy& study,
                                       const std::vector<ClaimEffect>& effects);

// A share of n with its 95% interval; NaN of none.
//
//   (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)
//
// Source: Wilson (1927).
[[nodiscard]] common::Estimate WilsonShare(int holds, int n);

// A claim of the ledger for a method, judged by records of one experiment.
struct JudgedClaim {
  std::string id;
  std::string method;
  std::vector<std::string> compared;  // the method and its rivals
  std::string rival;                  // of the worst verdict; "": none
  Effect x;
  double favor = 0.0;  // x, or -x where the criterion asks for small values
  Verdict verdict = Verdict::kOpen;  // kTurns: does not hold
};
// The claims whose evidence is the experiment. `records` returns those that
// have the runs of a method.
[[nodiscard]] std::vector<JudgedClaim> JudgeExperiment(
    const std::filesystem::path& ledger, const std::string& experiment,
    const std::function<const plots::ExperimentRecords&(const std::string&)>&
        records);

// The methods that these claims compare.
[[nodiscard]] std::vector<std::string> MethodsOfClaims(
    const std::filesystem::path& ledger, const std::string& experiment);

// The claims of study.ledger whose evidence is one of its experiments, judged
// under every variation as JudgeClaims does by default: landscape-cases.csv (a
// row per case), landscapes.{csv,md} (a row per claim and method: the share of
// drawn clusters on which it holds, with its 95% interval, and the constants
// with which x correlates) and a figure of the shares.
[[nodiscard]] std::vector<Output> LandscapeOutput(
    const SensitivityStudy& study);

}  // namespace studies
