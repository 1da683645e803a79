#include "harness/testbeds/predictions.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "harness/manifest/manifest.h"
#include "harness/records/inputs.h"
#include "harness/registry.h"
#include "harness/run_matrix.h"
#include "harness/testbed.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/record.h"

namespace harness::predictions_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using trials::Predictions;

class PredictionsTest : public testing::Test {
 protected:
  // A manifest of the simulator with these lines added.
  Manifest Read(const std::string& more) {
    return ReadText(fakes::SmallManifest(R"("random", "predicted-order")",
                                         "trials = 3\nq_max = 4\n\n" + more));
  }
  Manifest ReadText(const std::string& text) {
    fakes::WriteFile(path_, text);
    return ReadManifest(path_, {});
  }

  // The predictions of a source of the first problem.
  static Predictions Predict(const Manifest& manifest,
                             const std::string& name = "") {
    return MakeTestbed(manifest.problems.front()).predictions(name).predict();
  }

  // A replay of a table with five configurations on 8 GPUs.
  Manifest ReadReplay(const std::string& scenario, const std::string& more) {
    fakes::WriteFile(folder_.path() / "t.csv",
                     "scenario,gpus,dp,tp,pp,micro_batch_size,microbatches,"
                     "status,step_time_s\n" +
                         scenario + ",8,8,1,1,1,8,ok,1.0\n" + scenario +
                         ",8,4,2,1,2,8,ok,2.0\n" + scenario +
                         ",8,4,1,2,2,8,oom,\n" + scenario +
                         ",8,2,1,4,2,16,ok,4.0\n" + scenario +
                         ",8,1,8,1,8,8,ok,3.0\n");
    return ReadText(
        "[experiment]\nmethods = [\"predicted-order\"]\n"
        "[backend]\ntype = \"replay\"\ntable = \"t.csv\"\n"
        "scenarios = \"" +
        scenario +
        "\"\n[cluster]\nfile = \"clusters/h100-efa.toml\"\n"
        "[budget]\ntrials = 3\nq_max = 4\n" +
        more);
  }

  fakes::ExperimentFolder folder_;
  std::filesystem::path path_ = folder_.path() / "m.toml";
};

constexpr const char* kOther = R"([predictions]
cluster = "a100-selene"
framework = "megatron-core"
)";

TEST_F(PredictionsTest, ASimulatedProblemRejectsPredictionsOfItsOwnMachine) {
  for (const char* own : {"", "[predictions]\ncluster = \"a5000-8\"\n",
                          "[predictions]\nframework = \"colossalai\"\n",
                          "[predictions]\nmemory_factor = 0.5\n"}) {
    EXPECT_THAT([&] { (void)CheckManifest(Read(own)); },
                ThrowsMessage<common::InputError>(AllOf(
                    HasSubstr("m.toml"), HasSubstr("are the ground truth"),
                    HasSubstr("Name another machine in [predictions]"))))
        << own;
  }
  EXPECT_NO_THROW((void)CheckManifest(
      Read("[predictions]\nframework = \"megatron-core\"\n")));
  EXPECT_NO_THROW(
      (void)CheckManifest(Read("[predictions]\ncluster = \"v100-dgx1\"\n")));
}

TEST_F(PredictionsTest, ACopyOfTheClusterFileIsStillTheGroundTruth) {
  std::filesystem::copy_file(folder_.path() / "clusters/a5000-8.toml",
                             folder_.path() / "copy.toml");
  EXPECT_THAT(
      [&] {
        (void)CheckManifest(Read("[predictions]\ncluster = \"copy.toml\"\n"));
      },
      ThrowsMessage<common::InputError>(HasSubstr("are the ground truth")));
}

TEST_F(PredictionsTest, OtherCostsOfATrialDoNotHideTheGroundTruth) {
  for (const char* setting :
       {"backend.failure_s=5", "backend.setup_factor=2"}) {
    EXPECT_THAT(
        [&] {
          (void)Read("[predictions]\nframework = \"colossalai\"\n");
          (void)CheckManifest(ReadManifest(path_, {.settings = {setting}}));
        },
        ThrowsMessage<common::InputError>(HasSubstr("are the ground truth")))
        << setting;
  }
}

