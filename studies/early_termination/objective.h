// Test functions to maximize, with known maxima.

#ifndef STUDIES_EARLY_TERMINATION_OBJECTIVE_H_
#define STUDIES_EARLY_TERMINATION_OBJECTIVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include <Eigen/Core>

namespace studies {

// A function on finitely many points of the unit cube. Shapes: points [d, N],
// values [N].
struct Objective {
  std::string name;  // "branin"
  Eigen::MatrixXd points;
  Eigen::VectorXd values;
};

// Branin, six-hump camel, Ackley (two dimensions) and Hartmann (three), each
// negated, on a grid over its usual domain, and scaled so that the smallest
// value on the grid is 0 and the largest is 1: noise is then in units of the
// range.
// Source: Surjanovic and Bingham, Virtual Library of Simulation Experiments.
[[nodiscard]] std::vector<Objective> TestFunctions();

// sum_j a_j k(z_j, .), scaled to the given RKHS norm under `kernel`, the [N, N]
// matrix of the points: a function for which Assumption F.1 holds with a known
// B. 20 centers, normal weights.
[[nodiscard]] Objective RandomFunction(const Eigen::MatrixXd& points,
                                       const Eigen::MatrixXd& kernel,
                                       double rkhs_norm, std::uint64_t seed);

}  // namespace studies

#endif  // STUDIES_EARLY_TERMINATION_OBJECTIVE_H_
