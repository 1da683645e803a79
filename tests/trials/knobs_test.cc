#include "trials/knobs.h"

#include <algorithm>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/paths.h"
#include "trials/rules.h"
#include "trials/workload.h"

namespace trials::knobs_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ParallelConfig, EveryMemberIsAKnob) {
  // A config whose members all differ from the default: if a member had no
  // row, copying knob by knob would lose it.
  const ParallelConfig all{.dp = 2,
                           .tp = 3,
                           .pp = 4,
                           .dp_bucket_mb = 5,
                           .zero_stage = 1,
                           .zero_bucket_mb = 7,
                           .overlap_zero_comm = false,
                           .overlap_zero_allgather = true,
                           .microbatches = 8,
                           .model_chunks = 9,
                           .overlap_p2p = true,
                           .grad_checkpoint = true,
                           .micro_batch_size = 10,
                           .ep = 11,
                           .cp = 12,
                           .sp = 13,
                           .dp_replicate = 2,
                           .etp = 1,
                           .torch_compile = kCompiled};
  ParallelConfig copy;
  std::set<std::string_view> names;
  for (const Knob& knob : BuiltInKnobs()) {
    EXPECT_NE(knob.Get(all), knob.Get(copy)) << knob.name;
    EXPECT_TRUE(knob.InRange(knob.Default())) << knob.name;
    knob.Set(copy, knob.Get(all));
    EXPECT_TRUE(names.insert(knob.name).second) << knob.name;
    EXPECT_EQ(BuiltInKnobs().Find(knob.name), &knob);
  }
  EXPECT_EQ(copy, all);
}

TEST(ParallelConfig, TextReadsBackAsTheSameConfiguration) {
  EXPECT_EQ(ToString(ParallelConfig{}), "dp=1,tp=1,pp=1");
  const ParallelConfig config{.dp = 4,
                              .pp = 2,
                              .zero_stage = 1,
                              .overlap_zero_comm = false,
                              .microbatches = 8,
                              .grad_checkpoint = true};
  EXPECT_EQ(ToString(config),
            "dp=4,tp=1,pp=2,zero_stage=1,overlap_zero_comm=0,microbatches=8,"
            "grad_checkpoint=1");
  EXPECT_EQ(ParseParallelConfig(ToString(config)), config);
}

TEST(ParallelConfig, AParameterIsGivenOnce) {
  EXPECT_THAT(fakes::ErrorOf([] { (void)ParseParallelConfig("dp=8,dp=4"); }),
              testing::HasSubstr("dp is given twice"));
  for (const char* both :
       {"tp=2,sp=1,sequence_parallel=1", "tp=2,sp=2,sequence_parallel=0",
        "tp=2,sequence_parallel=1,sequence_parallel=0"}) {
    EXPECT_THAT(fakes::ErrorOf([&] { (void)ParseParallelConfig(both); }),
                testing::HasSubstr("sp is given twice"))
        << both;
  }
}

TEST(ParallelConfig, AFlagThatIsOnHasAnEffect) {
  EXPECT_THAT(
      fakes::ErrorOf([] { (void)ParseParallelConfig("sequence_parallel=1"); }),
      testing::HasSubstr("has no effect without tp > 1"));
  EXPECT_EQ(ParseParallelConfig("tp=2,sequence_parallel=1").sp, 2);
  EXPECT_EQ(ParseParallelConfig("sequence_parallel=0").sp, 1);
}

TEST(ParallelConfig, ParsesAnyOrderAliasesSpacesAndFlags) {
  EXPECT_EQ(
      ParseParallelConfig(" mb = 8, dp=2 , gradient_checkpointing=true,"),
      (ParallelConfig{.dp = 2, .microbatches = 8, .grad_checkpoint = true}));
  EXPECT_EQ(ParseParallelConfig(""), ParallelConfig{});
}

std::string Error(std::string_view text) {
  return fakes::ErrorOf([&] { return ParseParallelConfig(text); });
}

