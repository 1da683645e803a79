// The encoding of knobs of the user's own.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/toml_table.h"
#include "surrogates/encoding.h"
#include "trials/custom_knobs.h"
#include "trials/search_space.h"

namespace surrogates::custom_knobs_encoding_test {

using testing::ElementsAre;

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

}  // namespace surrogates::custom_knobs_encoding_test
