#include "studies/sensitivity/sensitivity.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/fakes/paths.h"

namespace studies::sensitivity_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kClaim =
    "[[claim]]\ntext = \"c\"\nbetter = \"oppa\"\nworse = \"random\"\n";

class SensitivityTest : public testing::Test {
 protected:
  SensitivityTest() {
    fakes::WriteFile(
        folder_.path() / "base.toml",
        fakes::SmallManifest(R"("random")", "time_minutes = 5\nq_max = 5\n"));
  }

  SensitivityStudy Read(const std::string& text) {
    const auto path = folder_.path() / "study.toml";
    fakes::WriteFile(
        path, "[study]\nexperiments = [\"base.toml\"]\nrepeats = 7\n" + text +
                  kClaim);
    return ReadSensitivityStudy(path, folder_.path() / "results");
  }

  std::string Error(const std::string& text) {
    return fakes::ErrorOf([&] { return Read(text); });
  }

  fakes::ExperimentFolder folder_;
};

TEST_F(SensitivityTest, EveryListIsAnAxisAndTheDefaultComesFirst) {
  const SensitivityStudy study = Read(
      "[[vary]]\nname = \"failure\"\nbackend.failure_s = [5, 30]\n"
      "[[vary]]\nname = \"both\"\nbackend.failure_s = [5, 30]\n"
      "noise.factor = [0.0, 3.0]\n");
  std::vector<std::string> names;
  for (const VariedExperiment& varied : study.experiments) {
    names.push_back(varied.variation.name);
    EXPECT_EQ(varied.overrides.repeats, 7);
    EXPECT_EQ(varied.Folder(),
              folder_.path() / "results/study/base" / varied.variation.name);
  }
  EXPECT_THAT(names,
              ElementsAre("default", "failure-5", "failure-30", "both-5-0",
                          "both-5-3", "both-30-0", "both-30-3"));
  EXPECT_EQ(study.experiments[4].variation.value, "5, 3");
  EXPECT_THAT(
      study.experiments[1].overrides.settings,
      ElementsAre("backend.failure_s=5", "experiment.name=\"failure-5\""));
  EXPECT_THAT(study.experiments[0].overrides.methods,
              ElementsAre("oppa", "random"));
}

TEST_F(SensitivityTest, VariationsOfAnotherStudyComeAfterItsOwn) {
  fakes::WriteFile(folder_.path() / "other.toml",
                   "[[vary]]\nname = \"failure\"\nbackend.failure_s = [5]\n");
  const SensitivityStudy study = Read(
      "vary_as = \"other.toml\"\n"
      "[[vary]]\nname = \"noise\"\nnoise.factor = [3.0]\n");
  ASSERT_EQ(study.experiments.size(), 3U);
  EXPECT_EQ(study.experiments[1].variation.name, "noise-3");
  EXPECT_EQ(study.experiments[2].variation.name, "failure-5");
}

TEST_F(SensitivityTest, RunsThatAVariationDoesNotAffectAreShared) {
  const SensitivityStudy study = Read(
      "[[vary]]\nname = \"q\"\nmethod.oppa.q_min = [2]\n"
      "[[vary]]\nname = \"again\"\nmethod.oppa.q_min = [2]\n");
  const VariedExperiment& varied = study.experiments[1];
  EXPECT_THAT(varied.overrides.methods, ElementsAre("oppa"));
  EXPECT_EQ(varied.records.at("random"), study.experiments[0].Folder());
  EXPECT_EQ(varied.records.at("oppa"), varied.Folder());
  EXPECT_EQ(varied.variation.value, "2");
  EXPECT_THAT(study.experiments[2].overrides.methods, IsEmpty());
  EXPECT_EQ(study.experiments[2].records.at("oppa"), varied.Folder());
}

TEST_F(SensitivityTest, ClustersAreDrawnFromTheirSourcesAndNotFromEachOther) {
  const auto clusters = [&](const std::string& draws) {
    const SensitivityStudy study = Read("clusters = 30\n" + draws);
    return std::vector(study.variations.begin() + 1, study.variations.end());
  };
  const std::string speed =
      "[[draw]]\nkey = \"cluster.gpu_speed_factor\"\nvalues = [0.5, 2]\n";
  const std::string failure =
      "[[draw]]\nkey = \"backend.failure_s\"\nlog_uniform = [5, 500]\n";
  const auto both = clusters(speed + failure);
  const auto alone = clusters(failure);
  ASSERT_EQ(both.size(), 30U);
  EXPECT_EQ(both[6].name, "cluster-07");
  EXPECT_EQ(both[6].settings[0], "noise.landscape_seed=7");
  int below_50 = 0;
  std::set<double> speeds;
  for (std::size_t c = 0; c < both.size(); ++c) {
    const double failure_s = both[c].draws[1].second;
    EXPECT_EQ(alone[c].draws[0].second, failure_s);
    EXPECT_TRUE(failure_s >= 5 && failure_s <= 500) << failure_s;
    below_50 += failure_s < 50 ? 1 : 0;
    speeds.insert(both[c].draws[0].second);
  }
  EXPECT_THAT(speeds, ElementsAre(0.5, 2.0));
  EXPECT_NEAR(below_50, 15, 7);  // half of the logarithms
}

