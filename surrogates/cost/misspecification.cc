#include "surrogates/cost/misspecification.h"

#include <numbers>
#include <random>

namespace surrogates {

Eigen::VectorXd Misspecification(const EncodedSpace& space,
                                 std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  Eigen::VectorXd direction(space.dimension_count());
  for (double& component : direction) {
    component = normal(engine);
  }
  direction.normalize();
  const double phase = uniform(engine);
  const Eigen::VectorXd wave =
      (2.0 * std::numbers::pi *
       ((space.points.transpose() * direction).array() + phase))
          .cos();
  return wave / wave.cwiseAbs().maxCoeff();
}

}  // namespace surrogates
