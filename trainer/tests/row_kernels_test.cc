#include "trainer/row_kernels.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace trainer::row_kernels_test {

template <typename T>
T ExpOf(T x) {
  ScaledExp(1, T(0), T(1), &x);
  return x;
}

// Relative errors of exp for arguments n log(2) + r with all n that a normal
// result has.
template <typename T>
void ExpectExp(int most, double ulps) {
  for (int n = -most; n <= most; ++n) {
    for (int i = -10; i <= 10; ++i) {
      const T x = static_cast<T>((n + i / 20.0) * std::log(2.0));
      const long double exact = std::exp(static_cast<long double>(x));
      EXPECT_NEAR(static_cast<double>(ExpOf(x) / exact), 1.0,
                  ulps * std::numeric_limits<T>::epsilon())
          << x;
    }
  }
}

TEST(RowKernels, ExpIsAccurateInTheWholeRange) {
  ExpectExp<float>(124, 2.0);
  ExpectExp<double>(1020, 2.0);
}

template <typename T>
void ExpectLimits(T limit) {
  for (const T sign : {T(-1), T(1)}) {
    EXPECT_EQ(ExpOf(sign * (limit + T(0.5))), ExpOf(sign * limit));
    EXPECT_EQ(ExpOf(sign * T(1e30)), ExpOf(sign * limit));
    EXPECT_NE(ExpOf(sign * (limit - T(0.5))), ExpOf(sign * limit));
  }
  EXPECT_GE(ExpOf(-limit), std::numeric_limits<T>::min());
  EXPECT_TRUE(std::isfinite(ExpOf(limit)));
}

TEST(RowKernels, ExpStaysANormalNumber) {
  ExpectLimits<float>(87.0F);
  ExpectLimits<double>(708.0);
}

constexpr double kGuard = 77.0;  // of what must not be written

template <typename T>
std::vector<T> Guarded(std::vector<double> numbers) {
  numbers.push_back(kGuard);
  return {numbers.begin(), numbers.end()};
}

template <typename T>
void ExpectNumbers(const std::vector<T>& actual,
                   const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size() + 1);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], tolerance) << i;
  }
  EXPECT_EQ(actual.back(), static_cast<T>(kGuard));
}

template <typename T>
double Tolerance() {
  return 8.0 * std::numeric_limits<T>::epsilon();
}

// Loshchilov & Hutter (2019), two steps by hand. Step 1 with g = 2: the moments
// 0.5 and 1 (of betas 0.75), without bias 2 and 4: a step of rate 2 / (2 + 2).
// Step 2 with g = -2: the moments -0.125 and 1.75, divided by 1 - 0.75^2.
template <typename T>
void ExpectAdam() {
  AdamOptions options{.learning_rate = 0.5,
                      .beta1 = 0.75,
                      .beta2 = 0.75,
                      .epsilon = 2.0,
                      .weight_decay = 0.25,
                      .step = 1};
  std::vector<T> master = Guarded<T>({8.0, 16.0});
  std::vector<T> first = Guarded<T>({0.0, 0.0});
  std::vector<T> second = Guarded<T>({0.0, 0.0});
  std::vector<T> weights = Guarded<T>({0.0, 0.0});
  const auto step = [&](T gradient) {
    const std::vector<T> gradients = {gradient, gradient};
    AdamRow(options, 2, gradients.data(), master.data(), first.data(),
            second.data(), weights.data());
  };
  step(T(2));
  const double kept = 1.0 - 0.5 * 0.25;
  ExpectNumbers(first, {0.5, 0.5}, Tolerance<T>());
  ExpectNumbers(second, {1.0, 1.0}, Tolerance<T>());
  ExpectNumbers(master, {8 * kept - 0.25, 16 * kept - 0.25},
                20 * Tolerance<T>());
  EXPECT_EQ(weights, master);
  options.step = 2;
  step(T(-2));
  ExpectNumbers(first, {-0.125, -0.125}, Tolerance<T>());
  ExpectNumbers(second, {1.75, 1.75}, Tolerance<T>());
  const double move = 0.5 * (0.125 / 0.4375) / (std::sqrt(1.75 / 0.4375) + 2);
  ExpectNumbers(
      master,
      {(8 * kept - 0.25) * kept + move, (16 * kept - 0.25) * kept + move},
      20 * Tolerance<T>());
  EXPECT_EQ(weights, master);
}

TEST(RowKernels, AdamTakesTheStepsOfThePaper) {
  ExpectAdam<float>();
  ExpectAdam<double>();
}

}  // namespace trainer::row_kernels_test
