#include "harness/predictions/predictions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/files.h"
#include "harness/experiment.h"
#include "harness/manifest/manifest.h"
#include "harness/registry.h"
#include "harness/run_one.h"
#include "harness/testbeds/testbeds.h"
#include "planners/textbook/textbook_model.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/harness/manifest_checks.h"
#include "trials/record.h"

namespace harness::predictions_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;
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

  // Of a manifest with these lines added; "no error" if there is none.
  std::string Error(const std::string& more) {
    return ErrorOf([&] { return CheckManifest(Read(more)); });
  }

  // The predictions of a source of the first problem.
  Predictions Predict(const Manifest& manifest, const std::string& name = "") {
    testbeds_.push_back(MakeTestbed(manifest.problems.front()));
    return testbeds_.back().predictions(name).predict();
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
  std::vector<Testbed> testbeds_;  // whose spaces are predicted
  std::filesystem::path path_ = folder_.path() / "m.toml";
};

constexpr const char* kOther = R"([predictions]
cluster = "a100-selene"
framework = "megatron-core"
)";

constexpr const char* kTextbook = R"([predictions.textbook]
planner = "textbook"
planner_options = { tflops = 111, intra_node_gb_per_s = 12 }
[method.predicted-order]
predictions = "textbook"
)";

TEST_F(PredictionsTest, ASimulatedProblemRejectsPredictionsOfItsOwnMachine) {
  std::filesystem::copy_file(folder_.path() / "clusters/a5000-8.toml",
                             folder_.path() / "copy.toml");
  const auto check = [this](const std::string& predictions,
                            const std::string& setting = "") {
    (void)Read(predictions);
    (void)CheckManifest(ReadManifest(
        path_,
        {.settings = setting.empty() ? std::vector<std::string>()
                                     : std::vector<std::string>{setting}}));
  };
  for (const auto& wrong : std::vector<std::pair<const char*, const char*>>{
           {"", ""},
           {"[predictions]\ncluster = \"a5000-8\"\n", ""},
           {"[predictions]\ncluster = \"copy.toml\"\n", ""},
           {"[predictions]\nframework = \"colossalai\"\n", ""},
           {"[predictions]\nframework = \"colossalai\"\n",
            "backend.failure_s=5"},
           {"[predictions]\nframework = \"colossalai\"\n",
            "backend.setup_factor=2"},
           {"[predictions]\nmemory_factor = 0.5\n", ""}}) {
    EXPECT_THAT([&] { check(wrong.first, wrong.second); },
                ThrowsMessage<common::InputError>(AllOf(
                    HasSubstr("m.toml"), HasSubstr("are the ground truth"),
                    HasSubstr("Name another machine in [predictions]"))))
        << wrong.first << wrong.second;
  }
  EXPECT_NO_THROW(check("[predictions]\nframework = \"megatron-core\"\n"));
  EXPECT_NO_THROW(check("[predictions]\ncluster = \"a100-40gb-roce\"\n"));
}

