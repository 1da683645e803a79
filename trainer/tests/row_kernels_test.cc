#include "trainer/row_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
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

// exp(0.5 * {0, 2 log 2, 2 log 3}) is {1, 2, 3}.
template <typename T>
void ExpectSoftmax() {
  const double log2 = std::log(2.0);
  const double log3 = std::log(3.0);
  std::vector<T> p = Guarded<T>({1000.0, 1000 + 2 * log2, 1000 + 2 * log3, 5});
  SoftmaxRow(3, 4, T(0.5), p.data());
  // Arguments near 1,000 have errors of 1,000 epsilon.
  ExpectNumbers(p, {1.0 / 6, 2.0 / 6, 3.0 / 6, 0.0}, 100 * Tolerance<T>());
  p = Guarded<T>({2 * log3, 0.0, 2 * log2});
  SoftmaxRow(3, 3, T(0.5), p.data());
  ExpectNumbers(p, {3.0 / 6, 1.0 / 6, 2.0 / 6}, Tolerance<T>());
  // What is masked is not read, even if it is not a number.
  p = Guarded<T>({3.0, std::nan("")});
  SoftmaxRow(1, 2, T(1), p.data());
  ExpectNumbers(p, {1.0, 0.0}, 0.0);
}

TEST(RowKernels, SoftmaxIsOfTheValidNumbers) {
  ExpectSoftmax<float>();
  ExpectSoftmax<double>();
}

// With p = {1/2, 1/4, 1/4} and d = {4, 8, 16} the mean of d is 8.
template <typename T>
void ExpectSoftmaxGradient() {
  const std::vector<T> p = {T(0.5), T(0.25), T(0.25)};
  std::vector<T> d = Guarded<T>({4.0, 8.0, 16.0});
  SoftmaxGradientRow(3, T(3), p.data(), d.data());
  ExpectNumbers(d, {3 * 0.5 * -4, 0.0, 3 * 0.25 * 8}, 0.0);
}

TEST(RowKernels, TheGradientOfASoftmaxIsThatOfItsDefinition) {
  ExpectSoftmaxGradient<float>();
  ExpectSoftmaxGradient<double>();
}

// {1, 3, 5, 7} has the mean 4, the variance 5 and the mean square 21.
template <typename T>
void ExpectNorms() {
  const std::vector<T> x = {1, 3, 5, 7};
  const std::vector<T> scale = {2, 3, 4, 5};
  const std::vector<T> shift = {10, 20, 30, 40};
  std::vector<T> y = Guarded<T>({0, 0, 0, 0});
  std::vector<T> statistics = Guarded<T>({0, 0});
  NormRow<T> norm{NormKind::kLayer, 4, scale.data(), shift.data(), T(4)};
  NormForwardRow(norm, x.data(), y.data(), statistics.data());
  ExpectNumbers(statistics, {4.0, 1.0 / 3}, Tolerance<T>());
  ExpectNumbers(y,
                {10 - 2 * 3.0 / 3, 20 - 3 / 3.0, 30 + 4 / 3.0, 40 + 5 * 3 / 3},
                10 * Tolerance<T>());
  norm.kind = NormKind::kRms;
  norm.shift = nullptr;
  NormForwardRow(norm, x.data(), y.data(), statistics.data());
  ExpectNumbers(statistics, {0.0, 0.2}, Tolerance<T>());
  ExpectNumbers(y, {2 * 0.2, 3 * 0.6, 4 * 1.0, 5 * 1.4}, 10 * Tolerance<T>());
}

TEST(RowKernels, NormsDivideByTheDeviationFromTheMeanOrFromZero) {
  ExpectNorms<float>();
  ExpectNorms<double>();
}

// The definitions: x Phi(x); Hendrycks & Gimpel's approximation by tanh; and
// gate / (1 + exp(-gate)) times the other half.
template <typename T>
void ExpectActivations() {
  const std::vector<double> in = {-3.0, -0.5, 0.0, 0.25, 1.0, 2.5};
  std::vector<double> gelu;
  std::vector<double> gelu_tanh;
  for (const double x : in) {
    gelu.push_back(x * 0.5 * std::erfc(-x / std::sqrt(2.0)));
    gelu_tanh.push_back(x / 2 *
                        (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) *
                                       (x + 0.044715 * std::pow(x, 3)))));
  }
  for (const Activation kind : {Activation::kGelu, Activation::kGeluTanh}) {
    const std::vector<T> x = Guarded<T>(in);
    std::vector<T> y = Guarded<T>(std::vector<double>(6));
    ActivationForwardRow(kind, 6, x.data(), y.data());
    ExpectNumbers(y, kind == Activation::kGelu ? gelu : gelu_tanh,
                  Tolerance<T>());
  }
  std::vector<double> gated;
  for (std::size_t i = 0; i < 3; ++i) {
    gated.push_back(in[i] * in[3 + i] / (1 + std::exp(-in[i])));
  }
  const std::vector<T> x = Guarded<T>(in);
  std::vector<T> y = Guarded<T>(std::vector<double>(3));
  ActivationForwardRow(Activation::kSwiGlu, 3, x.data(), y.data());
  ExpectNumbers(y, gated, Tolerance<T>());
}

TEST(RowKernels, ActivationsFollowTheirDefinitions) {
  ExpectActivations<float>();
  ExpectActivations<double>();
}

template <typename T>
void ExpectSums() {
  const std::vector<T> a = {1, -2, 4};
  std::vector<T> to = Guarded<T>({10, 20, 30});
  AddTo(3, a.data(), to.data());
  ExpectNumbers(to, {11, 18, 34}, 0.0);
  AddScaled(3, T(-2), a.data(), to.data());
  ExpectNumbers(to, {9, 22, 26}, 0.0);
  EXPECT_EQ(Dot(3, a.data(), to.data()), T(9 - 44 + 104));
  EXPECT_EQ(Dot(0, a.data(), to.data()), T(0));
  EXPECT_EQ(Maximum(3, a.data()), T(4));
  EXPECT_EQ(Maximum(2, a.data()), T(1));
  EXPECT_EQ(Maximum(2, a.data() + 1), T(4));
  std::vector<T> x = Guarded<T>({1.0, 1 + std::log(2.0), 1 + std::log(5.0)});
  EXPECT_NEAR(SumExp(3, T(1), x.data()), 8.0, 4 * Tolerance<T>());
  EXPECT_EQ(SumExp(0, T(1), x.data()), T(0));
  ScaledExp(3, T(1), T(0.5), x.data());
  ExpectNumbers(x, {0.5, 1.0, 2.5}, Tolerance<T>());
}

TEST(RowKernels, SumsMaximaAndExponentialsAreOfTheWholeRow) {
  ExpectSums<float>();
  ExpectSums<double>();
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
