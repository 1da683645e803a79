#include "planners/astra/learned_efficiency.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"

namespace planners::learned_efficiency_test {

using testing::AllOf;
using testing::HasSubstr;

// All products of these sizes with the efficiency of a known function.
std::vector<MeasuredProduct> Measured(const std::vector<double>& sizes) {
  std::vector<MeasuredProduct> measured;
  const ProductEfficiency truth = AnalyticEfficiency(0.9);
  for (const double m : sizes) {
    for (const double n : sizes) {
      for (const double k : sizes) {
        const MatrixProduct product{m, n, k};
        measured.push_back({product, truth(product)});
      }
    }
  }
  return measured;
}

TEST(LearnedEfficiency, PredictsProductsBetweenThoseItLearnedFrom) {
  const ProductEfficiency learned =
      LearnEfficiency(Measured({128, 256, 512, 1024, 2048, 4096, 8192}));
  double worst = 0.0;
  for (const MeasuredProduct& other : Measured({180, 700, 3000, 6000})) {
    worst = std::max(worst,
                     std::abs(learned(other.product) / other.efficiency - 1.0));
  }
  EXPECT_LT(worst, 0.25);
  // The data have a range of a factor of 5, so a constant would fail.
  EXPECT_LT(learned({128, 128, 128}), 0.5 * learned({8192, 8192, 8192}));
}

TEST(LearnedEfficiency, ReadsTheProductsOfOneGpu) {
  const fakes::TemporaryFolder folder;
  const auto path = folder.path() / "t.csv";
  const auto read = [&](const std::string& rows) {
    fakes::WriteFile(
        path, "# source\ngpu,peak_tflops,operator,shape,efficiency\n" + rows);
    return ReadMeasuredProducts(path, "X");
  };
  const auto measured = read(
      "X,312,matmul,\"b=1, m=8, k=16, n=32, layout=TN\",0.5\n"
      "X,312,sdp_fwd,\"b=1, m=8, k=16, n=32\",0.4\n"
      "Y,312,matmul,\"m=1, k=1, n=1\",0.3\n");
  ASSERT_EQ(measured.size(), 1U);
  EXPECT_EQ(measured[0].product.m, 8.0);
  EXPECT_EQ(measured[0].product.n, 32.0);
  EXPECT_EQ(measured[0].product.k, 16.0);
  EXPECT_EQ(measured[0].efficiency, 0.5);

  const auto least = read("X,312,matmul,\"m=1, n=1, k=1\",1\n");
  ASSERT_EQ(least.size(), 1U);
  EXPECT_EQ(least[0].product.m, 1.0);
  EXPECT_EQ(least[0].efficiency, 1.0);
  EXPECT_EQ(read("X,312,matmul,\"m=1, n=1, k=1\",1e-3\n").size(), 1U);

  const auto error = [&](const std::string& rows) -> std::string {
    return fakes::ErrorOf([&] { return read(rows); });
  };
  for (const auto& [cells, message] :
       {std::pair("\"m=8, k=16\",0.5",
                  "t.csv:3: shape 'm=8, k=16' must contain n"),
        {"\"m=0, n=1, k=16\",0.5", "must contain m"},
        {"\"m=, n=1, k=16\",0.5", "must contain m"},
        {"\"m=1, n=1, k=1\",0", "'0' must be above 0"},
        {"\"m=1, n=1, k=1\",1.01", "'1.01' must be above 0 and at most 1"},
        {"\"m=1, n=1, k=1\",fast", "'fast' must be above 0"}}) {
    EXPECT_THAT(error("X,1,matmul," + std::string(cells) + "\n"),
                HasSubstr(message));
  }
  EXPECT_THAT(error("Y,1,matmul,\"m=1, n=1, k=1\",1\n"),
              AllOf(HasSubstr("GPU 'X'"), HasSubstr("known: Y")));
}

}  // namespace planners::learned_efficiency_test
