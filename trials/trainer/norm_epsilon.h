// A constant of norms, the same on every device.

#ifndef TRIALS_TRAINER_NORM_EPSILON_H_
#define TRIALS_TRAINER_NORM_EPSILON_H_

namespace trials::trainer {

// Added to the variance.
inline constexpr double kNormEpsilon = 1e-5;

}  // namespace trials::trainer

#endif  // TRIALS_TRAINER_NORM_EPSILON_H_
