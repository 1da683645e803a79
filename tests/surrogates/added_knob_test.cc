// A knob is one row: what follows from it, shown for a row of our own.

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/toml_table.h"
#include "surrogates/encoding.h"
#include "tests/fakes/paths.h"
#include "trials/knobs.h"
#include "trials/search_space.h"

namespace surrogates::added_knob_test {

using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using trials::Knob;
using trials::KnobSet;
using trials::ParallelConfig;

// Prefetched parameters, which only ZeRO has.
KnobSet WithPrefetch() {
  return trials::BuiltInKnobs().With(
      {.name = "prefetch_mb",
       .label = "Prefetch (MB)",
       .maximum = 1024,
       .group = trials::KnobGroup::kSharding,
       .grid = {"4, 64",
                [](const trials::Workload&, int) {
                  return std::vector<int>{4, 64};
                }},
       .active = {"zero_stage > 0",
                  [](const ParallelConfig& c) { return c.zero_stage > 0; }},
       .aliases = {"prefetch"},
       .storage = Knob::Custom{.default_value = 32}});
}

class AddedKnob : public ::testing::Test {
 protected:
  [[nodiscard]] trials::SearchSpace Enumerate(const std::string& text) const {
    trials::Workload workload;
    workload.model.layers = workload.model.attention_heads = 4;
    workload.model.kv_heads = workload.batch_size = 4;
    workload.sequence_length = 8;
    return trials::SearchSpace::Enumerate(
        workload, 2,
        trials::ReadSearchSpaceOptions(
            common::TomlTable::ParseString("[space]\n" + text, "fig.toml")
                .GetTable("space"),
            fakes::SourceFolder() / "experiments/rules", knobs_));
  }

  [[nodiscard]] std::vector<int> Values(const trials::SearchSpace& space,
                                        int zero_stage) const {
    std::set<int> values;
    for (const ParallelConfig& config : space.configs()) {
      if (config.zero_stage == zero_stage) {
        values.insert(knob_.Get(config));
      }
    }
    return {values.begin(), values.end()};
  }

  KnobSet knobs_ = WithPrefetch();
  const Knob& knob_ = knobs_.Require("prefetch");
};

TEST_F(AddedKnob, IsEnumeratedWhereItIsActive) {
  const trials::SearchSpace space = Enumerate("");
  EXPECT_THAT(Values(space, 1), UnorderedElementsAre(4, 64));
  EXPECT_THAT(Values(space, 0), UnorderedElementsAre(32));
  EXPECT_THAT(Values(Enumerate("prefetch = [8]\n"), 2),
              UnorderedElementsAre(8));
}

TEST_F(AddedKnob, IsAVariableOfRulesAndItsDropsAreCounted) {
  const trials::SearchSpace all = Enumerate("");
  const trials::SearchSpace space =
      Enumerate("rules = ['$prefetch_mb > 4 && $zero_stage > 1']\n");
  EXPECT_THAT(Values(space, 1), UnorderedElementsAre(4, 64));
  EXPECT_THAT(Values(space, 2), UnorderedElementsAre(4));
  EXPECT_EQ(space.dropped().back().count, all.size() - space.size());
}

TEST_F(AddedKnob, TakesItsDefaultInTheCanonicalFormWhereItIsInactive) {
  ParallelConfig config{.dp = 2, .zero_stage = 1};
  EXPECT_EQ(knob_.Get(config), 32);
  knob_.Set(config, 64);
  EXPECT_EQ(Canonical(config, knobs_), config);
  config.zero_stage = 0;
  EXPECT_EQ(knob_.Get(Canonical(config, knobs_)), 32);
  EXPECT_FALSE(HasEffect(knob_, config, knobs_));
}

TEST_F(AddedKnob, IsADimensionOfTheEncodingCenteredWhereItIsInactive) {
  const trials::SearchSpace space = Enumerate("");
  const EncodedSpace encoded = Encode(space);
  const auto found = std::find(encoded.dimensions.begin(),
                               encoded.dimensions.end(), "prefetch_mb");
  ASSERT_NE(found, encoded.dimensions.end());
  const auto row = encoded.points.row(found - encoded.dimensions.begin());
  for (int i = 0; i < space.size(); ++i) {
    const int value = knob_.Get(space[i]);
    EXPECT_DOUBLE_EQ(row[i], value == 4 ? 0.0 : value == 64 ? 1.0 : 0.5);
  }
}

TEST_F(AddedKnob, IsPrintedParsedAndCompleted) {
  ParallelConfig config{.dp = 2, .zero_stage = 1};
  knob_.Set(config, 64);
  EXPECT_EQ(ToString(config, knobs_),
            "dp=2,tp=1,pp=1,zero_stage=1,prefetch_mb=64");
  EXPECT_EQ(ParseParallelConfig("dp=2,zero=1,prefetch=64", knobs_), config);
  EXPECT_EQ(trials::BuiltInKnobs().Find("prefetch_mb"), nullptr);
  EXPECT_THROW((void)ParseParallelConfig("prefetch=2000", knobs_),
               std::invalid_argument);
  const trials::Completed completed =
      Complete("dp=2,zero=1,zero_bucket=4", Enumerate(""));
  EXPECT_EQ(knob_.Get(completed.config), 64);
  EXPECT_THAT(completed.notes,
              Contains(HasSubstr("prefetch_mb is not given; using 64")));
}

TEST_F(AddedKnob, IsARowOfTheDocumentation) {
  EXPECT_THAT(KnobTable(knobs_),
              EndsWith("| `prefetch_mb` | `prefetch` | 1 to 1024 | 32 | 4, 64 "
                       "| `zero_stage > 0` |\n"));
}

}  // namespace surrogates::added_knob_test