TEST_F(PredictionsTest, ProportionalStepTimesAreTheGroundTruth) {
  const auto check = [this](const std::string& launch_s) {
    fakes::WriteFile(folder_.path() / "mine.toml",
                     "launch_s = " + launch_s + "\n");
    (void)CheckManifest(Read("[predictions]\nframework = \"mine.toml\"\n"));
  };
  for (const char* launch_s : {"2.000001e-6", "2.001e-6"}) {
    EXPECT_THAT([&] { check(launch_s); },
                ThrowsMessage<common::InputError>(AllOf(
                    HasSubstr("m.toml"),
                    HasSubstr("are the ground truth: their step times are "
                              "proportional to those of the trials"),
                    HasSubstr("Name another machine in [predictions]"))));
  }
  EXPECT_NO_THROW(check("20e-6"));
}

TEST_F(PredictionsTest, AMethodWithoutPredictionsNeedsNoTable) {
  Manifest manifest = Read("");
  manifest.methods.resize(1);
  EXPECT_EQ(manifest.methods.front().name, "random");
  EXPECT_NO_THROW((void)CheckManifest(manifest));
}

TEST_F(PredictionsTest, ANamedSourceOverridesSomeKeysAndInheritsTheRest) {
  const Manifest manifest =
      Read(std::string(kOther) +
           "[predictions.half]\nmemory_factor = 0.5\ntime_factor = 3\n");
  const Predictions base = Predict(manifest);
  const Predictions half = Predict(manifest, "half");
  ASSERT_EQ(half.step_time_s.size(), base.step_time_s.size());
  for (std::size_t i = 0; i < base.step_time_s.size(); ++i) {
    EXPECT_EQ(half.step_time_s[i], 3.0 * base.step_time_s[i]);
    EXPECT_EQ(half.peak_memory_bytes[i], 0.5 * base.peak_memory_bytes[i]);
  }
  EXPECT_EQ(base.source,
            "simulator of a100-selene (8 x A100-SXM4-80GB), megatron-core");
  EXPECT_EQ(half.source, base.source + "; time x 3; memory x 0.5");
}

TEST_F(PredictionsTest, PermutedPredictionsAreThoseOfAnotherCandidate) {
  const Manifest manifest =
      Read(std::string(kOther) + "[predictions.shuffled]\npermute = true\n");
  const auto pairs = [&](const std::string& name) {
    const Predictions predictions = Predict(manifest, name);
    std::vector<std::pair<double, double>> both;
    for (std::size_t i = 0; i < predictions.step_time_s.size(); ++i) {
      both.emplace_back(predictions.step_time_s[i],
                        predictions.peak_memory_bytes[i]);
    }
    return both;
  };
  auto base = pairs("");
  auto shuffled = pairs("shuffled");
  EXPECT_EQ(shuffled, pairs("shuffled"));
  int moved = 0;
  for (std::size_t i = 0; i < base.size(); ++i) {
    moved += base[i] != shuffled[i] ? 1 : 0;
  }
  EXPECT_GT(moved, static_cast<int>(base.size()) * 9 / 10);
  std::sort(base.begin(), base.end());
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(base, shuffled);
}

TEST_F(PredictionsTest, AListOfClustersIsSearchedForAnotherArchitecture) {
  const std::string list =
      "[predictions]\ncluster = [\"a100-selene\", \"h100-infiniband\"]\n";
  EXPECT_THAT(Predict(Read(list)).source, HasSubstr("a100-selene"));
  std::string text = fakes::SmallManifest(R"("predicted-order")",
                                          "trials = 3\nq_max = 4\n" + list);
  text.replace(text.find("a5000-8"), 7, "a100-40gb-roce");
  EXPECT_THAT(Predict(ReadText(text)).source, HasSubstr("h100-infiniband"));
}

