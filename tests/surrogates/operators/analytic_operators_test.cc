#include "surrogates/operators/analytic_operators.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace surrogates {
namespace {

const OperatorProfile& Profile(const OperatorTable& table,
                               const std::string& name,
                               int micro_batch,
                               int tp) {
  const auto found =
      std::find(table.names().begin(), table.names().end(), name);
  EXPECT_NE(found, table.names().end()) << name;
  const OperatorProfile* profile =
      table.Find(static_cast<int>(found - table.names().begin()),
                 micro_batch,
                 std::countr_zero(static_cast<unsigned>(tp)),
                 0);
  EXPECT_NE(profile, nullptr);
  return *profile;
}

constexpr double kTokens = 2048.0;
constexpr double kHidden = 2048.0;
constexpr double kMb = 1024.0 * 1024.0;

// 2 FLOPs for each token and weight at 60 TFLOPs, twice that in backward.
TEST(AnalyticOperators, ProductsTakeTheTimeOfTheirFlops) {
  const OperatorTable table = AnalyticOperators({});
  for (const int micro_batch : {1, 4}) {
    const OperatorProfile& first =
        Profile(table, "enc-MLP-GEMM-1", micro_batch, 1);
    const double us =
        2 * micro_batch * kTokens * kHidden * 4 * kHidden / 60e12 * 1e6;
    EXPECT_NEAR(first.forward_us, us, 1e-6 * us);
    EXPECT_NEAR(first.backward_us, 2 * us, 1e-6 * us);
    EXPECT_NEAR(first.weights_mb, 2 * 4 * kHidden * kHidden / kMb, 1e-9);
    EXPECT_NEAR(
        first.output_mb, 2 * micro_batch * kTokens * 4 * kHidden / kMb, 1e-9);
  }
}

// The layer that sums over features reduces 2 (t - 1) / t of its 2-byte result
// in forward; the one before it does so in backward. A gigabyte a second takes
// a nanosecond for a byte.
TEST(AnalyticOperators, TensorParallelismReducesOnceEachWay) {
  AnalyticJob slow;
  slow.link_gb_per_s = 1.0;
  const OperatorTable table = AnalyticOperators(slow);
  AnalyticJob fast;
  fast.link_gb_per_s = 1e9;
  const OperatorTable free = AnalyticOperators(fast);
  const double bytes = 2 * kTokens * kHidden;
  for (const int tp : {1, 2, 8}) {
    const double reduce_us = 2.0 * (tp - 1) / tp * bytes / 1e9 * 1e6;
    const auto difference = [&](const char* name, auto member) {
      return Profile(table, name, 1, tp).*member -
             Profile(free, name, 1, tp).*member;
    };
    EXPECT_NEAR(difference("enc-MLP-GEMM-2", &OperatorProfile::forward_us),
                reduce_us,
                1e-3);
    EXPECT_NEAR(
        difference("enc-MLP-GEMM-2", &OperatorProfile::backward_us), 0.0, 1e-3);
    EXPECT_NEAR(difference("enc-MLP-GEMM-1", &OperatorProfile::backward_us),
                reduce_us,
                1e-3);
    EXPECT_NEAR(
        difference("enc-MLP-GEMM-1", &OperatorProfile::forward_us), 0.0, 1e-3);
  }
}

// A dropout reads and writes; its mask has a byte for each feature.
TEST(AnalyticOperators, OtherOperatorsTakeTheTimeOfTheirBytes) {
  const OperatorTable table = AnalyticOperators({});
  for (const char* name :
       {"enc-post-attention-dropout", "enc-post-MLP-dropout"}) {
    const OperatorProfile& dropout = Profile(table, name, 1, 1);
    const double us = 2 * 3 * kTokens * kHidden / 800e9 * 1e6;
    EXPECT_NEAR(dropout.forward_us, us, 1e-6 * us);
    EXPECT_NEAR(dropout.backward_us, us, 1e-6 * us);
    EXPECT_NEAR(dropout.activations_mb, kTokens * kHidden / kMb, 1e-9);
    EXPECT_EQ(dropout.weights_mb, 0.0);
  }
}

// 12 h^2 of a layer with four hidden sizes inside, split over tensor-parallel
// ranks; grouped queries and a gate change them.
TEST(AnalyticOperators, WeightsOfALayerAreThoseOfADecoder) {
  const auto layer = [](const AnalyticJob& job, int tp) {
    const OperatorTable table = AnalyticOperators(job);
    double weights_mb = 0.0;
    for (const char* name : {"enc-attention-qkv",
                             "enc-attention-dense",
                             "enc-MLP-GEMM-1",
                             "enc-MLP-GEMM-2"}) {
      weights_mb += Profile(table, name, 1, tp).weights_mb;
    }
    return weights_mb * kMb / 2 / (kHidden * kHidden);
  };
  EXPECT_NEAR(layer({}, 1), 12.0, 1e-9);
  EXPECT_NEAR(layer({}, 4), 3.0, 1e-9);
  EXPECT_NEAR(layer({.gated = true}, 1), 16.0, 1e-9);
  EXPECT_NEAR(layer({.kv_heads = 4}, 1), 10.5, 1e-9);
}

TEST(AnalyticOperators, EachOperatorIsNamedOnceForAllSizes) {
  const std::vector<std::string> names = AnalyticOperators({}).names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(),
            names.size());
  EXPECT_EQ(AnalyticOperators({}).largest_tp(), 8);
  EXPECT_EQ(AnalyticOperators({.largest_tp = 2}).names(), names);
}

}  // namespace
}  // namespace surrogates
