#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/ranges.h"
#include "studies/early_termination/early_termination.h"
#include "studies/early_termination/repeated_search.h"

namespace studies {
namespace {

constexpr double kDomain = 5.0;
constexpr int kLevels = 201;
constexpr double kLengthScale = 0.7 / kDomain;
constexpr double kNoise = 1.0;      // of one query
constexpr double kSeenNoise = 0.1;  // of the points known at the start
constexpr std::array<double, 3> kSeen = {0.6, 3.3, 4.9};
constexpr std::array<int, 4> kQueries = {0, 1, 20, 100};
constexpr int kDraws = 8000;
constexpr int kBins = 40;
constexpr double kLeastMaximum = -0.5;
constexpr double kMostMaximum = 2.5;

double Truth(double x) {
  return 0.1 * std::exp(-2.0 * (x - 1.9) * (x - 1.9)) +
         1.3 * std::exp(-2.5 * (x - 4.2) * (x - 4.2)) - 0.4 * std::cos(1.3 * x);
}

int IndexOf(double x) {
  return static_cast<int>(std::lround(x / kDomain * (kLevels - 1)));
}

std::vector<double> AxisPoints() {
  std::vector<double> x(kLevels);
  for (int i = 0; i < kLevels; ++i) {
    x[i] = kDomain * i / (kLevels - 1);
  }
  return x;
}

// The mean of `queries` noisy queries: those of more queries begin with those
// of fewer.
double MeanOf(double x, int queries) {
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal;
  double sum = 0.0;
  for (int q = 0; q < queries; ++q) {
    sum += Truth(x) + kNoise * normal(engine);
  }
  return sum / queries;
}

struct Observation {
  double x = 0.0;
  double value = 0.0;
  double noise = 0.0;
};

// The posterior after this many queries of x.
struct Belief {
  double x = 0.0;
  int queries = 0;
  std::vector<Observation> observed;
  FiniteProcess process;
  std::vector<double> where;  // probability (%) of the maximum, per bin of x
  std::vector<double> how_large;  // density of the maximum, per bin
  double stddev_of_maximum = 0.0;
};

Belief After(double x, int queries) {
  Belief belief{.x = x,
                .queries = queries,
                .process = FiniteProcess(
                    MaternMatrix(UnitGrid(1, kLevels), kLengthScale)),
                .where = std::vector<double>(kBins, 0.0),
                .how_large = std::vector<double>(kBins, 0.0)};
  for (const double seen : kSeen) {
    belief.observed.push_back({seen, Truth(seen), kSeenNoise});
  }
  if (queries > 0) {
    belief.observed.push_back(
        {x, MeanOf(x, queries), kNoise / std::sqrt(queries)});
  }
  for (const Observation& one : belief.observed) {
    belief.process.Observe(IndexOf(one.x), one.value, one.noise * one.noise);
  }
  const Eigen::MatrixXd draws = Draw(belief.process, kDraws, 1);
  Eigen::ArrayXd maxima(kDraws);
  for (Eigen::Index d = 0; d < kDraws; ++d) {
    int at = 0;
    maxima[d] = draws.col(d).maxCoeff(&at);
    belief.where[at * kBins / kLevels] += 100.0 / kDraws;
    const double width = (kMostMaximum - kLeastMaximum) / kBins;
    const auto bin = static_cast<int>((maxima[d] - kLeastMaximum) / width);
    if (bin >= 0 && bin < kBins) {
      belief.how_large[bin] += 1.0 / (kDraws * width);
    }
  }
  belief.stddev_of_maximum =
      std::sqrt((maxima - maxima.mean()).square().mean());
  return belief;
}

std::string Times(int queries) {
  return queries == 1 ? "1 query" : fmt::format("{} queries", queries);
}

plots::Panel PosteriorPanel(const Belief& belief) {
  plots::Panel panel{
      .name = fmt::format("{}", belief.queries),
      .x_column = "x",
      .x_label = fmt::format("x ({} at {})", Times(belief.queries), belief.x),
      .y_label = "f(x)",
      .x_max = kDomain,
      .y_min = -2.5,
      .y_max = 2.5,
      .vertical = belief.x};
  plots::Band posterior{.x = AxisPoints()};
  plots::Band truth{.x = posterior.x};
  plots::Band observed{.x = posterior.x};
  for (int i = 0; i < kLevels; ++i) {
    const double mean = belief.process.mean()[i];
    const double stddev = belief.process.stddev(i);
    const double f = Truth(posterior.x[i]);
    posterior.y.push_back({mean - stddev, mean, mean + stddev});
    truth.y.push_back({f, f, f});
  }
  observed.y.resize(kLevels);
  for (const Observation& one : belief.observed) {
    observed.y[IndexOf(one.x)] = {one.value - one.noise, one.value,
                                  one.value + one.noise};
  }
  panel.series = {{.name = "posterior",
                   .label = "mean and standard deviation",
                   .style = plots::StyleOf(0, true),
                   .band = posterior},
                  {.name = "f",
                   .label = "f",
                   .style = plots::StyleOf(1, false),
                   .band = truth,
                   .mark = plots::Mark::kLine},
                  {.name = "observed",
                   .label = "observed",
                   .style = plots::StyleOf(5, false),
                   .band = observed,
                   .mark = plots::Mark::kPoints}};
  return panel;
}

plots::Panel BinPanel(const Belief& belief, const std::string& x_label,
                      const std::string& y_label, double low, double high,
                      double y_max, const std::vector<double>& values) {
  std::vector<double> centers;
  for (int i = 0; i < kBins; ++i) {
    centers.push_back(low + (high - low) * (i + 0.5) / kBins);
  }
  plots::Panel panel{
      .name = fmt::format("{}", belief.queries),
      .x_column = "x",
      .x_label = fmt::format("{} ({})", x_label, Times(belief.queries)),
      .y_label = y_label,
      .x_min = low,
      .x_max = high,
      .y_min = 0.0,
      .y_max = y_max};
  panel.series = {Line("belief", plots::StyleOf(0, true), centers, values)};
  panel.series.front().mark = plots::Mark::kStep;
  return panel;
}

plots::Panel WherePanel(const Belief& belief) {
  plots::Panel panel = BinPanel(belief, "x of the maximum", "probability (%)",
                                0.0, kDomain, 40.0, belief.where);
  panel.vertical = belief.x;
  return panel;
}

plots::Panel HowLargePanel(const Belief& belief) {
  return BinPanel(belief, "largest f", "density", kLeastMaximum, kMostMaximum,
                  3.5, belief.how_large);
}

plots::Figure FigureOf(const std::string& name, const std::string& title,
                       std::vector<plots::Panel> panels) {
  // Panels of both kinds may follow each other: each has a separate file.
  for (std::size_t i = 0; i < panels.size(); ++i) {
    panels[i].name = fmt::format("{}-{}", i + 1, panels[i].name);
  }
  return {.name = name,
          .title = title,
          .caption = fmt::format(
              "Known kernel; a query has noise of standard deviation {}; {} "
              "draws of f.",
              kNoise, kDraws),
          .panels = std::move(panels)};
}

}  // namespace

Output DemonstrateRepeats() {
  Output output{.name = "demonstration"};
  std::vector<std::vector<Belief>> places;
  for (const double x : {2.0, 4.2}) {
    std::vector<Belief>& beliefs = places.emplace_back();
    for (const int queries : kQueries) {
      const Belief& belief = beliefs.emplace_back(After(x, queries));
      output.table.Add(
          {{"x", "queried at x", plots::Fixed(x, 1)},
           {"queries", queries},
           {"stddev_of_maximum", "standard deviation of the largest f",
            plots::Fixed(belief.stddev_of_maximum, 3)}});
    }
  }
  const std::vector<Belief>& worse = places[0];
  const std::vector<Belief>& best = places[1];
  const auto fall = [](const std::vector<Belief>& beliefs) {
    return 100.0 *
           (1.0 - beliefs[3].stddev_of_maximum / beliefs[2].stddev_of_maximum);
  };
  output.conclusion = fmt::format(
      "Standard deviation of the belief about the largest f after so many "
      "queries. From 20 to 100 queries it falls by {:.0f}% where "
      "f is not best, by {:.0f}% where it is.",
      fall(worse), fall(best));
  output.figures = {
      FigureOf("fig11-posterior", "Repeated queries where f is not best",
               common::Map(worse, PosteriorPanel)),
      FigureOf("fig11-optimum", "Where the maximum may be",
               common::Map(worse, WherePanel)),
      FigureOf("fig12-maximum",
               "How large the maximum may be, queries at x = 2",
               common::Map(worse, HowLargePanel)),
      FigureOf("fig13-maximum", "Repeated queries where f is best",
               {PosteriorPanel(best[2]), HowLargePanel(best[2]),
                PosteriorPanel(best[3]), HowLargePanel(best[3])})};
  return output;
}

}  // namespace studies
