// A search that goes on with a larger budget, with changed input, or with
// trials that were measured elsewhere.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/manifest/manifest.h"
#include "harness/records/import.h"
#include "harness/records/inputs.h"
#include "harness/run_one.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/harness/manifest_checks.h"
#include "trials/record.h"

namespace harness::growth_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using trials::ChosenBy;

class GrowthTest : public testing::Test {
 protected:
  GrowthTest() { Write("time_minutes = 100\nq_max = 6\n"); }

  void Write(const std::string& budget) {
    fakes::WriteFile(folder_.path() / "m.toml",
                     fakes::SmallManifest(R"("oppa")", budget));
  }

  [[nodiscard]] Manifest Read(const std::vector<std::string>& settings) const {
    return ReadManifest(folder_.path() / "m.toml",
                        {.repeats = 1, .settings = settings});
  }

  // Continues the search in a folder with these settings to its end.
  void Search(const std::string& name, const std::vector<std::string>& settings,
              bool accept_changed = false) {
    const Experiment experiment(Read(settings), Folder(name));
    PrepareRecords(experiment, accept_changed);
    EXPECT_TRUE(RunOne(experiment, experiment.runs.front(), {}));
  }

  [[nodiscard]] fs::path Folder(const std::string& name) const {
    return folder_.path() / "results" / name;
  }
  [[nodiscard]] fs::path Run(const std::string& name) const {
    return Folder(name) / "oppa/1";
  }
  [[nodiscard]] std::vector<trials::Trial> Trials(
      const std::string& name) const {
    return trials::ReadTrials(Run(name));
  }

  fakes::ExperimentFolder folder_;
};

TEST_F(GrowthTest, MoreTrialsGiveTheBytesOfASearchThatHadThemFromTheStart) {
  Search("once", {"budget.trials=7"});
  Search("grown", {"budget.trials=3"});
  ASSERT_EQ(Trials("grown").size(), 3U);
  Search("grown", {"budget.trials=7"});
  EXPECT_EQ(fakes::Records(Folder("once")), fakes::Records(Folder("grown")));
}

TEST_F(GrowthTest, ALargerBudgetGivesTheSameBytesWithTrialsInFlight) {
  for (const std::string limit : {"trials", "time_minutes"}) {
    const std::string flight = "budget.in_flight=3";
    Search("once" + limit, {"budget." + limit + "=9", flight});
    Search("grown" + limit, {"budget." + limit + "=4", flight});
    Search("grown" + limit, {"budget." + limit + "=9", flight});
    EXPECT_EQ(fakes::Records(Folder("once" + limit)),
              fakes::Records(Folder("grown" + limit)));
  }
}

TEST_F(GrowthTest, RefusesTrialsAtOnceThatWouldShareTheirGpus) {
  const Experiment experiment(Read({"budget.in_flight=2"}), Folder("a"));
  EXPECT_THAT(ErrorOf([&] {
                return RunOne(experiment, experiment.runs.front(),
                              {.make_remote_runner = [] {
                                return std::unique_ptr<trials::TrialRunner>();
                              }});
              }),
              AllOf(HasSubstr("in_flight = 2"), HasSubstr("slurm")));
  EXPECT_FALSE(fs::exists(Folder("a")));
}

TEST_F(GrowthTest, MoreMinutesRepeatTheTrialThatTheEndOfTheTimeCutOff) {
  Search("once", {"budget.time_minutes=5"});
  Search("grown", {"budget.time_minutes=3"});
  ASSERT_EQ(Trials("grown").back().measurement.outcome,
            trials::Outcome::kTimedOut);
  Search("grown", {"budget.time_minutes=5"});
  EXPECT_EQ(fakes::Records(Folder("once")), fakes::Records(Folder("grown")));
}

TEST_F(GrowthTest, ASmallerBudgetKeepsTheFinishedRun) {
  Search("a", {"budget.trials=4"});
  const auto records = fakes::Records(Folder("a"));
  Search("a", {"budget.trials=2"});
  EXPECT_EQ(fakes::Records(Folder("a")), records);
  EXPECT_EQ(trials::ReadRunInfo(Run("a")).bounds->trials, 4);
}

TEST_F(GrowthTest, PreparedRecordsSayWhatIsFinishedAfterTheyGrew) {
  Search("some", {"budget.trials=3"});
  const auto finished = [&](const Manifest& manifest) {
    const std::vector<RecordedRun> prepared =
        PrepareRecords({manifest, Folder("some")}, false);
    const std::vector<RecordedRun> recorded =
        CheckRecords({manifest, Folder("some")});
    std::vector<bool> runs;
    for (std::size_t i = 0; i < recorded.size(); ++i) {
      EXPECT_EQ(prepared.at(i).finished, recorded[i].finished);
      EXPECT_EQ(prepared[i].commit, recorded[i].commit);
      runs.push_back(recorded[i].finished);
    }
    return runs;
  };
  Manifest manifest = Read({"budget.trials=3"});
  manifest.repeats = 2;
  EXPECT_EQ(finished(manifest), (std::vector<bool>{true, false}));
  EXPECT_EQ(finished(Read({"budget.trials=5"})), std::vector<bool>{false});
}