TEST_F(PredictionsTest, ThePredictedMachineHasAsManyGpusAsTheProblem) {
  std::string text = fakes::SmallManifest(
      R"("predicted-order")",
      "trials = 3\nq_max = 4\n[predictions]\ncluster = \"a100-8x4\"\n");
  EXPECT_THAT(Predict(ReadText(text)).source, HasSubstr("(8 x A100"));
  text.replace(text.find("a5000-8.toml\""), 13, "a5000-8.toml\"\ngpus = 2");
  EXPECT_THAT(Predict(ReadText(text)).source, HasSubstr("(2 x A100"));
}

TEST_F(PredictionsTest, EveryCandidateHasAPredictionAndInvalidOnesAreCounted) {
  // tp = 8 does not divide the 12 heads of this model.
  const Predictions predictions =
      Predict(ReadReplay("mine-8",
                         "[workload]\nmodel = \"workloads/qwen2-1.5b.json\"\n"
                         "batch_size = 64\nsequence_length = 1024\n"));
  EXPECT_THAT(predictions.source,
              HasSubstr("; 1 of 5 candidates are invalid there"));
  for (const auto* values :
       {&predictions.step_time_s, &predictions.peak_memory_bytes}) {
    double product = 1.0;
    for (int i = 0; i < 4; ++i) {
      product *= (*values)[i];
    }
    EXPECT_NEAR((*values)[4] / std::pow(product, 0.25), 1.0, 1e-12);
  }
}

TEST_F(PredictionsTest, AMachineThatRunsNoCandidateIsAnError) {
  EXPECT_THAT(
      [this] {
        (void)CheckManifest(
            ReadReplay("mine-8",
                       "[workload]\nmodel = \"workloads/qwen2-1.5b.json\"\n"
                       "batch_size = 7\nsequence_length = 1024\n"));
      },
      ThrowsMessage<common::InputError>(
          HasSubstr("runs none of the candidates")));
}

TEST_F(PredictionsTest, MistakesInTheTableHaveAPlaceAndARemedy) {
  const auto error = [this](const std::string& more) -> std::string {
    try {
      (void)CheckManifest(Read(more));
    } catch (const common::InputError& e) {
      return e.what();
    }
    return "no error";
  };
  const std::string other = kOther;
  EXPECT_THAT(error(other + "memory_factor = -1\n"),
              HasSubstr("memory_factor"));
  for (const char* key : {"memory_factor", "time_factor"}) {
    for (const char* factor : {"1e-4", "1001", "inf", "nan"}) {
      EXPECT_THAT(error(fmt::format("{}{} = {}\n", other, key, factor)),
                  AllOf(HasSubstr("m.toml:"), HasSubstr(key),
                        HasSubstr("must be a number from 0.001 to 1000")));
    }
    EXPECT_EQ(error(fmt::format("{}{} = 1e3\n", other, key)), "no error");
  }
  EXPECT_THAT(error(other + "memroy_factor = 2\n"), HasSubstr("memroy_factor"));
  EXPECT_THAT(error(other + "facts = \"vtrain\"\n"),
              HasSubstr("facts describe measured tables"));
  EXPECT_THAT(error("[predictions]\ncluster = \"b200\"\n"),
              HasSubstr("'b200'"));
  EXPECT_THAT(error(other + "[predictions.a]\nbatch = 1\n"),
              HasSubstr("unknown key 'predictions.a.batch'"));
  EXPECT_THAT(
      error(other + "[predictions.half]\nmemory_factor = 0.5\n"
                    "[method.predicted-order]\npredictions = \"hal\"\n"),
      AllOf(HasSubstr("[predictions.hal]"), HasSubstr("half")));
}

TEST_F(PredictionsTest, OnlyMethodsThatUsePredictionsDependOnThem) {
  const auto hash = [](const Manifest& manifest, std::size_t method) {
    const ProblemSpec& problem = manifest.problems.front();
    return RunHash(InputsOf(manifest, problem, manifest.methods[method],
                            MakeTestbed(problem)),
                   BoundsOf(manifest.budget));
  };
  const std::string other = kOther;
  const std::string half = other + "memory_factor = 0.5\n";
  EXPECT_EQ(hash(Read(other), 0), hash(Read(half), 0));
  EXPECT_EQ(hash(Read(other), 0), hash(Read(""), 0));
  EXPECT_NE(hash(Read(other), 1), hash(Read(half), 1));
  // A table that the method does not use.
  EXPECT_EQ(hash(Read(other), 1),
            hash(Read(other + "[predictions.x]\npermute = true\n"), 1));
}

