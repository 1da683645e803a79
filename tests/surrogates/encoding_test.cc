#include "surrogates/encoding.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace surrogates {
namespace {

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
  const EncodedSpace encoded = EncodeAll({{.dp = 1, .zero_stage = 0},
                                          {.dp = 2, .zero_stage = 1},
                                          {.dp = 16, .zero_stage = 2}});
  EXPECT_THAT(encoded.dimensions, ElementsAre("dp", "zero_stage"));
  EXPECT_DOUBLE_EQ(encoded.points(0, 1), 0.25);
  EXPECT_DOUBLE_EQ(encoded.points(1, 1), 0.5);
}

TEST(Encode, GivesASingleCandidateNoDimensions) {
  const EncodedSpace encoded = EncodeAll({{.dp = 8}});
  EXPECT_EQ(encoded.dimension_count(), 0);
  EXPECT_EQ(encoded.size(), 1);
}

TEST(Columns, FollowTheOrderGiven) {
  const EncodedSpace encoded = EncodeAll({{.dp = 1}, {.dp = 2}, {.dp = 4}});
  const Eigen::MatrixXd columns = Columns(encoded, {2, 0, 2});
  EXPECT_EQ(columns(0, 0), 1.0);
  EXPECT_EQ(columns(0, 1), 0.0);
  EXPECT_EQ(columns(0, 2), 1.0);
}

}  // namespace
}  // namespace surrogates