TEST_F(GrowthTest, AChangedKeyIsNamedAndTakenIfAccepted) {
  Search("a", {"budget.trials=3"});
  const auto before = Trials("a");
  const std::vector<std::string> changed = {"budget.trials=5",
                                            "workload.batch_size=32"};
  EXPECT_THAT(ErrorOf([&] { return Search("a", changed); }),
              AllOf(HasSubstr("workload.batch_size was 64, is 32"),
                    HasSubstr("--accept-changed"), Not(HasSubstr("remove"))));
  Search("a", changed, true);
  ASSERT_EQ(Trials("a").size(), 5U);
  EXPECT_EQ(CandidateLabel(Trials("a")[2]), CandidateLabel(before[2]));
  const trials::RunInfo info = trials::ReadRunInfo(Run("a"));
  ASSERT_TRUE(info.accepted);
  EXPECT_EQ(info.accepted->front().after_trial, 3);
  EXPECT_THAT(info.accepted->front().changes,
              ElementsAre("workload.batch_size was 64, is 32"));
  Search("a", {"budget.trials=6", "workload.batch_size=32"});
  EXPECT_EQ(Trials("a").size(), 6U);
}

TEST_F(GrowthTest, AChangedFileIsNamed) {
  const fs::path model = folder_.path() / "model.json";
  fakes::WriteFile(
      model, fakes::ReadFile(folder_.path() / "workloads/qwen2-1.5b.json"));
  const std::vector<std::string> settings = {"budget.trials=1",
                                             "workload.model=model.json"};
  Search("a", settings);
  fakes::WriteFile(model, fakes::ReadFile(model) + "\n");
  EXPECT_THAT(ErrorOf([&] {
                return CheckRecords({Read(settings), Folder("a")});
              }),
              HasSubstr("file model.json has other content"));
}

TEST_F(GrowthTest, ImportedTrialsAreObservedAndNotMeasuredAgain) {
  Search("first", {"budget.trials=3"});
  const auto first = Trials("first");
  const Manifest manifest = Read({"budget.trials=2"});
  const std::vector<fs::path> files = {Run("first") / "trials.csv"};
  (void)ImportTrials({manifest, Folder("b")}, files);
  EXPECT_THAT(ImportTrials({manifest, Folder("b")}, files).back(),
              HasSubstr("0 trials imported, 3 left out"));
  Search("b", {"budget.trials=2"});
  const auto found = Trials("b");
  ASSERT_EQ(found.size(), 5U) << "imported trials do not use the budget";
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].chosen_by == ChosenBy::kImported, i < 3);
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(found[i].candidate, found[j].candidate);
    }
  }
  EXPECT_EQ(found[0].throughput.steps_per_s, first[0].throughput.steps_per_s);
  EXPECT_EQ(found[2].elapsed_s, 0.0);
}

TEST_F(GrowthTest, ImportedTrialsThatPhysicsDoesNotAllowHaveFailed) {
  const Manifest manifest = Read({"budget.trials=2"});
  const fs::path file = folder_.path() / "t.csv";
  fakes::WriteFile(file,
                   "dp,microbatches,dp_bucket_mb,zero_bucket_mb,step_time_s,"
                   "peak_memory_gb\n8,8,16,16,1e-5,\n8,4,16,16,20,10\n"
                   "8,2,16,16,20,1000\n8,1,16,16,1e-7,\n");
  const std::vector<std::string> notes =
      ImportTrials({manifest, Folder("a")}, {file});
  EXPECT_THAT(notes.front(), AllOf(HasSubstr("3 trials count as failed"),
                                   HasSubstr("implausible")));
  const auto trials = Trials("a");
  ASSERT_EQ(trials.size(), 4U) << notes.back();
  EXPECT_EQ(trials[3].measurement.outcome, trials::Outcome::kFailed);
  EXPECT_EQ(trials[0].measurement.outcome, trials::Outcome::kFailed);
  EXPECT_THAT(trials[0].measurement.message, HasSubstr("at the peak rate"));
  EXPECT_EQ(trials[1].measurement.outcome, trials::Outcome::kCompleted);
  EXPECT_FALSE(trials[2].HasThroughput());
}

