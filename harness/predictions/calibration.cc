#include "harness/predictions/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include <Eigen/LU>
#include <fmt/format.h>

#include "common/fields.h"
#include "common/quantiles.h"
#include "common/ranges.h"
#include "common/statistics.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "surrogates/gp/gaussian_process.h"
#include "surrogates/gp/measurement.h"
#include "trials/simulator/error_band.h"

namespace harness {
namespace {

using common::ExactText;
using surrogates::ConstantMean;
using surrogates::EncodedSpace;
using surrogates::GaussianProcess;
using surrogates::MeasurementPrediction;
using surrogates::Observations;
using trials::ParallelConfig;

// The names of StepPart.
constexpr std::array<const char*, kStepParts> kPartNames = {
    "computation", "launches", "in_hosts", "network", "messages"};

constexpr int kUnknowns = 1 + kStepParts;  // u
using Unknowns = Eigen::Vector<double, kUnknowns>;
using Precision = Eigen::Matrix<double, kUnknowns, kUnknowns>;

constexpr double kFreedom = MeasurementPrediction::kDegreesOfFreedom;  // of e
constexpr double kStudent95 = 2.1318468;  // the quantile of that t
constexpr double kCauchy = 1.0;           // degrees of freedom of Cauchy's t
constexpr double kCauchy95 = 6.3137515;
constexpr double kFactorShare = 0.1;  // of s_0
constexpr double kScatterRows = 2.0;  // the weight of s_0
// The standard deviation of log(measured / predicted) peaks, after m. An
// assumption.
constexpr double kPeakScatter = 0.05;

// The weight of a residual of a t in the reweighted least squares.
double RobustWeight(double residual, double scale, double freedom) {
  return (freedom + 1.0) / (freedom * scale * scale + residual * residual);
}

double LogStudent(double residual, double scale, double freedom) {
  const double z = residual / scale;
  return -0.5 * (freedom + 1.0) * std::log1p(z * z / freedom) - std::log(scale);
}

StepParts FactorsOf(const Unknowns& u) {
  return (u.tail<kStepParts>().array() + u[0]).exp();
}

double ResidualOf(const CalibrationRow& row, const StepParts& factors) {
  return std::log(row.step_time_s / factors.dot(row.parts_s));
}

struct FactorFit {
  Unknowns u = Unknowns::Zero();
  double scatter = 0.0;  // s
  Precision covariance = Precision::Identity();
  double log_posterior = 0.0;
};

// One reweighted step from `fit`, whose log_posterior it sets.
void Improve(const std::vector<CalibrationRow>& rows,
             const CalibrationPrior& prior, FactorFit& fit) {
  const double prior_scatter = prior.scatter;
  const StepParts factors = FactorsOf(fit.u);
  Precision precision = Precision::Zero();
  Unknowns gradient;
  const double ratio = prior_scatter / fit.scatter;
  fit.log_posterior = kScatterRows * (std::log(ratio) - 0.5 * ratio * ratio);
  for (int i = 0; i < kUnknowns; ++i) {
    const double scale =
        std::hypot(kFactorShare * prior_scatter, i == 0 ? prior.guess : 0.0);
    precision(i, i) = RobustWeight(fit.u[i], scale, kCauchy);
    gradient[i] = -precision(i, i) * fit.u[i];
    fit.log_posterior += LogStudent(fit.u[i], scale, kCauchy);
  }
  double squares = kScatterRows * prior_scatter * prior_scatter;
  for (const CalibrationRow& row : rows) {
    Unknowns slopes;  // d log(f^T P) / du
    slopes << 1.0, factors.cwiseProduct(row.parts_s) / factors.dot(row.parts_s);
    const double residual = ResidualOf(row, factors);
    const double weight = RobustWeight(residual, fit.scatter, kFreedom);
    precision += weight * slopes * slopes.transpose();
    gradient += weight * residual * slopes;
    squares += weight * fit.scatter * fit.scatter * residual * residual;
    fit.log_posterior += LogStudent(residual, fit.scatter, kFreedom);
  }
  fit.covariance = precision.inverse();
  const Unknowns step = fit.covariance * gradient;
  fit.u += step.cwiseMax(-1.0).cwiseMin(1.0);
  fit.scatter =
      std::sqrt(squares / (kScatterRows + static_cast<double>(rows.size())));
}

FactorFit FitFrom(double start, const std::vector<CalibrationRow>& rows,
                  const CalibrationPrior& prior) {
  constexpr int kIterations = 60;
  FactorFit fit{.scatter = prior.scatter};
  fit.u[0] = start;
  for (int i = 0; i < kIterations; ++i) {
    Improve(rows, prior, fit);
  }
  return fit;
}

// `rows`: those with a step time.
void FitTimes(const std::vector<CalibrationRow>& rows,
              const CalibrationPrior& prior, Calibration& calibration) {
  if (rows.empty()) {
    return;
  }
  const auto ratios = common::Map(rows, [](const CalibrationRow& row) {
    return ResidualOf(row, StepParts::Ones());
  });
  FactorFit fit = FitFrom(0.0, rows, prior);
  const FactorFit moved = FitFrom(common::Median(ratios), rows, prior);
  if (moved.log_posterior > fit.log_posterior) {
    fit = moved;
  }
  calibration.step_times = static_cast<int>(rows.size());
  calibration.factors = FactorsOf(fit.u);
  Eigen::Matrix<double, kStepParts, kUnknowns> of_u;
  of_u << StepParts::Ones(), Calibration::Covariance::Identity();
  calibration.covariance = of_u * fit.covariance * of_u.transpose();
  calibration.noise = fit.scatter;
  for (const CalibrationRow& row : rows) {
    const double residual = ResidualOf(row, calibration.factors);
    calibration.residuals.push_back(
        {row.config, residual,
         1.0 / RobustWeight(residual, fit.scatter, kFreedom)});
  }
}

void FitMemory(const std::vector<CalibrationRow>& rows, double stddev,
               Calibration& calibration) {
  constexpr int kPoints = 401;
  constexpr double kReach = 4.0;         // deviations
  constexpr double kFailsAnyway = 1e-6;  // a row for another reason
  bool informed = false;
  const Eigen::ArrayXd m =
      Eigen::ArrayXd::LinSpaced(kPoints, -kReach * stddev, kReach * stddev);
  Eigen::ArrayXd log_density = -0.5 * (m / stddev).square();
  for (const CalibrationRow& row : rows) {
    const bool ran = row.step_time_s > 0.0;
    const bool known = ran && row.peak_memory_bytes > 0.0;
    const double at =
        std::log((known ? row.peak_memory_bytes : row.capacity_bytes) /
                 row.predicted_peak_bytes);
    informed = informed || !ran || known || at < 0.0;
    log_density += (m - at).unaryExpr([&](double margin) {
      return known ? LogStudent(margin, kPeakScatter, kFreedom)
                   : std::log(kFailsAnyway +
                              common::NormalProbability(
                                  (ran ? -margin : margin) / kPeakScatter));
    });
  }
  if (!informed) {
    return;
  }
  const Eigen::ArrayXd density = (log_density - log_density.maxCoeff()).exp();
  const double mean = (density * m).sum() / density.sum();
  const double variance = (density * (m - mean).square()).sum() / density.sum();
  calibration.memory = std::exp(mean);
  calibration.memory_log_stddev =
      std::sqrt(variance + kPeakScatter * kPeakScatter);
}

// The knobs that matter to PointOf.
ParallelConfig KnobsOfPoint(const ParallelConfig& c) {
  return {.dp = c.dp,
          .tp = c.tp,
          .pp = c.pp,
          .zero_stage = c.zero_stage,
          .microbatches = c.microbatches,
          .model_chunks = c.model_chunks,
          .grad_checkpoint = c.grad_checkpoint,
          .ep = c.ep,
          .cp = c.cp};
}

// A configuration as a point: doublings of its sizes, and its states, in a cube
// with sides of about 1.
Eigen::VectorXd PointOf(const ParallelConfig& c) {
  constexpr double kDoublings = 6.0;
  Eigen::ArrayXd sizes(7);
  sizes << c.dp, c.tp, c.pp, c.cp, c.ep, c.microbatches, c.model_chunks;
  Eigen::VectorXd point(sizes.size() + 2);
  point << sizes.log2() / kDoublings, c.zero_stage / 3.0,
      c.grad_checkpoint / 2.0;
  return point;
}

// The points of the predicted, then of the measured configurations.
EncodedSpace SpaceOf(const std::vector<ParallelConfig>& predicted,
                     const std::vector<Calibration::Residual>& measured) {
  EncodedSpace space;
  const auto count = static_cast<Eigen::Index>(predicted.size());
  space.points.resize(PointOf({}).size(),
                      count + static_cast<Eigen::Index>(measured.size()));
  for (Eigen::Index i = 0; i < space.points.cols(); ++i) {
    space.points.col(i) =
        PointOf(i < count ? predicted[i] : measured[i - count].config);
  }
  space.dimensions.resize(space.points.rows());
  return space;
}

// A prior of g: its variance and that of e in units of s^2, and its length in
// PointOf.
struct RestPrior {
  double rest;
  double error;
  double length;
};

std::vector<RestPrior> RestPriors() {
  // What is shared with no other configuration: runs of one differ less than
  // predictions of several. An assumption.
  std::vector<RestPrior> priors = {{0.8, 0.2, 0.01}};
  for (const double variance : {0.25, 1.0, 4.0}) {
    for (const double share : {0.5, 0.95}) {
      for (const double length : {0.3, 1.0, 3.0}) {
        priors.push_back({variance * share, variance * (1.0 - share), length});
      }
    }
  }
  return priors;
}

}  // namespace

StepParts StepPartsOf(const trials::TimeBreakdown& time,
                      const ParallelConfig& config,
                      const trials::Cluster& cluster) {
  const bool outer_crosses = cluster.nodes > 1;
  const bool inner_crosses =
      outer_crosses && config.tp * config.cp > cluster.gpus_per_node;
  const double inner_s = time.tensor_s + time.context_s;
  StepParts parts = StepParts::Zero();
  parts[kComputation] =
      time.forward_s + time.backward_s + time.recompute_s + time.head_s;
  parts[kLaunches] = time.overhead_s;
  parts[inner_crosses ? kNetwork : kInHosts] += inner_s;
  parts[outer_crosses ? kNetwork : kInHosts] += time.expert_s;
  parts[kMessages] = time.pipeline_s;
  parts *= 1.0 + time.bubble_s / parts.sum();
  parts[kComputation] += time.optimizer_s;
  parts[outer_crosses ? kNetwork : kInHosts] += time.data_s;
  return parts;
}

CalibratedJob CalibratedJob::Of(const trials::Workload& workload,
                                const trials::Cluster& cluster,
                                const std::string& framework) {
  const trials::Model& model = workload.model;
  return {
      cluster.gpu.name, framework,
      fmt::format(
          "{} layers, hidden {}, {} heads, ffn {}, vocabulary {}, {} "
          "experts, {} tokens a sequence{}{}",
          model.layers, model.hidden_size, model.attention_heads,
          model.ffn_size, model.vocab_size, model.experts,
          workload.sequence_length,
          // What is usual is left out: so it was in earlier files.
          workload.precision == trials::Precision::kBf16
              ? ""
              : fmt::format(", {}", common::ToString(workload.precision)),
          workload.training.IsUsual() ? ""
                                      : ", " + ToString(workload.training))};
}

CalibrationPrior CalibrationPrior::Of(
    const trials::Framework& framework,
    const std::vector<trials::Guess>& guesses) {
  const trials::ErrorBands bands =
      trials::ReadErrorBands(trials::ErrorBandsPath());
  const trials::ErrorBand band =
      trials::ErrorBands::Of(bands.step_time, framework.kind).second;
  CalibrationPrior prior{
      .guess = common::kNormalQuantile95 / kCauchy95 *
               std::sqrt(trials::VarianceOf(guesses, bands.guess_step_time)),
      .memory_stddev = framework.allocator.memory_log_stddev};
  if (band.rows > 0) {
    prior.scatter = 0.5 * std::log(band.high / band.low) / kCauchy95;
  }
  return prior;
}

Calibration Calibrate(const std::vector<CalibrationRow>& rows,
                      const CalibrationPrior& prior) {
  std::vector<CalibrationRow> timed;
  for (const CalibrationRow& row : rows) {
    if (row.step_time_s > 0.0) {
      timed.push_back(row);
    }
  }
  Calibration calibration;
  FitTimes(timed, prior, calibration);
  calibration.bounds = static_cast<int>(rows.size() - timed.size());
  FitMemory(rows, prior.memory_stddev, calibration);
  return calibration;
}

double Calibration::Slowdown() const {
  const auto rest = common::Map(residuals, &Residual::log_ratio);
  return factors[kComputation] *
         (rest.empty() ? 1.0 : std::exp(common::Median(rest)));
}

void RefuseForeign(double factor, const std::vector<trials::Guess>& guesses,
                   const std::string& source) {
  const auto [low, high] = trials::ErrorBands::Limits(
      trials::Widened(trials::ReadErrorBands(trials::ErrorBandsPath()), guesses)
          .step_time);
  if (factor >= low && factor <= high) {
    return;
  }
  throw common::InputError(fmt::format(
      "{}: its trials take {:.3g} times the predicted computation, and those "
      "of every validated source {:.2g} to {:.2g} times: they are of another "
      "model, other tokens per step, another unit or other GPUs{}; name the "
      "job that was measured, or give --accept-foreign ([predictions] "
      "accept_foreign = true)",
      source, factor, low, high, factor > high ? ", or of a slow job" : ""));
}

CalibratedTimes::CalibratedTimes(const Calibration& calibration,
                                 const std::vector<ParallelConfig>& configs)
    : calibration_(calibration) {
  const auto& residuals = calibration.residuals;
  if (residuals.empty()) {
    return;
  }
  std::ranges::transform(configs, std::back_inserter(configs_), KnobsOfPoint);
  std::ranges::sort(configs_);
  configs_.erase(std::unique(configs_.begin(), configs_.end()), configs_.end());
  const EncodedSpace space = SpaceOf(configs_, residuals);
  const auto count = static_cast<Eigen::Index>(configs_.size());
  const auto n = static_cast<Eigen::Index>(residuals.size());
  // The search's process has a positive mean: that of 1 + g.
  Observations observed{.value = Eigen::VectorXd(n),
                        .noise_variance = Eigen::VectorXd(n)};
  Eigen::VectorXd variance(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    observed.candidate.push_back(static_cast<int>(count + i));
    observed.value[i] = 1.0 + residuals[i].log_ratio;
    variance[i] = residuals[i].variance;
  }
  GaussianProcess process(space, ConstantMean(space.size()),
                          {.as_printed = true});
  const double square = calibration.noise * calibration.noise;
  const auto condition = [&](const RestPrior& prior) {
    observed.noise_variance = prior.error * variance;
    process.Condition(observed,
                      {.log_length_scales = Eigen::VectorXd::Constant(
                           space.points.rows(), std::log(prior.length)),
                       .log_signal_variance = std::log(prior.rest * square),
                       .log_coefficients = Eigen::VectorXd::Zero(1)});
    return process.log_posterior();
  };
  const std::vector<RestPrior> priors = RestPriors();
  Eigen::ArrayXd weights(static_cast<Eigen::Index>(priors.size()));
  std::ranges::transform(priors, weights.begin(), condition);
  // A rest of each configuration alone weighs twice as much as all others.
  constexpr double kAlone = 2.0;
  const auto others = static_cast<double>(priors.size() - 1);
  weights = (weights - weights.maxCoeff()).exp();
  weights.tail(weights.size() - 1) /= kAlone * others;
  weights /= weights.sum();
  rest_.setZero(count);
  Eigen::ArrayXd squares = Eigen::ArrayXd::Zero(count);
  constexpr double kWorthPredicting = 0.01;
  for (std::size_t i = 0; i < priors.size(); ++i) {
    const double weight = weights[static_cast<Eigen::Index>(i)];
    if (weight < kWorthPredicting) {
      continue;
    }
    condition(priors[i]);
    surrogates::Prediction prediction;
    process.Predict(prediction);
    const Eigen::ArrayXd g = prediction.mean.head(count).array() - 1.0;
    rest_.array() += weight * g;
    squares += weight * (g.square() + prediction.variance.head(count).array() +
                         priors[i].error * square);
  }
  variance_ = squares - rest_.array().square();
}

CalibratedTimes::Time CalibratedTimes::Of(const ParallelConfig& config,
                                          const StepParts& parts_s) const {
  const StepParts times_s = calibration_.factors.cwiseProduct(parts_s);
  const StepParts shares = times_s / times_s.sum();
  double rest = 0.0;
  double variance = calibration_.noise * calibration_.noise;
  const ParallelConfig knobs = KnobsOfPoint(config);
  const auto found = std::ranges::lower_bound(configs_, knobs);
  if (found != configs_.end() && *found == knobs) {
    rest = rest_[found - configs_.begin()];
    variance = variance_[found - configs_.begin()];
  }
  variance += shares.dot(calibration_.covariance * shares);
  return {times_s.sum() * std::exp(rest),
          std::exp(kStudent95 * std::sqrt(variance))};
}

std::string ToToml(const Calibration& calibration) {
  std::string text = fmt::format(
      "# A calibration of predictions by {} measured step times and {} rows "
      "that ran out\n# of memory. Meaning: docs/plan.md.\nmachine = \"{}\"\n"
      "framework = \"{}\"\nworkload = \"{}\"\nstep_times = {}\nbounds = {}\n"
      "noise = {}  # scatter of log(measured / calibrated)\nmemory = {}\n"
      "memory_log_stddev = {}\ncovariance = [{}]  # of log factors\n\n"
      "[factors]  # of the predicted parts of a step\n",
      calibration.step_times, calibration.bounds, calibration.job.machine,
      calibration.job.framework, calibration.job.workload,
      calibration.step_times, calibration.bounds, ExactText(calibration.noise),
      ExactText(calibration.memory), ExactText(calibration.memory_log_stddev),
      fmt::join(common::Map(calibration.covariance.reshaped(), ExactText),
                ", "));
  for (int i = 0; i < kStepParts; ++i) {
    text += fmt::format("{} = {}\n", kPartNames[i],
                        ExactText(calibration.factors[i]));
  }
  for (const Calibration::Residual& one : calibration.residuals) {
    text += fmt::format(
        "\n[[residual]]\nconfig = \"{}\"\nlog_ratio = {}\nvariance = {}\n",
        ToString(one.config), ExactText(one.log_ratio),
        ExactText(one.variance));
  }
  return text;
}

Calibration ReadCalibration(const std::filesystem::path& path,
                            const CalibratedJob& job) {
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  constexpr int kMostRows = 1 << 20;
  Calibration calibration{
      .job = {table.RequireString("machine"), table.RequireString("framework"),
              table.RequireString("workload")},
      .step_times = table.RequireIntIn("step_times", 0, kMostRows),
      .bounds = table.RequireIntIn("bounds", 0, kMostRows),
      .noise = table.RequireDouble("noise"),
      .memory = table.RequirePositive("memory"),
      .memory_log_stddev = table.RequireDouble("memory_log_stddev")};
  const std::vector<double> covariance = table.GetDoubles("covariance");
  if (std::ssize(covariance) != calibration.covariance.size()) {
    table.Fail("covariance", fmt::format("covariance needs {} numbers",
                                         calibration.covariance.size()));
  }
  std::ranges::copy(covariance, calibration.covariance.reshaped().begin());
  const common::TomlTable factors = table.RequireTable("factors");
  for (int i = 0; i < kStepParts; ++i) {
    calibration.factors[i] = factors.RequirePositive(kPartNames[i]);
  }
  for (const common::TomlTable& row : table.GetTables("residual")) {
    calibration.residuals.push_back(
        {row.At("config",
                [&] {
                  return trials::ParseParallelConfig(
                      row.RequireString("config"));
                }),
         row.RequireDouble("log_ratio"), row.RequirePositive("variance")});
  }
  table.RejectUnknownKeys();
  const CalibratedJob& own = calibration.job;
  if (own.machine != job.machine || own.framework != job.framework) {
    table.Fail(
        "machine",
        fmt::format("this calibration is for {} with {}, and the job "
                    "runs on {} with {}: name that framework, or "
                    "calibrate with trials of this machine",
                    own.machine, own.framework, job.machine, job.framework));
  }
  if (own.workload != job.workload) {
    calibration.note = fmt::format(
        "note: {} was measured with another model, precision or kind of "
        "training ({}): its factors are used, not what it knows of single "
        "configurations\n",
        path.string(), own.workload);
    calibration.residuals.clear();
  }
  return calibration;
}

}  // namespace harness
