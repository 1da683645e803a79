#include "harness/testbeds/planner_predictions.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "harness/manifest/manifest.h"
#include "harness/records/inputs.h"
#include "harness/registry.h"
#include "harness/run_matrix.h"
#include "methods/planners/textbook/textbook_model.h"
#include "tests/fakes/experiment_folder.h"
#include "trials/record.h"

namespace harness::planner_predictions_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using trials::Predictions;

constexpr const char* kTextbook = R"([predictions.textbook]
planner = "textbook"
planner_options = { tflops = 111, intra_node_gb_per_s = 12 }
[method.predicted-order]
predictions = "textbook"
)";

class PlannerPredictionsTest : public testing::Test {
 protected:
  // A manifest of the simulator with these lines added.
  Manifest Read(const std::string& more) {
    fakes::WriteFile(path_,
                     fakes::SmallManifest(R"("random", "predicted-order")",
                                          "trials = 3\nq_max = 4\n\n" + more));
    return ReadManifest(path_, {});
  }

  static Predictions Predict(const Manifest& manifest,
                             const std::string& name) {
    return MakeTestbed(manifest.problems.front()).predictions(name).predict();
  }

  static std::string Hash(const Manifest& manifest, std::size_t method) {
    const ProblemSpec& problem = manifest.problems.front();
    return RunHash(InputsOf(manifest, problem, manifest.methods[method],
                            MakeTestbed(problem)),
                   BoundsOf(manifest.budget));
  }

  fakes::ExperimentFolder folder_;
  std::filesystem::path path_ = folder_.path() / "m.toml";
};

TEST_F(PlannerPredictionsTest, PredictionsAreTheEstimatesOfThePlannersModel) {
  const Manifest manifest = Read(kTextbook);
  const Testbed testbed = MakeTestbed(manifest.problems.front());
  const Predictions predictions = testbed.predictions("textbook").predict();
  const methods::TextbookModel model(
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
TEST_F(PlannerPredictionsTest, APlannersModelIsNotTheGroundTruth) {
  for (const char* planner : {"textbook", "aceso", "astra"}) {
    EXPECT_NO_THROW((void)CheckManifest(
        Read(fmt::format("[predictions]\nplanner = \"{}\"\n", planner))))
        << planner;
  }
}

TEST_F(PlannerPredictionsTest, TheProblemsRecordNamesThePlanner) {
  WriteExperiment(Read(kTextbook), folder_.path() / "r");
  const auto info = trials::ReadProblemInfo(folder_.path() / "r");
  ASSERT_TRUE(info.predictions.has_value());
  EXPECT_THAT(*info.predictions,
              ElementsAre(HasSubstr("textbook: model of textbook with")));
}

TEST_F(PlannerPredictionsTest, AMethodFollowsThePlannerThatItsOptionNames) {
  const Manifest manifest = Read(kTextbook);
  const Testbed testbed = MakeTestbed(manifest.problems.front());
  const Predictions predictions = testbed.predictions("textbook").predict();
  const auto method =
      MakeMethod(manifest.methods[1], ProblemOf(testbed, 4), /*seed=*/1);
  EXPECT_EQ(method->Suggest()->candidate,
            Order(predictions, testbed.machine.memory_bytes()).front());
}

TEST_F(PlannerPredictionsTest, RecordsDependOnPlannerOptionsAndTheirFiles) {
  const auto with = [this](const std::string& planner,
                           const std::string& options) {
    return Read(fmt::format(
        "[predictions]\nplanner = \"{}\"\nplanner_options = {{ {} }}\n",
        planner, options));
  };
  const std::string before = Hash(with("textbook", "tflops = 111"), 1);
  EXPECT_EQ(before, Hash(with("textbook", "tflops = 111"), 1));
  EXPECT_NE(before, Hash(with("textbook", "tflops = 112"), 1));
  EXPECT_NE(before, Hash(with("astra", "tflops = 111"), 1));
  EXPECT_EQ(Hash(with("textbook", "tflops = 111"), 0),
            Hash(with("astra", "tflops = 112"), 0));

  const std::filesystem::path table = folder_.path() / "products.csv";
  const auto of_table = [&](const char* efficiency) {
    fakes::WriteFile(table,
                     fmt::format("gpu,operator,shape,efficiency\nX,matmul,"
                                 "\"m=64, n=64, k=64\",{}\n",
                                 efficiency));
    return Hash(
        with("astra", fmt::format("efficiencies = \"{}\", efficiency_gpu = "
                                  "\"X\"",
                                  table.string())),
        1);
  };
  EXPECT_EQ(of_table("0.5"), of_table("0.5"));
  EXPECT_NE(of_table("0.5"), of_table("0.6"));
}

TEST_F(PlannerPredictionsTest, ANamedSourceInheritsThePlannerOrReplacesIt) {
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

TEST_F(PlannerPredictionsTest, MistakesHaveAPlaceAndARemedy) {
  const auto error = [this](const std::string& more) -> std::string {
    try {
      (void)CheckManifest(Read(more));
    } catch (const common::InputError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(error("[predictions]\nplanner = \"textbok\"\n"),
              AllOf(HasSubstr("m.toml:"), HasSubstr("planner = 'textbok'"),
                    HasSubstr("did you mean 'textbook'?")));
  EXPECT_THAT(error("[predictions]\nplanner = \"random\"\n"),
              HasSubstr("must be a method with a model of its own: aceso, amp, "
                        "astra, nnscaler, textbook"));
  EXPECT_THAT(error("[predictions]\nplanner = \"textbook\"\n"
                    "framework = \"megatron-core\"\n"),
              AllOf(HasSubstr("m.toml:"),
                    HasSubstr("planner = 'textbook' predicts without it: "
                              "remove one of them")));
  EXPECT_THAT(error("[predictions]\nplanner_options = { tflops = 1 }\n"),
              HasSubstr("add planner = \"NAME\""));
  EXPECT_THAT(error("[predictions]\nplanner = \"textbook\"\n"
                    "planner_options = { tflop = 1 }\n"),
              AllOf(HasSubstr("unknown key"), HasSubstr("tflop")));
  EXPECT_THAT(error("[predictions]\nplanner = \"textbook\"\n"
                    "planner_options = { tflops = -1 }\n"),
              AllOf(HasSubstr("m.toml:"), HasSubstr("tflops")));
}

// Aceso's plans have sizes that are powers of two, and no context parallelism.
TEST_F(PlannerPredictionsTest, CandidatesWithoutAnEstimateAreCounted) {
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

}  // namespace harness::planner_predictions_test
