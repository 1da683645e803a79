// How far the surrogates can be believed: fitted to few trials, compared with
// what the other configurations then measure.
//
//   calibration_study OUT.csv REPEATS MANIFEST...
//
// For every problem of the manifests, n = 4, 8, 10, 20, 40 random trials that
// ran (with those that failed on the way) and every surrogate: a row of
//
//   nlpd       median over held-out configurations of -log p(measured), in
//              units of the problem's spread
//   coverage   share of them within the 95% interval
//   rank       Spearman's correlation of prediction and measurement
//   precision, recall   of "runs out of memory", predicted mean over capacity
//   pick       throughput of the held-out configuration with the highest cUCB
//              over the best of all
//
// and, on standard output, their means over problems and repeats.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <Eigen/Core>
#include <fmt/format.h>

#include "harness/manifest.h"
#include "harness/registry.h"
#include "methods/acquisition.h"
#include "methods/history.h"
#include "methods/surrogate_pair.h"
#include "surrogates/boosted_trees/boosted_trees.h"
#include "surrogates/cost/cost_model.h"
#include "surrogates/gp/starting_points.h"
#include "trials/text.h"

namespace {

using surrogates::Prediction;

constexpr double kOutOfMemoryValue = 1.1;
constexpr double kMemoryScale = 0.025;
constexpr std::size_t kScores = 6;
constexpr std::array<const char*, kScores> kNames = {
    "nlpd", "coverage", "rank", "precision", "recall", "pick"};
using Scores = std::array<double, kScores>;  // NaN: not defined

struct Models {
  Prediction throughput;
  Prediction memory;
};

struct Study {
  std::string name;
  std::function<Models(
      const methods::Problem&, const methods::History&, std::uint64_t seed)>
      fit;
};

Models FitPair(const methods::Problem& problem,
               const methods::History& history,
               const surrogates::GaussianProcess::Options& fit,
               const surrogates::CostModelForm* form) {
  const surrogates::ClusterShape shape{problem.gpus, problem.gpus_per_node};
  methods::SurrogatePair::Options options;
  options.fit = fit;
  if (fit.as_printed) {
    options.inert_knobs = surrogates::InertKnobs::kDefault;
  }
  methods::SurrogatePair pair(
      problem,
      form == nullptr
          ? surrogates::ConstantPrior(*problem.space)
          : surrogates::ThroughputPrior(*problem.space, shape, *form),
      form == nullptr ? surrogates::ConstantPrior(*problem.space)
                      : surrogates::MemoryPrior(
                            *problem.space, shape, *form, kOutOfMemoryValue),
      options);
  (void)pair.Fit(history);
  Models models;
  pair.Predict(models.throughput, models.memory);
  return models;
}

std::vector<Study> Studies() {
  using surrogates::CostModelForm;
  static constexpr CostModelForm kPrinted = CostModelForm::kPrinted;
  static constexpr CostModelForm kPhysical = CostModelForm::kPhysical;
  const auto pair = [](surrogates::GaussianProcess::Options options,
                       const CostModelForm* form) {
    return [options, form](const methods::Problem& problem,
                           const methods::History& history,
                           std::uint64_t seed) {
      auto seeded = options;
      seeded.seed = seed;
      return FitPair(problem, history, seeded, form);
    };
  };
  return {
      {"ours", pair({}, &kPhysical)},
      {"ours, no misfit", pair({.learn_misfit = false}, &kPhysical)},
      {"as printed", pair({.as_printed = true}, &kPrinted)},
      {"no prior mean (vanilla BO)", pair({}, nullptr)},
      {"prior mean alone", pair({.mean_only = true}, &kPhysical)},
      {"xgboost",
       [](const methods::Problem& problem,
          const methods::History& history,
          std::uint64_t /*seed*/) {
         surrogates::BoostedTrees trees(*problem.space, {});
         trees.Fit(history.ScoreObservations());
         Models models;
         trees.Predict(models.throughput);
         return models;
       }},
  };
}

std::vector<double> Ranks(const Eigen::VectorXd& values) {
  std::vector<int> order(static_cast<std::size_t>(values.size()));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return values[a] < values[b];
  });
  std::vector<double> ranks(order.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) {
      ++end;
    }
    for (std::size_t j = i; j < end; ++j) {  // equals share their mean rank
      ranks[static_cast<std::size_t>(order[j])] =
          0.5 * static_cast<double>(i + end - 1);
    }
    i = end;
  }
  return ranks;
}