TEST_F(SensitivityTest, WrongDrawsAreErrors) {
  for (const char* rest :
       {"", "values = [1]\nlog_uniform = [1, 2]\n", "log_uniform = [2, 1]\n",
        "log_uniform = [0, 1]\n", "log_uniform = [1]\n"}) {
    EXPECT_THAT(
        Error("[[draw]]\nkey = \"backend.failure_s\"\n" + std::string(rest)),
        HasSubstr("draw 'backend.failure_s': give either values"))
        << rest;
  }
}

TEST_F(SensitivityTest, WrongVariationsAreErrorsWithTheirPlace) {
  EXPECT_THAT(
      Error("[[vary]]\nname = \"failure\"\nbackend.failure_s = [5, -5]\n"),
      AllOf(HasSubstr("study.toml:4:1: failure--5 of base: "),
            HasSubstr("--set backend.failure_s=-5"),
            HasSubstr("must be a number >= 0")));
  EXPECT_THAT(Error("[[vary]]\nname = \"x\"\nmethod.oppa.no_option = [1]\n"),
              AllOf(HasSubstr("study.toml:4:1: x-1 of base: "),
                    HasSubstr("unknown key 'method.oppa.no_option'")));
  EXPECT_THAT(Error("[[vary]]\nname = \"x\"\nfailure_s = [5]\n"),
              HasSubstr("study.toml:6:13: unknown key 'vary.failure_s'"));
  EXPECT_THAT(Error("[[vary]]\nname = \"x\"\n"),
              HasSubstr("vary 'x' has no constant"));
  EXPECT_THAT(Error("[[vary]]\nname = \"x\"\nexperiments = [\"bse\"]\n"
                    "noise.factor = [0.0]\n"),
              HasSubstr("unknown experiment 'bse' (did you mean 'base'?)"));
  EXPECT_THAT(Error("[[vary]]\nname = \"x\"\nnoise.factor = [3]\n"
                    "[[vary]]\nname = \"x\"\nnoise.factor = [3]\n"),
              HasSubstr("two variations have the name 'x-3'"));
}

TEST_F(SensitivityTest, AVariationCannotRunHeldOutProblems) {
  std::string text =
      fakes::SmallManifest(R"("random")", "time_minutes = 5\nq_max = 5\n");
  const std::string size = "batch_size = 64";
  text.replace(text.find(size), size.size(), "batch_size = [8, 16]");
  const std::string repeats = "repeats = 2";
  text.replace(text.find(repeats), repeats.size(),
               "repeats = 2\nheld_out = \"odd\"");
  fakes::WriteFile(folder_.path() / "base.toml", text);
  EXPECT_THAT(Error("[[vary]]\nname = \"x\"\nworkload.batch_size = [16]\n"),
              AllOf(HasSubstr("study.toml:4:1: x"),
                    HasSubstr("only a run with --held-out can set it")));
  EXPECT_THAT(Error("[[vary]]\nname = \"x\"\nexperiment.held_out = [\"b8\"]\n"),
              HasSubstr("held-out problems are a property of the manifest"));
}

TEST(SensitivityManifest, TheShippedStudyIsValidUnderEveryVariation) {
  const SensitivityStudy study = ReadSensitivityStudy(
      fakes::SourceFolder() / "experiments/studies/sensitivity.toml", "none");
  EXPECT_EQ(study.repeats, 10);
  EXPECT_EQ(study.claims.size(), 9U);
}

TEST(SensitivityManifest, TheShippedClaimsAreJudgedOnEveryCluster) {
  const SensitivityStudy study = ReadSensitivityStudy(
      fakes::SourceFolder() / "experiments/studies/landscapes.toml", "none");
  EXPECT_EQ(std::ranges::count_if(
                study.variations,
                [](const Variation& each) { return !each.draws.empty(); }),
            40);
  // The ablations are rivals on Qwen and BERT only.
  for (const VariedExperiment& varied : study.experiments) {
    EXPECT_TRUE(varied.records.contains("oppa-paper")) << varied.experiment;
    EXPECT_EQ(
        varied.records.contains("oppa-paper-no-prior"),
        varied.experiment == "qwen-8gpu" || varied.experiment == "bert-8gpu");
  }
}

TEST(Effect, HoldsTurnsOrStaysOpenByItsInterval) {
  const auto verdict = [](const std::vector<std::vector<double>>& pairs) {
    return EffectOf(pairs).verdict();
  };
  EXPECT_EQ(verdict({{1, 2, 3, 4, 5, 6}}), Verdict::kHolds);
  EXPECT_EQ(verdict({{-1, -2, -3, -4, -5, -6}}), Verdict::kTurns);
  EXPECT_EQ(verdict({{-3, -2, -1, 1, 2, 3}}), Verdict::kOpen);
  EXPECT_EQ(verdict({{0, 0, 0, 0, 0, 0}}), Verdict::kOpen);
  EXPECT_EQ(verdict({}), Verdict::kOpen);
}

TEST(Effect, FewerThanSixPairsLeaveItOpen) {
  EXPECT_EQ(EffectOf({{1, 2, 3, 4, 5}}).verdict(), Verdict::kOpen);
  EXPECT_EQ(EffectOf({{1, 2, 3}, {4, 5, 6}}).verdict(), Verdict::kHolds);
}

}  // namespace studies::sensitivity_test
