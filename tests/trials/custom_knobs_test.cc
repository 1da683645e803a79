#include "trials/custom_knobs.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/knobs.h"
#include "trials/record.h"
#include "trials/workload.h"

namespace trials::custom_knobs_test {

using testing::HasSubstr;

KnobSet Read(const std::string& lines) {
  return ReadCustomKnobs(
      common::TomlTable::ParseString("[space.custom]\n" + lines, "m.toml")
          .GetTable("space"));
}

TEST(CustomKnobs, HaveTheFirstValueAsDefaultAndPrintTexts) {
  const KnobSet knobs = Read(
      "attention = [\"flash\", \"sdpa\"]\n"
      "chunk = {values = [4, 1, 2], scale = \"log\"}\n"
      "compile = [false, true]\ndropout = [0.1, 0.5]\n\"Fused Adam\" = "
      "[\"on\"]\n");
  ParallelConfig config{.dp = 2};
  EXPECT_EQ(ToString(config, knobs),
            "dp=2,tp=1,pp=1,attention=flash,chunk=4,compile=false,dropout=0.1,"
            "Fused Adam=on");
  config = ParseParallelConfig("dp=2,attention=sdpa,chunk=2", knobs);
  const Knob& chunk = knobs.Require("chunk");
  EXPECT_EQ(chunk.Number(chunk.Get(config)), 2.0);
  EXPECT_EQ(chunk.scale, KnobScale::kLog2);
  EXPECT_EQ(chunk.minimum, 0);
  EXPECT_EQ(chunk.maximum, 2);
  EXPECT_EQ(chunk.grid.values(Workload(), 1), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(
      Read("a = {values = [0.05, 1], scale = \"log\"}\n").Require("a").scale,
      KnobScale::kLog2);
  EXPECT_EQ(knobs.Require("compile").scale, KnobScale::kCategory);
  EXPECT_EQ(ParseParallelConfig(ToString(config, knobs), knobs), config);
}

TEST(CustomKnobs, RefuseWhatCannotBeSearched) {
  const std::map<std::string, std::string> errors = {
      {"dp = [1, 2]\n", "m.toml:2:6: knob 'dp': the name 'dp' is taken"},
      {"Zero = [1, 2]\n",
       "the name 'Zero' is taken by the parameter 'zero_stage'"},
      {"a = [1]\nA = [2]\n", "the name 'A' is taken by the parameter 'a'"},
      {"outcome = [1, 2]\n", "records have a column of this name"},
      {"a = []\n", "a is an empty list"},
      {"a = [1, 2, 1]\n", "'1' is listed twice"},
      {"a = [1, \"x\"]\n", "values of different types"},
      {"a = [\"x,y\"]\n", "invalid value 'x,y' for a"},
      {"a = ['x=y']\n", "invalid value 'x=y' for a"},
      {"a = ['x\"y']\n", "invalid value 'x\"y' for a"},
      {"a = [' x']\n", "invalid value ' x' for a"},
      {"a = ['x ']\n", "invalid value 'x ' for a"},
      {"a = ['']\n", "invalid value '' for a"},
      {"a = {values = [\"x\", \"y\"], scale = \"log\"}\n", "have no scale"},
      {"a = {values = [0, 1], scale = \"log\"}\n", "no logarithm"},
      {"a = {values = [1, 2], scale = \"lg\"}\n", "unknown scale 'lg'"},
      {"a = {scale = \"log\"}\n", "a needs values = [...]"},
      {"a = {values = [1], vales = 2}\n", "unknown key"},
      {"\"1a\" = [1]\n", "'1a' is not a name"},
  };
  for (const auto& [lines, message] : errors) {
    EXPECT_THAT(fakes::ErrorOf([&, text = lines] { return Read(text); }),
                HasSubstr(message))
        << lines;
  }
}

TEST(CustomKnobs, AreColumnsOfRecordsWithoutChangingOthers) {
  const fakes::TemporaryFolder folder;
  Trial trial{.number = 1, .config = {.dp = 2}};
  const std::string plain = ToRow(trial);
  trial.custom = {{"attention", "flash"}, {"Fused Adam", "on"}};
  fakes::WriteFile(
      folder.path() / "trials.csv",
      TrialsHeader({{"attention", "Fused Adam"}}) + ToRow(trial) + "\n");
  const Trial read = ReadTrials(folder.path()).front();
  EXPECT_EQ(read.custom, trial.custom);
  EXPECT_EQ(CandidateLabel(read),
            "dp=2,tp=1,pp=1,attention=flash,Fused Adam=on");
  EXPECT_EQ(TrialsHeader({}), FileOf<Trial>().header);
  trial.custom.clear();
  EXPECT_EQ(ToRow(trial), plain);
}

TEST(CustomKnobs, HaveNoNameOfARecordsColumn) {
  std::string columns = FileOf<Trial>().header;
  columns = columns.substr(columns.find('\n') + 1);
  columns.pop_back();
  int own = 0;
  for (const std::string_view name : common::Split(columns, ',')) {
    if (BuiltInKnobs().Find(name) == nullptr) {
      EXPECT_THROW((void)Read(std::string(name) + " = [1, 2]\n"),
                   common::InputError)
          << name;
      ++own;
    }
  }
  EXPECT_GT(own, 5);
}

}  // namespace trials::custom_knobs_test