double RankCorrelation(const Eigen::VectorXd& a, const Eigen::VectorXd& b) {
  const std::vector<double> ranks_a = Ranks(a);
  const std::vector<double> ranks_b = Ranks(b);
  const auto centred = [](const std::vector<double>& ranks) -> Eigen::VectorXd {
    const Eigen::Map<const Eigen::VectorXd> map(
        ranks.data(), static_cast<Eigen::Index>(ranks.size()));
    return map.array() - map.mean();
  };
  const Eigen::VectorXd x = centred(ranks_a);
  const Eigen::VectorXd y = centred(ranks_b);
  return x.dot(y) / (x.norm() * y.norm());
}

double Median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Every configuration run once, in the problem's own order.
std::vector<trials::Measurement> MeasureAll(const harness::Backend& backend,
                                            int q_max,
                                            std::uint64_t seed) {
  std::vector<trials::Measurement> all;
  for (int i = 0; i < backend.space->size(); ++i) {
    trials::TrialRequest request;
    request.config = (*backend.space)[i];
    request.max_steps = q_max;
    request.seed =
        trials::DeriveSeed(std::to_string(seed), static_cast<std::uint64_t>(i));
    all.push_back(backend.runner->Run(request));
  }
  return all;
}

Scores Score(const Models& models,
             const methods::History& all,
             const std::vector<char>& seen) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const surrogates::Observations measured = all.ThroughputObservations();
  const double spread = surrogates::TargetSpread(measured.value);
  std::vector<double> densities;
  std::vector<double> predicted;
  std::vector<double> actual;
  double covered = 0.0;
  const bool certain = models.throughput.variance.maxCoeff() <= 0.0;
  for (int i = 0; i < measured.size(); ++i) {
    const int at = measured.candidate[static_cast<std::size_t>(i)];
    if (seen[static_cast<std::size_t>(at)] != 0) {
      continue;
    }
    const double variance =
        models.throughput.variance[at] + measured.noise_variance[i];
    const double error = measured.value[i] - models.throughput.mean[at];
    const double z2 = error * error / variance;
    densities.push_back(
        0.5 * z2 + 0.5 * std::log(2.0 * M_PI * variance / (spread * spread)));
    covered += z2 <= 1.959964 * 1.959964 ? 1.0 : 0.0;
    predicted.push_back(models.throughput.mean[at]);
    actual.push_back(measured.value[i]);
  }
  Scores scores;
  scores.fill(kNan);
  const auto held_out = static_cast<Eigen::Index>(actual.size());
  if (!certain) {
    scores[0] = Median(densities);
    scores[1] = covered / static_cast<double>(held_out);
  }
  scores[2] = RankCorrelation(
      Eigen::Map<const Eigen::VectorXd>(predicted.data(), held_out),
      Eigen::Map<const Eigen::VectorXd>(actual.data(), held_out));
  const bool knows_memory = models.memory.mean.size() > 0;
  if (knows_memory) {
    double right = 0.0;
    double called = 0.0;
    double failed = 0.0;
    for (const methods::History::Entry& entry : all.entries()) {
      if (seen[static_cast<std::size_t>(entry.candidate)] != 0) {
        continue;
      }
      const bool fails = entry.outcome == trials::Outcome::kOutOfMemory;
      const bool call = models.memory.mean[entry.candidate] > 1.0;
      failed += fails ? 1.0 : 0.0;
      called += call ? 1.0 : 0.0;
      right += fails && call ? 1.0 : 0.0;
    }
    scores[3] = right / called;  // NaN where nothing was called
    scores[4] = right / failed;
  }
  Prediction excess{Eigen::VectorXd::Constant(seen.size(), -1e3),
                    Eigen::VectorXd::Zero(seen.size())};
  if (knows_memory) {
    excess = methods::MemoryExcess(models.memory, 1.0, kMemoryScale);
  }
  const int pick =
      methods::ArgMaxConstrainedUcb(models.throughput, excess, 1.0, seen);
  scores[5] = 0.0;
  for (int i = 0; i < measured.size(); ++i) {
    if (measured.candidate[static_cast<std::size_t>(i)] == pick) {
      scores[5] = measured.value[i] / measured.value.maxCoeff();
    }
  }
  return scores;
}