// The machine that the message names is accepted, whatever runs the trials.
TEST_F(PredictionsTest, TheRemedyIsAnotherMachine) {
  for (const auto& [machine, other] : {std::pair("a5000-8", "h100-infiniband"),
                                       {"h100-infiniband", "a100-selene"}}) {
    const std::string problem =
        "[experiment]\nmethods = [\"oppa-sim\"]\n"
        "[backend]\ntype = \"simulator\"\nframework = \"megatron-core\"\n"
        "[workload]\nmodel = \"workloads/qwen2-1.5b.json\"\nbatch_size = 64\n"
        "sequence_length = 1024\n[cluster]\nfile = \"" +
        std::string(machine) + "\"\n[budget]\ntrials = 3\nq_max = 4\n";
    EXPECT_THAT([&] { (void)CheckManifest(ReadText(problem)); },
                ThrowsMessage<common::InputError>(
                    HasSubstr("cluster = \"" + std::string(other) + "\"")));
    EXPECT_NO_THROW((void)CheckManifest(
        ReadText(problem + "[predictions]\ncluster = \"" + other +
                 "\"\nframework = \"megatron-core\"\n")));
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

TEST_F(PredictionsTest, OtherRatesOfLinksAreAlternatives) {
  const auto predict = [this](const std::string& more) {
    return Predict(ReadReplay(
                       "mine-8",
                       "[workload]\nmodel = \"workloads/llama-3.2-1b.json\"\n"
                       "batch_size = 64\nsequence_length = 1024\n" +
                           more))
        .alternatives();
  };
  const auto own = predict("");
  // Of one host: 1/64, 1/16, 1/4 and 4 times the bandwidth within it, then
  // another attention and another model.
  ASSERT_EQ(own.size(), 6u);
  const auto& slower = own[2];
  const auto& faster = own[3];
  EXPECT_EQ(slower.assumption, "links within hosts x 0.25");
  EXPECT_EQ(faster.assumption, "links within hosts x 4");
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_GT(slower.slowdown[i], 1.0) << i;
    EXPECT_LT(faster.slowdown[i], 1.0) << i;
    EXPECT_GT(own[0].slowdown[i], slower.slowdown[i]) << i;
  }
  // Tensor parallelism sends more than data parallelism.
  EXPECT_GT(slower.slowdown[4], 1.2 * slower.slowdown[0]);
  // The rates of a machine that is described are known better.
  const auto other = predict("[predictions]\ncluster = \"a100-selene\"\n");
  EXPECT_NEAR(other[2].log_odds, -0.5, 1e-9);
  EXPECT_NEAR(other[0].log_odds, -4.5, 1e-9);
  EXPECT_LT(slower.log_odds, -2.5);
  EXPECT_GT(slower.log_odds, -4.0);
}

// What makes the predictions wrong does not make it wrong.
TEST_F(PredictionsTest, AnotherModelIsTheSameBesideChangedPredictions) {
  const auto step_time_s = [this](const std::string& settings) {
    const Predictions predictions = Predict(Read(kOther + settings));
    const Predictions::Alternative another = predictions.alternatives().back();
    EXPECT_TRUE(another.another_model);
    std::vector<double> times_s = predictions.step_time_s;
    for (std::size_t i = 0; i < times_s.size(); ++i) {
      times_s[i] *= another.slowdown[i];
    }
    return times_s;
  };
  const std::vector<double> own = step_time_s("");
  EXPECT_GT(std::ranges::max(own), 1.5 * std::ranges::min(own));
  EXPECT_THAT(step_time_s("permute = true\ntime_factor = 2.0\n"),
              Pointwise(testing::DoubleNear(1e-9), own));
}

TEST_F(PredictionsTest, AJobThatNoOtherModelKnowsHasLinksAsAlternatives) {
  const auto alternatives =
      Predict(ReadReplay("mine-8",
                         "[workload]\nmodel = \"workloads/llama-3.2-1b.json\"\n"
                         "batch_size = 64\nsequence_length = 1024\n"
                         "lora_rank = 8\n"))
          .alternatives();
  ASSERT_EQ(alternatives.size(), 5u);
  EXPECT_FALSE(alternatives.back().another_model);
}

TEST_F(PredictionsTest, AttentionOfAnotherKindNeedsOtherMemory) {
  const auto alternative = [this](const std::string& framework) {
    return Predict(
               ReadReplay("mine-8",
                          "[workload]\nmodel = \"workloads/llama-3.2-1b.json\""
                          "\nbatch_size = 64\nsequence_length = 4096\n"
                          "[predictions]\nframework = \"" +
                              framework + "\"\n"))
        .alternatives()[4];
  };
  const auto stored = alternative("megatron-core");
  EXPECT_EQ(stored.assumption, "attention that stores its scores");
  EXPECT_GT(std::ranges::min(stored.memory), 1.2);
  const auto fused = alternative("megatron-deepspeed");
  EXPECT_EQ(fused.assumption, "fused attention");
  EXPECT_LT(std::ranges::max(fused.memory), 0.9);
  EXPECT_LT(std::ranges::max(fused.slowdown), 1.0);
}

TEST_F(PredictionsTest, AnAlternativeIsPermutedWithItsPredictions) {
  const auto peaks = [this](const std::string& settings) {
    const Predictions predictions = Predict(Read(kOther + settings));
    std::vector<double> bytes = predictions.peak_memory_bytes;
    for (const Predictions::Alternative& each : predictions.alternatives()) {
      for (std::size_t i = 0; i < each.memory.size(); ++i) {
        bytes[i] *= each.memory[i];
      }
    }
    std::ranges::sort(bytes);
    return bytes;
  };
  EXPECT_THAT(peaks("permute = true\n"),
              Pointwise(testing::DoubleNear(1.0), peaks("")));
}

TEST_F(PredictionsTest, BetweenHostsLinksHaveOtherRatesToo) {
  std::string text = fakes::SmallManifest(
      R"("predicted-order")",
      "trials = 3\nq_max = 4\n[predictions]\ncluster = \"a100-8x4\"\n");
  text.replace(text.find("a5000-8.toml"), 12, "h100-efa.toml\"\ngpus = 16 #");
  const auto alternatives = Predict(ReadText(text)).alternatives();
  EXPECT_EQ(alternatives.size(), 26u);
  EXPECT_EQ(alternatives.front().assumption,
            "links within hosts x 0.015625 and between hosts x 0.015625");
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
  const std::string other = kOther;
  EXPECT_THAT(Error(other + "memory_factor = -1\n"),
              HasSubstr("memory_factor"));
  for (const char* key : {"memory_factor", "time_factor"}) {
    for (const char* factor : {"1e-4", "1001", "inf", "nan"}) {
      EXPECT_THAT(Error(fmt::format("{}{} = {}\n", other, key, factor)),
                  AllOf(HasSubstr("m.toml:"), HasSubstr(key),
                        HasSubstr("must be a number from 0.001 to 1000")));
    }
    EXPECT_EQ(Error(fmt::format("{}{} = 1e3\n", other, key)), "no error");
  }
  EXPECT_THAT(Error(other + "memroy_factor = 2\n"), HasSubstr("memroy_factor"));
  EXPECT_THAT(Error(other + "facts = \"vtrain\"\n"),
              HasSubstr("facts describe measured tables"));
  EXPECT_THAT(Error("[predictions]\ncluster = \"b200\"\n"),
              HasSubstr("'b200'"));
  EXPECT_THAT(Error(other + "[predictions.a]\nbatch = 1\n"),
              HasSubstr("unknown key 'predictions.a.batch'"));
  EXPECT_THAT(
      Error(other + "[predictions.half]\nmemory_factor = 0.5\n"
                    "[method.predicted-order]\npredictions = \"hal\"\n"),
      AllOf(HasSubstr("[predictions.hal]"), HasSubstr("half")));
}

TEST_F(PredictionsTest, OnlyMethodsThatUsePredictionsDependOnThem) {
  const std::string other = kOther;
  const std::string half = other + "memory_factor = 0.5\n";
  EXPECT_EQ(HashOf(Read(other), 0), HashOf(Read(half), 0));
  EXPECT_EQ(HashOf(Read(other), 0), HashOf(Read(""), 0));
  EXPECT_NE(HashOf(Read(other), 1), HashOf(Read(half), 1));
  // A table that the method does not use.
  EXPECT_EQ(HashOf(Read(other), 1),
            HashOf(Read(other + "[predictions.x]\npermute = true\n"), 1));
}

TEST_F(PredictionsTest, PredictionsOfAReplayDependOnTheContentOfTheModelFile) {
  const auto hash = [this](const std::string& model) {
    fakes::WriteFile(folder_.path() / "model.json", model);
    return HashOf(
        ReadReplay("mine-8",
                   "[workload]\nmodel = \"model.json\"\nbatch_size = 64\n"
                   "sequence_length = 1024\n"));
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
  for (const auto& [text, source] :
       {std::pair(kOther, "simulator of a100-selene"),
        {kTextbook, "textbook: model of textbook with"}}) {
    WriteExperiment({Read(text), folder_.path() / "r"});
    const auto info = trials::ReadProblemInfo(folder_.path() / "r");
    ASSERT_TRUE(info.predictions.has_value());
    EXPECT_THAT(*info.predictions, ElementsAre(HasSubstr(source)));
  }
}

TEST_F(PredictionsTest, AMeasuredScenarioIsPredictedFromTheFactsOfItsTable) {
  const Manifest own = ReadReplay("ultrascale-1b-8", "");
  EXPECT_NO_THROW((void)CheckManifest(own));  // a measurement is the truth
  const Predictions right = Predict(own);
  EXPECT_THAT(right.source, HasSubstr("h100-efa (8 x H100"));
  EXPECT_THAT(right.source, HasSubstr("nanotron"));
  ASSERT_EQ(right.step_time_s.size(), 5U);
  const Predictions wrong =
      Predict(ReadReplay("ultrascale-1b-8",
                         "[predictions]\ncluster = "
                         "\"a100-40gb-roce\"\nframework = \"megatron\"\n"));
  EXPECT_THAT(wrong.source, HasSubstr("a100-40gb-roce (8 x A100"));
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
  for (const std::string& facts :
       {std::string("ultrascale"),
        (fakes::SourceFolder() / "experiments/validation/ultrascale.toml")
            .string()}) {
    EXPECT_THAT(
        Predict(ReadReplay("mine-1b-8", "[predictions]\nfacts = \"" + facts +
                                            "\"\n[predictions.x]\n"))
            .source,
        HasSubstr("nanotron"));
  }
}

// Records depend on the file that the name selects.
TEST_F(PredictionsTest, AMeasuredProblemMayNameItsCluster) {
  (void)ReadReplay("small", "");
  std::string text = common::ReadFile(path_);
  const std::string file = "clusters/h100-efa.toml";
  text.replace(text.find(file), file.size(), "h100-efa");
  const Manifest manifest = ReadText(text);
  const auto inputs = MakeTestbed(manifest.problems.front()).inputs;
  EXPECT_TRUE(std::ranges::all_of(inputs, common::IsFile));
}

// By the model of a planner.
using PlannerPredictions = PredictionsTest;

TEST_F(PlannerPredictions, PredictionsAreTheEstimatesOfThePlannersModel) {
  const Manifest manifest = Read(kTextbook);
  const Testbed testbed = MakeTestbed(manifest.problems.front());
  const Predictions predictions = testbed.predictions("textbook").predict();
  const planners::TextbookModel model(
      *testbed.workload, {.gpus_per_node = 8,
                          .memory_bytes = testbed.machine.memory_bytes(),
                          .flops_per_s = 111e12,
                          .intra_node_bytes_per_s = 12e9,
                          .inter_node_bytes_per_s = 100e9});
  ASSERT_EQ(predictions.step_time_s.size(),
            static_cast<std::size_t>(testbed.space->size()));
  for (int i = 0; i < testbed.space->size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(predictions.step_time_s[at],
              model.Step((*testbed.space)[i]).Total());
    EXPECT_EQ(predictions.peak_memory_bytes[at],
              model.Memory((*testbed.space)[i]).Total());
  }
  EXPECT_EQ(predictions.source,
            "model of textbook with intra_node_gb_per_s = 12, tflops = 111");
}

// Predictions of the simulator for the problem's own machine would be.
TEST_F(PlannerPredictions, APlannersModelIsNotTheGroundTruth) {
  for (const char* planner : {"textbook", "aceso", "astra"}) {
    EXPECT_NO_THROW((void)CheckManifest(
        Read(fmt::format("[predictions]\nplanner = \"{}\"\n", planner))))
        << planner;
  }
}

TEST_F(PlannerPredictions, AMethodFollowsThePlannerThatItsOptionNames) {
  const Manifest manifest = Read(kTextbook);
  const Testbed testbed = MakeTestbed(manifest.problems.front());
  const Predictions predictions = testbed.predictions("textbook").predict();
  const auto method =
      MakeMethod(manifest.methods[1], ProblemOf(testbed, 4), /*seed=*/1);
  EXPECT_EQ(method->Suggest()->candidate,
            Order(predictions, testbed.machine.memory_bytes()).front());
}

TEST_F(PlannerPredictions, RecordsDependOnPlannerOptionsAndTheirFiles) {
  const auto with = [this](const std::string& planner,
                           const std::string& options) {
    return Read(fmt::format(
        "[predictions]\nplanner = \"{}\"\nplanner_options = {{ {} }}\n",
        planner, options));
  };
  const std::string before = HashOf(with("textbook", "tflops = 111"), 1);
  EXPECT_EQ(before, HashOf(with("textbook", "tflops = 111"), 1));
  EXPECT_NE(before, HashOf(with("textbook", "tflops = 112"), 1));
  EXPECT_NE(before, HashOf(with("astra", "tflops = 111"), 1));
  EXPECT_EQ(HashOf(with("textbook", "tflops = 111"), 0),
            HashOf(with("astra", "tflops = 112"), 0));

  const std::filesystem::path table = folder_.path() / "products.csv";
  const auto of_table = [&](const char* efficiency) {
    fakes::WriteFile(table,
                     fmt::format("gpu,operator,shape,efficiency\nX,matmul,"
                                 "\"m=64, n=64, k=64\",{}\n",
                                 efficiency));
    return HashOf(
        with("astra", fmt::format("efficiencies = \"{}\", efficiency_gpu = "
                                  "\"X\"",
                                  table.string())),
        1);
  };
  EXPECT_EQ(of_table("0.5"), of_table("0.5"));
  EXPECT_NE(of_table("0.5"), of_table("0.6"));
}

TEST_F(PlannerPredictions, ANamedSourceInheritsThePlannerOrReplacesIt) {
  const std::string base =
      "[predictions]\nplanner = \"textbook\"\n"
      "planner_options = { tflops = 111 }\n";
  const Manifest half = Read(base + "[predictions.x]\ntime_factor = 0.5\n");
  const Predictions whole = Predict(half, "");
  const Predictions changed = Predict(half, "x");
  EXPECT_EQ(changed.source, "model of textbook with tflops = 111; time x 0.5");
  EXPECT_EQ(changed.step_time_s[0], 0.5 * whole.step_time_s[0]);
  // Options of another planner are not inherited.
  EXPECT_EQ(Predict(Read(base + "[predictions.x]\nplanner = \"astra\"\n"), "x")
                .source,
            "model of astra");
  EXPECT_THAT(
      Predict(Read(base + "[predictions.x]\ncluster = \"a100-selene\"\n"), "x")
          .source,
      HasSubstr("simulator of a100-selene"));
  EXPECT_EQ(Predict(Read("[predictions]\ncluster = \"a100-selene\"\n"
                         "[predictions.x]\nplanner = \"textbook\"\n"),
                    "x")
                .source,
            "model of textbook");
}

TEST_F(PlannerPredictions, MistakesHaveAPlaceAndARemedy) {
  EXPECT_THAT(Error("[predictions]\nplanner = \"textbok\"\n"),
              AllOf(HasSubstr("m.toml:"), HasSubstr("planner = 'textbok'"),
                    HasSubstr("did you mean 'textbook'?")));
  EXPECT_THAT(Error("[predictions]\nplanner = \"random\"\n"),
              HasSubstr("must be a method with a model of its own: aceso, amp, "
                        "astra, nnscaler, textbook"));
  EXPECT_THAT(Error("[predictions]\nplanner = \"textbook\"\n"
                    "framework = \"megatron-core\"\n"),
              AllOf(HasSubstr("m.toml:"),
                    HasSubstr("planner = 'textbook' predicts without it: "
                              "remove one of them")));
  EXPECT_THAT(Error("[predictions]\nplanner_options = { tflops = 1 }\n"),
              HasSubstr("add planner = \"NAME\""));
  EXPECT_THAT(Error("[predictions]\nplanner = \"textbook\"\n"
                    "planner_options = { tflop = 1 }\n"),
              AllOf(HasSubstr("unknown key"), HasSubstr("tflop")));
  EXPECT_THAT(Error("[predictions]\nplanner = \"textbook\"\n"
                    "planner_options = { tflops = -1 }\n"),
              AllOf(HasSubstr("m.toml:"), HasSubstr("tflops")));
}

// Aceso's plans have sizes that are powers of two, and no context parallelism.
TEST_F(PlannerPredictions, CandidatesWithoutAnEstimateAreCounted) {
  fakes::WriteFile(folder_.path() / "t.csv",
                   "scenario,gpus,dp,tp,pp,micro_batch_size,microbatches,"
                   "status,step_time_s\n"
                   "s,6,6,1,1,1,8,ok,1.0\ns,6,1,2,3,6,8,ok,2.0\n"
                   "s,6,2,1,3,3,8,ok,3.0\n");
  fakes::WriteFile(path_,
                   "[experiment]\nmethods = [\"predicted-order\"]\n"
                   "[backend]\ntype = \"replay\"\ntable = \"t.csv\"\n"
                   "scenarios = \"s\"\n[cluster]\n"
                   "file = \"clusters/h100-efa.toml\"\n"
                   "[workload]\nmodel = \"workloads/qwen2-1.5b.json\"\n"
                   "batch_size = 48\nsequence_length = 1024\n"
                   "[budget]\ntrials = 3\nq_max = 4\n"
                   "[predictions]\nplanner = \"aceso\"\n");
  const Predictions predictions = Predict(ReadManifest(path_, {}), "");
  EXPECT_EQ(predictions.source,
            "model of aceso; 1 of 3 candidates have no estimate");
  for (const double time_s : predictions.step_time_s) {
    EXPECT_GT(time_s, 0.0);
  }
}

// A search on 8 GPUs, whose records are in r/, and a job on 16.
class EarlierJobsTest : public PredictionsTest {
 protected:
  EarlierJobsTest() {
    const Manifest earlier = Read(kOther);
    const Experiment experiment(earlier, folder_.path() / "r");
    WriteExperiment(experiment);
    EXPECT_TRUE(RunOne(experiment, experiment.runs.front(), {}));
  }
  Manifest OnTwiceTheGpus(const std::string& predictions) {
    std::string text =
        fakes::SmallManifest("\"oppa-sim\"", "trials = 3\nq_max = 4\n\n");
    const auto replace = [&text](std::string_view old, std::string_view by) {
      text.replace(text.find(old), old.size(), by);
    };
    replace("batch_size = 64", "batch_size = 128");
    replace("a5000-8.toml\"", "a100-40gb-roce.toml\"\ngpus = 16");
    return ReadText(text + "[predictions]\n" + predictions);
  }
};

TEST_F(EarlierJobsTest, ATrialPredictsTheCandidateThatSplitsTheModelAlike) {
  const Manifest manifest = OnTwiceTheGpus("from = [\"r\"]\n");
  const Testbed testbed = MakeTestbed(manifest.problems.front());
  const Predictions predictions = testbed.predictions("").predict();
  // One ran out of less memory than a GPU has now.
  EXPECT_EQ(predictions.source, "2 of 3 trials of earlier jobs");
  for (const trials::Trial& trial :
       trials::ReadTrials(folder_.path() / "r/random/1")) {
    trials::ParallelConfig config = trial.config;
    config.dp *= 2;
    const std::optional<int> counterpart = testbed.space->Find(config);
    ASSERT_TRUE(counterpart.has_value());
    const auto at = static_cast<std::size_t>(*counterpart);
    if (trial.HasThroughput()) {
      // Twice the GPUs and twice the batch.
      EXPECT_NEAR(predictions.step_time_s[at] * trial.throughput.steps_per_s, 1,
                  0.1);
      EXPECT_NEAR(predictions.peak_memory_bytes[at] /
                      *trial.measurement.peak_memory_bytes,
                  1, 0.1);
    }
  }
}

TEST_F(EarlierJobsTest, HaveAnotherModelAsAlternative) {
  const auto alternatives =
      Predict(OnTwiceTheGpus("from = [\"r\"]\n")).alternatives();
  ASSERT_EQ(alternatives.size(), 1u);
  EXPECT_TRUE(alternatives.front().another_model);
}

// A smaller model is no foreign job, and a slow one is, whatever its size.
TEST_F(EarlierJobsTest, ARunIsHeldAgainstWhatItsOwnJobWasToTake) {
  const std::filesystem::path run = folder_.path() / "r/random/1";
  trials::RunInfo info = trials::ReadRunInfo(run);
  const auto error = [&](double factor, const std::string& more = "") {
    info.computation = factor;
    trials::Write(run, info);
    return ErrorOf([&] {
      const Manifest manifest = OnTwiceTheGpus("from = [\"r\"]\n" + more);
      (void)MakeTestbed(manifest.problems.front()).predictions("").predict();
    });
  };
  EXPECT_EQ(error(1.1), "no error");
  EXPECT_THAT(error(6.1), AllOf(HasSubstr("r/random/1"),
                                HasSubstr("6.1 times the predicted"),
                                HasSubstr("--accept-foreign")));
  EXPECT_EQ(error(6.1, "accept_foreign = true\n"), "no error");
}

TEST_F(EarlierJobsTest, MistakesHaveAPlaceAndARemedy) {
  const auto error = [this](const std::string& predictions) {
    return ErrorOf([&] { return CheckManifest(OnTwiceTheGpus(predictions)); });
  };
  EXPECT_EQ(error("from = [\"r\"]\n"), "no error");
  EXPECT_THAT(error("from = [\"none\"]\n"),
              AllOf(HasSubstr("m.toml:"), HasSubstr("none: No such file"),
                    HasSubstr("name a folder of results")));
  EXPECT_THAT(error("from = [\"clusters\"]\n"), HasSubstr("no trials"));
  EXPECT_THAT(error("from = [\"r\"]\nplanner = \"astra\"\n"),
              HasSubstr("remove planner or from"));
  EXPECT_THAT(error("from = [\"r\"]\ncluster = \"a100-selene\"\n"),
              HasSubstr("from predicts without it"));
  std::filesystem::remove(folder_.path() / "r/problem.json");
  EXPECT_THAT(error("from = [\"r\"]\n"), HasSubstr("problem.json"));
}

}  // namespace harness::predictions_test
