#include "methods/remaining.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

#include <Eigen/Cholesky>

#include "common/ranges.h"
#include "common/statistics.h"

namespace methods {
namespace {

using common::NormalDensity;
using common::NormalProbability;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::MatrixXf;
using Eigen::VectorXd;

// sigmoid(logit(p) / kTemper).
constexpr double kTemper = 2.0;

constexpr double kLeastChance = 1e-4;  // of a candidate that is sampled

// E[(Z - u)^+] of a standard normal Z.
double NormalExcess(double u) {
  return std::max(NormalDensity(u) - u * NormalProbability(-u), 0.0);
}

// Standard normal numbers, the same in every run.
MatrixXf Normals(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  return MatrixXf::NullaryExpr(kJoint, kSamples,
                               [&] { return normal(engine); });
}

// L with L L^T = covariance, as far as rounding allows.
MatrixXd Factor(MatrixXd covariance) {
  double jitter = 1e-10 * covariance.diagonal().maxCoeff();
  for (int attempt = 0; attempt < 7; ++attempt) {
    const Eigen::LLT<MatrixXd> llt(covariance);
    if (llt.info() == Eigen::Success) {
      return llt.matrixL();
    }
    covariance.diagonal().array() += jitter;
    jitter *= 10.0;
  }
  return covariance.diagonal().cwiseMax(0.0).cwiseSqrt().asDiagonal();
}

// Samples of a posterior at some candidates, in single precision, which is
// enough for their rounding and twice as fast. Shapes: means [k], the result
// [k, kSamples].
MatrixXf Samples(const surrogates::GaussianProcess& process,
                 const std::vector<int>& candidates, const VectorXd& means,
                 const MatrixXf& normals) {
  const MatrixXf factor =
      Factor(process.JointCovariance(candidates)).cast<float>();
  MatrixXf samples =
      factor.triangularView<Eigen::Lower>() * normals.topRows(means.size());
  samples.colwise() += means.cast<float>();
  if (process.logarithmic()) {
    samples = samples.array().exp();
  }
  return samples;
}

struct Ranked {
  double rank = 0.0;  // the lowest first
  int candidate = -1;