TEST_F(PredictionsTest, PredictionsOfAReplayDependOnTheContentOfTheModelFile) {
  const auto hash = [this](const std::string& model) {
    fakes::WriteFile(folder_.path() / "model.json", model);
    const Manifest manifest =
        ReadReplay("mine-8",
                   "[workload]\nmodel = \"model.json\"\nbatch_size = 64\n"
                   "sequence_length = 1024\n");
    const ProblemSpec& problem = manifest.problems.front();
    return RunHash(InputsOf(manifest, problem, manifest.methods.front(),
                            MakeTestbed(problem)),
                   BoundsOf(manifest.budget));
  };
  std::string model =
      fakes::ReadFile(folder_.path() / "workloads/llama-3.2-1b.json");
  const std::string before = hash(model);
  EXPECT_EQ(before, hash(model));
  const std::string layers = "\"num_hidden_layers\": 16";
  ASSERT_NE(model.find(layers), std::string::npos);
  model.replace(model.find(layers), layers.size(), "\"num_hidden_layers\": 8");
  EXPECT_NE(before, hash(model));
}

TEST_F(PredictionsTest, TheProblemsRecordNamesTheSource) {
  WriteExperiment(Read(kOther), folder_.path() / "r");
  const auto info = trials::ReadProblemInfo(folder_.path() / "r");
  ASSERT_TRUE(info.predictions.has_value());
  EXPECT_THAT(*info.predictions,
              ElementsAre(HasSubstr("simulator of a100-selene")));
}

TEST_F(PredictionsTest, AMeasuredScenarioIsPredictedFromTheFactsOfItsTable) {
  const Predictions right = Predict(ReadReplay("ultrascale-1b-8", ""));
  EXPECT_THAT(right.source, HasSubstr("h100-efa (8 x H100"));
  EXPECT_THAT(right.source, HasSubstr("nanotron"));
  ASSERT_EQ(right.step_time_s.size(), 5U);
  const Predictions wrong = Predict(ReadReplay(
      "ultrascale-1b-8",
      "[predictions]\ncluster = \"v100-dgx1\"\nframework = \"megatron\"\n"));
  EXPECT_THAT(wrong.source, HasSubstr("v100-dgx1 (8 x V100"));
  EXPECT_THAT(wrong.source, HasSubstr("megatron"));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_GT(wrong.step_time_s[i], right.step_time_s[i]);
  }
}

TEST_F(PredictionsTest, AMeasuredScenarioWithoutFactsNeedsAWorkload) {
  EXPECT_THAT(
      [&] { (void)CheckManifest(ReadReplay("mine-1b-8", "")); },
      ThrowsMessage<common::InputError>(
          AllOf(HasSubstr("give [workload]"), HasSubstr("facts = \"NAME\""))));
  const std::string workload =
      "[workload]\nmodel = \"workloads/llama-3.2-1b.json\"\n"
      "batch_size = 64\nsequence_length = 1024\n";
  EXPECT_THAT(Predict(ReadReplay("mine-1b-8", workload)).source,
              HasSubstr("h100-efa (8 x H100"));
  EXPECT_THAT(Predict(ReadReplay("mine-1b-8",
                                 "[predictions]\nfacts = \"ultrascale\"\n"
                                 "[predictions.x]\n"))
                  .source,
              HasSubstr("nanotron"));
}

TEST_F(PredictionsTest, AMeasuredProblemMayBePredictedOnItsOwnMachine) {
  // The ground truth is a measurement, which the simulator has not seen.
  EXPECT_NO_THROW((void)CheckManifest(ReadReplay("ultrascale-1b-8", "")));
}

}  // namespace harness::predictions_test
