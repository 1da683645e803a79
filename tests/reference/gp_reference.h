// The small Gaussian process of gp_reference.json.

#pragma once

#include <cmath>
#include <fstream>
#include <string>

#include <Eigen/Core>
#include <nlohmann/json.hpp>

#include "surrogates/encoding.h"
#include "surrogates/gp/likelihood.h"
#include "surrogates/parametric_mean.h"
#include "surrogates/surrogate.h"
#include "tests/fakes/paths.h"

namespace tests {

// Candidates 0-7 are observed, 8-11 are new points (9 equals 6).
struct GpReference {
  surrogates::EncodedSpace space;
  surrogates::ParametricMean mean;
  surrogates::Observations observations;
  surrogates::Hyperparameters hyperparameters;
  Eigen::VectorXd kernel_first_row;
  Eigen::VectorXd cholesky_diagonal;
  Eigen::VectorXd alpha;
  double log_likelihood = 0.0;
  Eigen::VectorXd gradient;
  Eigen::VectorXd posterior_mean;
  Eigen::VectorXd posterior_variance;
};

inline Eigen::VectorXd ToVector(const nlohmann::json& numbers) {
  Eigen::VectorXd vector(static_cast<Eigen::Index>(numbers.size()));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    vector[static_cast<Eigen::Index>(i)] =
        std::stod(numbers[i].get<std::string>());
  }
  return vector;
}

inline GpReference ReadGpReference() {
  std::ifstream in(fakes::SourceFolder() / "tests/reference/gp_reference.json");
  const nlohmann::json json = nlohmann::json::parse(in);
  GpReference reference;
  nlohmann::json points = json.at("points");
  points.insert(points.end(), json.at("new_points").begin(),
                json.at("new_points").end());
  reference.space.points.resize(3, static_cast<Eigen::Index>(points.size()));
  reference.space.dimensions = {"x1", "x2", "x3"};
  for (std::size_t i = 0; i < points.size(); ++i) {
    reference.space.points.col(static_cast<Eigen::Index>(i)) =
        ToVector(points[i]);
  }
  const Eigen::MatrixXd& x = reference.space.points;
  reference.mean.link = surrogates::ParametricMean::Link::kInverse;
  reference.mean.features.resize(x.cols(), 3);
  reference.mean.features.col(0).setOnes();
  reference.mean.features.col(1) = x.row(0);
  reference.mean.features.col(2) = x.row(1).array().square();
  reference.mean.coefficients = {
      {.name = "c1"}, {.name = "c2"}, {.name = "c3"}};

  reference.observations.value = ToVector(json.at("values"));
  reference.observations.noise_variance = ToVector(json.at("noise_variances"));
  for (int i = 0; i < reference.observations.value.size(); ++i) {
    reference.observations.candidate.push_back(i);
  }
  reference.hyperparameters = {
      .log_length_scales = ToVector(json.at("length_scales")).array().log(),
      .log_signal_variance =
          std::log(std::stod(json.at("signal_variance").get<std::string>())),
      .log_coefficients = ToVector(json.at("coefficients")).array().log()};
  reference.kernel_first_row = ToVector(json.at("kernel_first_row"));
  reference.cholesky_diagonal = ToVector(json.at("cholesky_diagonal"));
  reference.alpha = ToVector(json.at("alpha"));
  reference.log_likelihood =
      std::stod(json.at("log_likelihood").get<std::string>());
  reference.gradient = ToVector(json.at("gradient"));
  reference.posterior_mean = ToVector(json.at("posterior_mean"));
  reference.posterior_variance = ToVector(json.at("posterior_variance"));
  return reference;
}

}  // namespace tests