// What ReadTrialTable says of a table.
std::string Error(const std::string& text) {
  const fakes::TemporaryFolder folder;
  const fs::path path = folder.path() / "t.csv";
  fakes::WriteFile(path, text);
  std::vector<std::string> notes;
  return ErrorOf([&] {
           return ReadTrialTable(path, trials::BuiltInKnobs(), {}, notes);
         })
      .substr(folder.path().string().size() + 1);
}

TEST(ReadTrialTable, NamesThePlaceOfAWrongCell) {
  const std::map<std::string, std::string> errors = {
      {"dp,tp,pp,step_time_s\n2,1,1,-3\n",
       "t.csv:2: step_time_s must be a number above 0, not '-3'"},
      {"dp,tp,pp,step_time_s\n2,1,1,1.0\n2,x,1,1\n",
       "t.csv:3: invalid value 'x' for tp"},
      {"dp,tp,pp,outcome\n2,1,1,exploded\n",
       "t.csv:2: status: unknown name 'exploded'"},
      {"dp,tp,pp,step_time_s,outcome\n2,1,1,,completed\n",
       "t.csv:2: this trial ran, but the row has neither"},
      {"dp,tp,pp\n2,1,1\n", "t.csv:1: no column has the speed"},
      {"a,step_time_s\n2,1\n", "t.csv:1: no column is a parameter"},
      {"dp,tp,pp,tokens_per_s\n2,1,1,100\n", "'tokens_per_s' needs the batch"},
  };
  for (const auto& [text, message] : errors) {
    EXPECT_THAT(Error(text), HasSubstr(message));
  }
}

TEST(ReadTrialTable, ConvertsUnitsAndNamesOfOtherTools) {
  const fakes::TemporaryFolder folder;
  const fs::path path = folder.path() / "t.csv";
  fakes::WriteFile(path,
                   "run,dp,zero,samples_per_s,peak_memory_gb,outcome\n"
                   "r1,4,1,32,10,ok\nr2,8,0,,,oom\n");
  std::vector<std::string> notes;
  const auto trials =
      ReadTrialTable(path, trials::BuiltInKnobs(), {64.0, 65536.0}, notes);
  ASSERT_EQ(trials.size(), 2U);
  EXPECT_DOUBLE_EQ(trials[0].throughput.steps_per_s, 0.5);
  EXPECT_EQ(trials[0].measurement.peak_memory_bytes, 10e9);
  EXPECT_EQ(trials[0].config.zero_stage, 1);
  EXPECT_EQ(trials[1].measurement.outcome, trials::Outcome::kOutOfMemory);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("ignored columns: run")));
}

TEST(ReadTrialTable, RefusesTrialsOfAnotherJob) {
  const fakes::TemporaryFolder folder;
  const fs::path path = folder.path() / "t.csv";
  const auto read = [&](const std::string& text) {
    fakes::WriteFile(path, text);
    std::vector<std::string> notes;
    (void)ReadTrialTable(path, trials::BuiltInKnobs(), {64.0, 1024.0}, notes);
    return notes;
  };
  EXPECT_THAT(read("dp,step_time_s,batch_size,seq_len\n8,1,64,1024\n"),
              testing::IsEmpty())
      << "columns that count are not ignored";
  EXPECT_THAT(fakes::ErrorOf([&] {
                (void)read("dp,samples_per_s,batch_size\n8,60,128\n");
              }),
              HasSubstr("t.csv:2: global_batch_size is 128, and that of the "
                        "manifest 64"));
  EXPECT_THAT(
      fakes::ErrorOf([&] { (void)read("dp,step_time_s,seq_len\n8,1,4096\n"); }),
      HasSubstr("sequence_length is 4096"));
}

TEST(ReadTrialTable, TakesAThroughputWithoutSpread) {
  const fakes::TemporaryFolder folder;
  const fs::path path = folder.path() / "t.csv";
  fakes::WriteFile(path,
                   "dp,throughput_steps_per_s,throughput_variance\n8,0.5,0\n");
  std::vector<std::string> notes;
  const auto trials =
      ReadTrialTable(path, trials::BuiltInKnobs(), {64.0, 1024.0}, notes);
  EXPECT_EQ(trials.at(0).throughput.variance, 0.0);
}

TEST(ReadTrialTable, LeavesAMicrobatchThatFollowsFromTheBatchToIt) {
  const fakes::TemporaryFolder folder;
  const fs::path path = folder.path() / "t.csv";
  fakes::WriteFile(path,
                   "dp,microbatches,micro_batch_size,step_time_s\n"
                   "8,2,4,1\n8,2,2,1\n");
  std::vector<std::string> notes;
  const auto trials =
      ReadTrialTable(path, trials::BuiltInKnobs(), {64.0, 512.0}, notes);
  EXPECT_EQ(trials[0].config.micro_batch_size, 0);
  EXPECT_EQ(trials[1].config.micro_batch_size, 2);  // of another batch
}

}  // namespace harness::growth_test
