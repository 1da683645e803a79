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
  Eigen::VectorXd wave =
      (2.0 * std::numbers::pi *
       ((space.points.transpose() * direction).array() + phase))
          .cos();
  const double largest = wave.size() > 0 ? wave.cwiseAbs().maxCoeff() : 0.0;
  if (largest > 0.0) {
    wave /= largest;
  }
  return wave;
}

}  // namespace surrogates
