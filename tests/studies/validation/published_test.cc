// How far the simulator is from the published tables; skipped without them. The
// bounds are slightly above the values that docs/simulator.md reports.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "studies/validation/comparison.h"

namespace studies::published_test {

// The group of a known table's models that no constant was fitted to; nothing
// where it is not there.
std::optional<Comparison> OtherHalf(const std::string& name,
                                    const std::string& gpu,
                                    const std::string& scope) {
  if (!KnownTablePath(name)) {
    return std::nullopt;
  }
  const MeasuredTable table = ReadKnownTable(name, {});
  const std::vector<Comparison> all = Compare(table, Predict(table));
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Comparison& c) {
        return c.half == Half::kOther && c.scope == scope &&
               c.gpu.starts_with(gpu);
      });
  EXPECT_NE(found, all.end()) << name << " " << gpu << " " << scope;
  return found == all.end() ? Comparison{} : *found;
}

#define OPPA_NEED(group)                                               \
  if (!(group)) {                                                      \
    GTEST_SKIP() << "set OPPA_DATA to the folder of published tables"; \
  }

TEST(PublishedTables, VtrainOnOneHostIsWithinNinePercent) {
  const auto other = OtherHalf("vtrain", "A100", "one host");
  OPPA_NEED(other);
  EXPECT_LT(other->step_time.mean, 0.09);
  EXPECT_GT(other->spearman, 0.9);
}

TEST(PublishedTables, VtrainOnSeveralHostsIsWithinTenPercent) {
  const auto other = OtherHalf("vtrain", "A100", "several hosts");
  OPPA_NEED(other);
  EXPECT_LT(other->step_time.mean, 0.10);
}

TEST(PublishedTables, KorthikantisTable5IsWithinSixPercent) {
  const auto other = OtherHalf("korthikanti2022", "A100", "all");
  OPPA_NEED(other);
  EXPECT_LT(other->step_time.mean, 0.06);
  EXPECT_LT(other->peak_memory.median, 0.04);
}

TEST(PublishedTables, GoldenPeaksAreWithinThreePercent) {
  const auto other = OtherHalf("megatron_golden_values", "A100", "all");
  OPPA_NEED(other);
  EXPECT_LT(other->peak_memory.median, 0.03);
}

TEST(PublishedTables, MosaicmlIsWithinTenPercent) {
  for (const char* gpu : {"A100", "H100"}) {
    const auto other = OtherHalf("mosaicml_llmfoundry", gpu, "all");
    OPPA_NEED(other);
    EXPECT_LT(other->step_time.mean, 0.10) << gpu;
  }
}

TEST(PublishedTables, UltrascalesPicksAndMemoryFailuresAreFoundOnCleanRows) {
  const auto other = OtherHalf("ultrascale", "H100", "clean");
  OPPA_NEED(other);
  EXPECT_LT(other->step_time.median, 0.06);
  EXPECT_LT(other->pick_slowdown, 0.02);
  EXPECT_GT(other->precision.Value(), 0.9);
  EXPECT_GT(other->recall.Value(), 0.9);
  EXPECT_LT(other->peak_memory.median, 0.08);
}

TEST(PublishedTables, AcesosOperatorsOnV100AreWithinTheirReportedErrors) {
  const std::pair<const char*, double> limits[] = {
      {"block (sum)", 0.09}, {"qkv", 0.12},    {"scores", 0.06},
      {"context", 0.14},     {"output", 0.16}, {"ffn-in", 0.15},
      {"ffn-out", 0.12},     {"head", 0.09}};
  for (const auto& [part, limit] : limits) {
    const auto other = OtherHalf("aceso_v100_op_profiles", "V100", part);
    OPPA_NEED(other);
    EXPECT_LT(other->step_time.mean, limit) << part;
  }
}

TEST(PublishedTables, AllReducesOnV100FollowTheRingsOfTheirLinks) {
  for (const char* part :
       {"all-reduce x2", "all-reduce x4", "all-reduce x6", "all-reduce x8"}) {
    const auto other = OtherHalf("vtrain_nccl_allreduce_lut", "V100", part);
    OPPA_NEED(other);
    EXPECT_LT(other->step_time.mean, 0.05) << part;
  }
  for (const char* part : {"all-reduce x2", "all-reduce x4", "all-reduce x8"}) {
    const auto other = OtherHalf("aceso_v100_collectives", "V100", part);
    OPPA_NEED(other);
    EXPECT_LT(other->step_time.mean, 0.12) << part;
  }
}

}  // namespace studies::published_test