struct Sum {
  Scores total{};
  std::array<int, kScores> count{};
};

class Table {
 public:
  explicit Table(const std::string& path) : file_(path) {
    file_ << "problem,repeat,trials,surrogate";
    for (const char* name : kNames) {
      file_ << ',' << name;
    }
    file_ << '\n';
  }

  void Add(const std::string& problem,
           int repeat,
           int trials,
           const std::string& surrogate,
           const Scores& scores) {
    file_ << fmt::format("{},{},{},\"{}\"", problem, repeat, trials, surrogate);
    Sum& sum = sums_[{surrogate, trials}];
    for (std::size_t k = 0; k < kScores; ++k) {
      file_ << ','
            << (std::isnan(scores[k]) ? "" : fmt::format("{}", scores[k]));
      if (!std::isnan(scores[k])) {
        sum.total[k] += scores[k];
        ++sum.count[k];
      }
    }
    file_ << std::endl;
  }

  void Print() const {
    std::cout << "| surrogate | n |";
    for (const char* name : kNames) {
      std::cout << ' ' << name << " |";
    }
    std::cout << "\n| --- | --- | --- | --- | --- | --- | --- | --- |\n";
    for (const auto& [key, sum] : sums_) {
      std::cout << fmt::format("| {} | {} |", key.first, key.second);
      for (std::size_t k = 0; k < kScores; ++k) {
        std::cout << (sum.count[k] == 0
                          ? " - |"
                          : fmt::format(" {:.2f} |",
                                        sum.total[k] / sum.count[k]));
      }
      std::cout << '\n';
    }
  }

 private:
  std::ofstream file_;
  std::map<std::pair<std::string, int>, Sum> sums_;
};

void StudyProblem(const harness::Manifest& manifest,
                  const harness::ProblemSpec& spec,
                  int repeats,
                  Table& table) {
  constexpr int kHeldOut = 8;  // fewer tell nothing
  const harness::Backend backend = harness::MakeBackend(spec);
  const methods::Problem problem =
      harness::ProblemOf(backend, manifest.budget.q_max);
  const std::string name = manifest.name + "/" + spec.name;
  for (int repeat = 1; repeat <= repeats; ++repeat) {
    const std::vector<trials::Measurement> measured =
        MeasureAll(backend, problem.q_max, manifest.TrialSeed(spec, repeat));
    methods::History all(problem.space->size());
    std::vector<int> order(measured.size());
    for (std::size_t i = 0; i < measured.size(); ++i) {
      all.Add(static_cast<int>(i), measured[i], {});
      order[i] = static_cast<int>(i);
    }
    std::mt19937_64 engine(manifest.MethodSeed(spec, repeat));
    for (std::size_t i = order.size(); i > 1; --i) {  // std::shuffle, portable
      std::swap(order[i - 1], order[engine() % i]);
    }
    const int running = all.ThroughputObservations().size();
    methods::History history(problem.space->size());
    std::size_t next = 0;
    int ran = 0;
    for (const int n : {4, 8, 10, 20, 40}) {
      if (running < n + kHeldOut) {
        break;
      }
      while (ran < n) {
        const int candidate = order[next++];
        history.Add(
            candidate, measured[static_cast<std::size_t>(candidate)], {});
        ran = history.ThroughputObservations().size();
      }
      for (const Study& study : Studies()) {
        const Models models =
            study.fit(problem, history, manifest.MethodSeed(spec, repeat));
        table.Add(
            name, repeat, n, study.name, Score(models, all, history.tried()));
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: calibration_study OUT.csv REPEATS MANIFEST...\n";
    return 2;
  }
  try {
    Table table(argv[1]);
    for (int i = 3; i < argc; ++i) {
      const harness::Manifest manifest = harness::ReadManifest(argv[i]);
      for (const harness::ProblemSpec& spec : manifest.problems) {
        std::cerr << manifest.name << ' ' << spec.name << '\n';
        StudyProblem(manifest, spec, std::atoi(argv[2]), table);
      }
    }
    table.Print();
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
  return 0;
}