TEST(ParallelConfig, ErrorsNameTheFieldTheValueAndTheRemedy) {
  EXPECT_THAT(Error("zero_stag=1"),
              AllOf(HasSubstr("unknown field 'zero_stag'"),
                    HasSubstr("did you mean 'zero_stage'?"),
                    HasSubstr("microbatches")));
  EXPECT_THAT(Error("zero_stage=7"),
              HasSubstr("invalid value '7' for zero_stage: 0 to 3"));
  EXPECT_THAT(Error("dp=0"),
              HasSubstr("invalid value '0' for dp: an integer from 1"));
  EXPECT_THAT(Error("dp=-1"), HasSubstr("invalid value '-1' for dp"));
  EXPECT_THAT(Error("dp=true"), HasSubstr("invalid value 'true' for dp"));
  EXPECT_THAT(Error("overlap_p2p=2"), HasSubstr("true (1) or false (0)"));
  EXPECT_THAT(Error("grad_checkpoint=3"),
              HasSubstr("false (0), true (1) or up to 2"));
  EXPECT_THAT(Error("dp=2.5"), HasSubstr("'2.5'"));
  EXPECT_THAT(Error("dp=1e300"), HasSubstr("'1e300'"));
  EXPECT_THAT(Error("dp=nan"), HasSubstr("'nan'"));
  EXPECT_THAT(Error("dp="), HasSubstr("invalid value '' for dp"));
  EXPECT_THAT(Error("dp"), HasSubstr("not of the form field=value"));
  EXPECT_EQ(Error("dp=4.0"), "no error");
}

TEST(ParallelConfig, SpIsASizeAndItsFlagIsTheTensorParallelSize) {
  EXPECT_EQ(ParseParallelConfig("tp=4,sp=1"), ParallelConfig{.tp = 4});
  EXPECT_EQ(ParseParallelConfig("tp=4,sp=2").sp, 2);
  const ParallelConfig split{.tp = 4, .sp = 4};
  EXPECT_EQ(ParseParallelConfig("tp=4,sequence_parallel=true"), split);
  EXPECT_EQ(ParseParallelConfig("sequence_parallel=1,tp=4"), split);
  EXPECT_EQ(ParseParallelConfig("tp=4,sequence_parallel=0").sp, 1);
  EXPECT_EQ(ToString(split), "dp=1,tp=4,pp=1,sp=4");
  EXPECT_EQ(Error("sp=0"),
            "invalid value '0' for sp: an integer from 1 (1 is off); the flag "
            "is sequence_parallel");
  EXPECT_EQ(Error("sequence_parallel=4"),
            "invalid value '4' for sequence_parallel: true (1) or false (0)");
}

// Small values of every knob, canonical or not.
ParallelConfig RandomConfig(std::mt19937& random) {
  ParallelConfig config;
  for (const Knob& knob : BuiltInKnobs()) {
    const int most = std::min(knob.maximum, knob.minimum + 3);
    knob.Set(config,
             std::uniform_int_distribution<int>(knob.minimum, most)(random));
  }
  return config;
}

void ExpectCanonical(const ParallelConfig& config) {
  const ParallelConfig canonical = Canonical(config);
  EXPECT_EQ(Canonical(canonical), canonical);
  for (const Knob& knob : BuiltInKnobs()) {
    const bool active = !knob.active.holds || knob.active.holds(canonical);
    EXPECT_EQ(knob.Get(canonical), active ? knob.Get(config) : knob.Default())
        << knob.name;
    EXPECT_EQ(HasEffect(knob, config), active);
  }
}

TEST(Knobs, InactiveOnesHaveTheirDefaultInTheCanonicalFormOthersTheirValue) {
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    const ParallelConfig config = RandomConfig(random);
    SCOPED_TRACE(ToString(config));
    ExpectCanonical(config);
  }
}

TEST(Knobs, ConditionsInWordsAreTheConditions) {
  std::mt19937 random(2);
  for (const Knob& knob : BuiltInKnobs()) {
    ASSERT_EQ(knob.active.text.empty(), !knob.active.holds) << knob.name;
    if (!knob.active.holds) {
      continue;
    }
    const std::string text =
        std::regex_replace(knob.active.text, std::regex("[a-z_]+"), "$$$&");
    const Rule rule = Rule::Parse(text, "test", knob.name);
    for (int i = 0; i < 500; ++i) {
      const ParallelConfig config = RandomConfig(random);
      ASSERT_EQ(rule.Matches(config, {}), knob.active.holds(config))
          << text << " for " << ToString(config);
    }
  }
}

