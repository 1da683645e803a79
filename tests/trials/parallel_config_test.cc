#include "trials/parallel_config.h"

#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trials {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ParallelConfig, EveryMemberIsAField) {
  // A config whose members all differ from the default: if a member had no
  // field, copying field by field would lose it.
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
                           .sp = true};
  ParallelConfig copy;
  std::set<std::string_view> names;
  for (const ConfigField& field : ConfigFields()) {
    EXPECT_NE(field.get(all), field.get(copy)) << field.name;
    field.set(copy, field.get(all));
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_EQ(FindConfigField(field.name), &field);
  }
  EXPECT_EQ(copy, all);
}

TEST(ParallelConfig, DefaultsLieInTheirRanges) {
  for (const ConfigField& field : ConfigFields()) {
    EXPECT_GE(field.get({}), field.minimum) << field.name;
    EXPECT_LE(field.get({}), field.maximum) << field.name;
  }
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

TEST(ParallelConfig, ParsesAnyOrderAliasesSpacesAndFlags) {
  EXPECT_EQ(
      ParseParallelConfig(" mb = 8, dp=2 , gradient_checkpointing=true,"),
      (ParallelConfig{.dp = 2, .microbatches = 8, .grad_checkpoint = true}));
  EXPECT_EQ(ParseParallelConfig(""), ParallelConfig{});
}

std::string Error(std::string_view text) {
  try {
    (void)ParseParallelConfig(text);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

TEST(ParallelConfig, ErrorsNameTheFieldTheValueAndTheRemedy) {
  EXPECT_THAT(Error("zero_stag=1"),
              AllOf(HasSubstr("unknown field 'zero_stag'"),
                    HasSubstr("did you mean 'zero_stage'?"),
                    HasSubstr("microbatches")));
  EXPECT_THAT(Error("zero_stage=7"),
              HasSubstr("'7' is no value for zero_stage: 0 to 3"));
  EXPECT_THAT(Error("dp=0"),
              HasSubstr("'0' is no value for dp: a whole number from 1"));
  EXPECT_THAT(Error("dp=-1"), HasSubstr("'-1' is no value for dp"));
  EXPECT_THAT(Error("dp=true"), HasSubstr("'true' is no value for dp"));
  EXPECT_THAT(Error("sp=2"), HasSubstr("true (1) or false (0)"));
  EXPECT_THAT(Error("grad_checkpoint=3"),
              HasSubstr("false (0), true (1) or up to 2"));
  EXPECT_THAT(Error("dp=2.5"), HasSubstr("'2.5'"));
  EXPECT_THAT(Error("dp=1e300"), HasSubstr("'1e300'"));
  EXPECT_THAT(Error("dp=nan"), HasSubstr("'nan'"));
  EXPECT_THAT(Error("dp="), HasSubstr("'' is no value for dp"));
  EXPECT_THAT(Error("dp"), HasSubstr("not of the form field=value"));
  EXPECT_EQ(Error("dp=4.0"), "no error");
}

TEST(ParallelConfig, NumbersAreCheckedAgainstTheRange) {
  ParallelConfig config;
  SetField(config, *FindConfigField("zero"), 2);
  EXPECT_EQ(config.zero_stage, 2);
  EXPECT_THROW(SetField(config, *FindConfigField("zero"), 4),
               std::invalid_argument);
  EXPECT_THROW(SetField(config, *FindConfigField("dp"), 1LL << 40),
               std::invalid_argument);
  EXPECT_EQ(config.zero_stage, 2);
}

}  // namespace
}  // namespace trials
