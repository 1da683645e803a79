// What a prediction allocates, counted at malloc, which Eigen and operator new
// both end in.

#include <atomic>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "surrogates/gp/gaussian_process.h"
#include "tests/surrogates/gp/synthetic_problem.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define OPPA_COUNTS_ALLOCATIONS 1
#else
#define OPPA_COUNTS_ALLOCATIONS 0
#endif

namespace {
std::atomic<int> allocations = 0;
}  // namespace

#if OPPA_COUNTS_ALLOCATIONS
// Takes the place of the C library's in this program.
extern "C" void* __libc_malloc(std::size_t size);  // NOLINT
extern "C" void* malloc(std::size_t size) {        // NOLINT
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
#endif

namespace surrogates {
namespace {

class Allocations : public testing::Test {
 protected:
  void SetUp() override {
    if (OPPA_COUNTS_ALLOCATIONS == 0) {
      GTEST_SKIP() << "needs glibc's malloc and no sanitizer";
    }
  }

  template <typename Work>
  static int Of(const Work& work) {
    const int before = allocations;
    work();
    return allocations - before;
  }

  static GaussianProcess Fitted(const tests::SyntheticProblem& problem, int n) {
    GaussianProcess process(problem.space, problem.mean, {.starts = 1});
    process.Fit(tests::Observe(problem, n, 4));
    return process;
  }
};

TEST_F(Allocations, AreCountedWhereThereAreSome) {
  EXPECT_GE(
      Of([] { EXPECT_EQ(Eigen::VectorXd::Ones(100).eval().size(), 100); }), 1);
  EXPECT_GE(Of([] { EXPECT_EQ(std::vector<int>(100).size(), 100U); }), 1);
}

// As the two models of a search take turns.
TEST_F(Allocations, NoneInPredictionsOfTwoModelsFromTheSecondOn) {
  const auto large = tests::MakeSyntheticProblem(1500, 4, 6, 1);
  const auto small = tests::MakeSyntheticProblem(1500, 3, 2, 2);
  const GaussianProcess throughput = Fitted(large, 15);
  const GaussianProcess memory = Fitted(small, 8);
  const std::vector<int> some = {3, 1, 4, 159, 26};
  Prediction r, m, of_some;
  const auto predict = [&] {
    throughput.Predict(r);
    memory.Predict(m);
    memory.PredictSome(some, of_some);
  };
  predict();
  EXPECT_EQ(Of(predict), 0);
}

}  // namespace
}  // namespace surrogates