  friend bool operator<(const Ranked& a, const Ranked& b) {
    return std::tie(a.rank, a.candidate) < std::tie(b.rank, b.candidate);
  }
};

// Sorts the `count` first and drops the others.
std::vector<int> Take(std::vector<Ranked>& ranked, int count) {
  const auto end =
      ranked.begin() + std::min<std::ptrdiff_t>(count, std::ssize(ranked));
  std::partial_sort(ranked.begin(), end, ranked.end());
  ranked.erase(end, ranked.end());
  return common::Map(ranked, &Ranked::candidate);
}

using Trials = std::vector<trials::Trial>;

// The best completed trial; nullptr if there is none.
const trials::Trial* IncumbentOf(const History& history, const Trials& trials) {
  const trials::Trial* incumbent = nullptr;
  for (const trials::Trial& trial : trials) {
    if (trial.measurement.outcome == trials::Outcome::kCompleted &&
        trial.HasThroughput() &&
        (incumbent == nullptr ||
         history.ValueOf(trial).value > history.ValueOf(*incumbent).value)) {
      incumbent = &trial;
    }
  }
  return incumbent;
}

// Samples of the incumbent's value and of the highest one of all trials.
// Shapes: [kSamples].
struct Tried {
  VectorXd incumbent;
  VectorXd highest;
};

Tried SampleTried(const History& history, const trials::Trial& incumbent) {
  static const MatrixXf normals = Normals(3);
  Tried tried;
  tried.highest.setConstant(kSamples, 0.0);
  Index row = 0;
  for (const Trials* trials : {&history.trials(), &history.plans()}) {
    for (const trials::Trial& trial : *trials) {
      if (!trial.HasThroughput()) {
        continue;
      }
      // Trials beyond kJoint repeat the numbers of earlier ones.
      const VectorXd samples =
          history.ValueOf(trial).value +
          std::sqrt(history.VarianceOfRun(trial)) *
              normals.row(row++ % kJoint).transpose().array().cast<double>();
      tried.highest = tried.highest.cwiseMax(samples);
      if (&trial == &incumbent) {
        tried.incumbent = samples;
      }
    }
  }
  return tried;
}

double Tempered(int within) {
  const double odds = (within + 0.5) / (kSamples - within + 0.5);
  return 1.0 / (1.0 + std::pow(odds, -1.0 / kTemper));
}

}  // namespace

double HighestProbability() { return Tempered(kSamples); }

std::optional<trials::Remaining> EstimateRemaining(
    const History& history, const surrogates::Prediction& modelled,
    const surrogates::GaussianProcess& throughput,
    const surrogates::GaussianProcess& memory, double doubt) {
  surrogates::Prediction prediction =
      throughput.logarithmic() ? modelled.Exponential() : modelled;
  prediction.variance *= doubt;
  const double capacity = memory.logarithmic() ? 0.0 : 1.0;
  const auto predict_memory = [&](const std::vector<int>& candidates,
                                  surrogates::Prediction& used) {
    used.Resize(std::ssize(candidates));
    memory.PredictSome(candidates, used.Head(used.size()));
  };
  const trials::Trial* incumbent = IncumbentOf(history, history.trials());
  if (incumbent == nullptr) {
    return std::nullopt;
  }
  if (const trials::Trial* plan = IncumbentOf(history, history.plans());
      plan != nullptr &&
      history.ValueOf(*plan).value > history.ValueOf(*incumbent).value) {
    incumbent = plan;
  }
  const double best = history.ValueOf(*incumbent).value;
  const double noise = history.VarianceOfRun(*incumbent);
  const auto spread = [&](int candidate) {
    return std::sqrt(prediction.variance[candidate] + noise);
  };

  // The candidates that are likely to be faster.
  std::vector<char> tried = history.tried();
  for (const int running : history.running()) {
    tried[running] = 0;  // its gain is still to come
  }
  std::vector<Ranked> ranked;
  for (int i = 0; i < static_cast<int>(prediction.size()); ++i) {
    if (tried[i] == 0) {
      const double u = (best - prediction.mean[i]) / spread(i);
      if (!std::isnan(u)) {
        ranked.push_back({u, i});
      }
    }
  }
  if (std::ssize(ranked) > kScreened) {
    std::nth_element(ranked.begin(), ranked.begin() + kScreened, ranked.end());
    ranked.resize(kScreened);
  }
  std::vector<int> candidates = Take(ranked, kScreened);

  // The gain of each of these, and those that are likely to be better.
  trials::Remaining remaining;
  surrogates::Prediction used;
  predict_memory(candidates, used);
  for (Index i = 0; i < used.size(); ++i) {
    Ranked& one = ranked[i];
    const double fits = NormalProbability((capacity - used.mean[i]) /
                                          std::sqrt(used.variance[i]));
    const double gain =
        fits * spread(one.candidate) * NormalExcess(one.rank) / best;
    if (gain > remaining.expected_gain || remaining.candidate < 0) {
      remaining.expected_gain = gain;
      remaining.candidate = one.candidate;
    }
    one.rank = -fits * NormalProbability(-one.rank);
  }
  std::erase_if(ranked,
                [](const Ranked& one) { return one.rank > -kLeastChance; });
  candidates = Take(ranked, kJoint);

  // Joint samples.
  auto [incumbents, highest] = SampleTried(history, *incumbent);
  const VectorXd found = highest;
  if (!candidates.empty()) {
    static const MatrixXf throughput_normals = Normals(1);
    static const MatrixXf memory_normals = Normals(2);
    predict_memory(candidates, used);
    const MatrixXf speeds =
        Samples(throughput, candidates, modelled.mean(candidates),
                std::sqrt(static_cast<float>(doubt)) * throughput_normals);
    const MatrixXf sizes =
        Samples(memory, candidates, used.mean, memory_normals);
    highest = highest.cwiseMax((sizes.array() <= 1.0F)
                                   .select(speeds.array(), 0.0F)
                                   .colwise()
                                   .maxCoeff()
                                   .transpose()
                                   .matrix()
                                   .cast<double>());
  }
  // Structured bindings cannot be captured by every compiler.
  const auto within = [&highest = highest](const VectorXd& value, double x) {
    return Tempered(static_cast<int>(
        (value.array() >= (1.0 - x) * highest.array()).count()));
  };
  remaining.p_within_1 = within(incumbents, 0.01);
  remaining.p_within_3 = within(incumbents, 0.03);
  remaining.p_within_5 = within(incumbents, 0.05);
  remaining.p_found_5 = within(found, 0.05);
  return remaining;
}

}  // namespace methods