Knob Offload() {
  return {.name = "offload", .minimum = 0, .aliases = {"cpu_offload"}};
}

std::string ErrorOf(const Knob& knob, const KnobSet& knobs = BuiltInKnobs()) {
  return fakes::ErrorOf([&] { return knobs.With(knob); });
}

TEST(Knobs, ARowThatDoesNotFitTheTableIsAnError) {
  EXPECT_EQ(ErrorOf(Offload()), "no error");
  EXPECT_THAT(ErrorOf(Offload(), BuiltInKnobs().With(Offload())),
              HasSubstr("'cpu_offload' is taken"));
  Knob knob = Offload();
  knob.name = "mb";
  EXPECT_THAT(ErrorOf(knob), HasSubstr("the name 'mb' is taken"));
  knob.name = "off,load";
  EXPECT_THAT(ErrorOf(knob), HasSubstr("'off,load' is not a name"));
  knob = Offload();
  knob.minimum = 1;
  EXPECT_THAT(ErrorOf(knob), HasSubstr("a default value in its range"));
  knob.minimum = -1;
  EXPECT_THAT(ErrorOf(knob), HasSubstr("the minimum must be 0 or more"));
}

// A new row of the table must not change the spaces of existing manifests: it
// has one value unless it says more, also if it is a flag. These are the rows
// that say so; another one enlarges every space.
TEST(Knobs, OnlyTheseRowsVaryUnlessAManifestListsValues) {
  std::set<std::string> varying;
  for (const Knob& knob : BuiltInKnobs()) {
    if (knob.grid.values) {
      varying.insert(knob.name);
    }
  }
  EXPECT_THAT(
      varying,
      testing::UnorderedElementsAre(
          "dp", "tp", "pp", "dp_bucket_mb", "zero_stage", "zero_bucket_mb",
          "overlap_zero_comm", "overlap_zero_allgather", "microbatches",
          "model_chunks", "overlap_p2p", "grad_checkpoint", "ep"));
  EXPECT_FALSE(FlagKnob({.name = "overlap_tp"}).grid.values);
}

TEST(Knobs, ThereIsRoomForEightWithoutAMember) {
  KnobSet knobs = BuiltInKnobs();
  for (int i = 0; i < ParallelConfig::kCustomKnobs; ++i) {
    knobs = knobs.With({.name = "own" + std::to_string(i), .minimum = 0});
  }
  EXPECT_THAT(ErrorOf(Offload(), knobs), HasSubstr("at most 8"));
}

TEST(Knobs, TheDocumentationHasTheTable) {
  EXPECT_THAT(common::ReadFile(fakes::SourceFolder() / "docs/search_space.md"),
              HasSubstr(KnobTable()));
}

TEST(Knobs, NamesHaveLettersDigitsAndFourSigns) {
  for (const char* name : {"a", "z", "A", "Z", "x0", "x9", "x_y", "x-y z"}) {
    Knob knob{.name = name, .minimum = 0};
    EXPECT_EQ(ErrorOf(knob), "no error") << name;
  }
  for (const char* name : {"", "9", "_x", "x ", "x/", "x:", "x@", "x[", "x`",
                           "x{", "x.", "/x", "[x", "@x", "`x", "{x"}) {
    Knob knob{.name = name, .minimum = 0};
    EXPECT_THAT(ErrorOf(knob), HasSubstr("is not a name")) << name;
  }
}

TEST(Knobs, GridsOfPowersOfTwoEndAtTheBatchOrTheLayers) {
  Workload workload;
  workload.batch_size = 8;
  workload.model.layers = 7;
  const auto values = [&](const char* name) {
    return BuiltInKnobs().Require(name).grid.values(workload, 6);
  };
  EXPECT_EQ(values("microbatches"), (std::vector<int>{1, 2, 4, 8}));
  EXPECT_EQ(values("model_chunks"), (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(values("dp"), (std::vector<int>{1, 2, 3, 6}));
}

}  // namespace trials::knobs_test
