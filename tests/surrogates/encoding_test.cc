#include "surrogates/encoding.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/toml_table.h"
#include "trials/custom_knobs.h"

namespace surrogates::encoding_test {

using ::testing::ElementsAre;
using trials::ParallelConfig;

EncodedSpace EncodeAll(const std::vector<ParallelConfig>& configs) {
  return Encode(trials::SearchSpace(configs));
}

TEST(Encode, KeepsOnlyTheFieldsThatVary) {
  const EncodedSpace encoded =
      EncodeAll({{.dp = 8, .grad_checkpoint = true}, {.dp = 4, .tp = 2}});
  EXPECT_THAT(encoded.dimensions, ElementsAre("dp", "tp", "grad_checkpoint"));
  EXPECT_EQ(encoded.dimension_count(), 3);
  EXPECT_EQ(encoded.size(), 2);
}

TEST(Encode, PutsEveryDimensionOnTheUnitInterval) {
  const EncodedSpace encoded = EncodeAll({{.dp = 8, .dp_bucket_mb = 4096},
                                          {.dp = 4, .tp = 2, .zero_stage = 2},
                                          {.tp = 8, .zero_stage = 1}});
  for (int k = 0; k < encoded.dimension_count(); ++k) {
    EXPECT_EQ(encoded.points.row(k).minCoeff(), 0.0);
    EXPECT_EQ(encoded.points.row(k).maxCoeff(), 1.0);
  }
}

TEST(Encode, SpacesSizesByTheirLogarithmAndStagesEvenly) {
  const EncodedSpace encoded = EncodeAll({{.dp = 2, .zero_stage = 0},
                                          {.dp = 4, .zero_stage = 1},
                                          {.dp = 32, .zero_stage = 2}});
  EXPECT_THAT(encoded.dimensions, ElementsAre("dp", "zero_stage"));
  EXPECT_DOUBLE_EQ(encoded.points(0, 1), 0.25);
  EXPECT_DOUBLE_EQ(encoded.points(1, 1), 0.5);
}

TEST(Encode, SpacesSizesByValueOrRankWhereAsked) {
  const trials::SearchSpace space({{.dp = 1}, {.dp = 2}, {.dp = 4}, {.dp = 9}});
  const auto second = [&](SizeScale sizes) {
    return Encode(space, InactiveKnobs::kDefault, sizes).points(0, 1);
  };
  EXPECT_DOUBLE_EQ(second(SizeScale::kLog2), 1.0 / std::log2(9.0));
  EXPECT_DOUBLE_EQ(second(SizeScale::kLinear), 1.0 / 8.0);
  EXPECT_DOUBLE_EQ(second(SizeScale::kRank), 1.0 / 3.0);
}

// 0 is half of 1, as 1 is half of 2.
TEST(Encode, PutsADerivedSizeOneStepBelowASizeOfOne) {
  const EncodedSpace encoded = EncodeAll({{.dp = 8, .micro_batch_size = 0},
                                          {.dp = 8, .micro_batch_size = 1},
                                          {.dp = 8, .micro_batch_size = 4}});
  ASSERT_THAT(encoded.dimensions, ElementsAre("micro_batch_size"));
  EXPECT_EQ(encoded.points(0, 0), 0.0);
  EXPECT_DOUBLE_EQ(encoded.points(0, 1), 1.0 / 3.0);
  EXPECT_EQ(encoded.points(0, 2), 1.0);
}

// ZeRO 0, and ZeRO 1 with the smallest and the largest bucket.
const std::vector<ParallelConfig> kBuckets = {
    {.dp = 8},
    {.dp = 8, .zero_stage = 1, .zero_bucket_mb = 1},
    {.dp = 8, .zero_stage = 1, .zero_bucket_mb = 4096}};

TEST(Encode, PutsAKnobWithoutEffectInTheMiddleOfItsValues) {
  const EncodedSpace encoded = EncodeAll(kBuckets);
  ASSERT_THAT(encoded.dimensions, ElementsAre("zero_stage", "zero_bucket_mb"));
  EXPECT_DOUBLE_EQ(encoded.points(1, 0), 0.5);
  EXPECT_DOUBLE_EQ(encoded.points(1, 1), 0.0);
  EXPECT_DOUBLE_EQ(encoded.points(1, 2), 1.0);
}

TEST(Encode, LeavesAKnobWithoutEffectAtItsDefaultAsThePaperDoes) {
  const EncodedSpace encoded =
      Encode(trials::SearchSpace(kBuckets), InactiveKnobs::kDefault);
  EXPECT_DOUBLE_EQ(encoded.points(1, 0), std::log2(24.0) / 12.0);
}

TEST(Encode, DropsAKnobThatHasAnEffectAtOneValueOnly) {
  const EncodedSpace encoded =
      EncodeAll({{.dp = 8}, {.dp = 8, .zero_stage = 1, .zero_bucket_mb = 64}});
  EXPECT_THAT(encoded.dimensions, ElementsAre("zero_stage"));
}

TEST(Encode, TakesOneMicrobatchForANumberLikeOthers) {
  const EncodedSpace encoded = EncodeAll({{.dp = 4},
                                          {.dp = 2, .pp = 2, .microbatches = 2},
                                          {.pp = 4, .microbatches = 16}});
  ASSERT_EQ(encoded.dimensions.back(), "microbatches");
  EXPECT_EQ(encoded.points(encoded.points.rows() - 1, 0), 0.0);
}

TEST(Encode, BelievesATableThatUsesAKnobWhereWeSeeNoEffect) {
  const EncodedSpace encoded = EncodeAll({{.tp = 8, .overlap_p2p = true},
                                          {.tp = 8, .overlap_p2p = false},
                                          {.tp = 4, .pp = 2}});
  const auto row = encoded.points.row(2);  // tp, pp, overlap_p2p
  ASSERT_EQ(encoded.dimensions[2], "overlap_p2p");
  EXPECT_EQ(row[0], 1.0);
  EXPECT_EQ(row[1], 0.0);
}

TEST(Encode, GivesASingleCandidateNoDimensions) {
  const EncodedSpace encoded = EncodeAll({{.dp = 8}});
  EXPECT_EQ(encoded.dimension_count(), 0);
  EXPECT_EQ(encoded.size(), 1);
}

// Knobs of the user.
EncodedSpace EncodeKnobs(const std::string& lines) {
  trials::SearchSpaceOptions options;
  options.knobs = trials::ReadCustomKnobs(
      common::TomlTable::ParseString("[space.custom]\n" + lines, "m.toml")
          .GetTable("space"));
  options.values = {{"dp_bucket_mb", {25}}};
  trials::Workload workload;
  workload.model.layers = workload.model.attention_heads = 1;
  workload.model.kv_heads = workload.batch_size = 1;
  workload.sequence_length = 8;
  options.values["grad_checkpoint"] = {0};
  return Encode(trials::SearchSpace::Enumerate(workload, 1, options));
}

// The first dimension of all candidates.
std::vector<double> Row(const EncodedSpace& space) {
  std::vector<double> row;
  for (int i = 0; i < space.size(); ++i) {
    row.push_back(space.points(0, i));
  }
  return row;
}

TEST(CustomKnobEncoding, ACategoryOfThreeHasADimensionPerValue) {
  const EncodedSpace space = EncodeKnobs("a = [\"x\", \"y\", \"z\"]\n");
  EXPECT_THAT(space.dimensions, ElementsAre("a=x", "a=y", "a=z"));
  EXPECT_EQ(space.points, Eigen::MatrixXd::Identity(3, 3));
}

TEST(CustomKnobEncoding, ALogScaleIsEvenInRatiosAndALinearOneInDifferences) {
  const EncodedSpace log =
      EncodeKnobs("c = {values = [1, 2, 4], scale = \"log\"}\n");
  EXPECT_THAT(Row(log), ElementsAre(0.0, 0.5, 1.0));
  const EncodedSpace linear = EncodeKnobs("c = [0.0, 0.1, 0.4]\n");
  EXPECT_THAT(Row(linear), ElementsAre(0.0, 0.25, 1.0));
}

TEST(CustomKnobEncoding, ASwitchHasOneDimension) {
  EXPECT_THAT(EncodeKnobs("f = [false, true]\n").dimensions, ElementsAre("f"));
}

}  // namespace surrogates::encoding_test
