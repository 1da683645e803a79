// The parts of the Slurm dispatcher that need no Slurm.

#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/toml_table.h"
#include "harness/manifest/slurm_options.h"
#include "harness/slurm/slurm_commands.h"
#include "harness/slurm/slurm_queue.h"
#include "harness/slurm/submission.h"
#include "tests/fakes/temporary_folder.h"

namespace harness::slurm_parts_test {

using common::InputError;
using common::TomlTable;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

SlurmOptions Parse(const std::string& text) {
  return ReadSlurmOptions(TomlTable::ParseString(text, "m.toml"), {});
}

Job WithId(int id, int nodes = 1, int gpus = 0) {
  return {.id = id,
          .name = "run/" + std::to_string(id),
          .nodes = nodes,
          .gpus_per_node = gpus};
}

// A list of tasks that is taken for an empty one is submitted again.
TEST(Submission, FilesThatCannotBeReadAreErrors) {
  const fakes::TemporaryFolder folder;
  EXPECT_THROW((void)ReadTasks(folder.path()), InputError);
  EXPECT_THROW((void)ReadTask(folder.path(), 0), InputError);
  std::filesystem::create_directory(folder.path() / "tasks.jsonl");
  EXPECT_THROW((void)ReadTasks(folder.path()), InputError);
  EXPECT_TRUE(ReadSubmissions(folder.path()).empty());
  fakes::WriteFile(SlurmFolder(folder.path()), "not a folder");
  EXPECT_THROW((void)ReadSubmissions(folder.path()), InputError);
}

TEST(SlurmOptions, ManifestStandsOverTheSite) {
  SlurmOptions site;
  site.partition = "long";
  site.account = "lab";
  const SlurmOptions options = ReadSlurmOptions(
      TomlTable::ParseString("partition = \"short\"", "m.toml"), site);
  EXPECT_EQ(options.partition, "short");
  EXPECT_EQ(options.account, "lab");
}

TEST(SlurmOptions, RefusesWhatOppaSetsItselfEvenAbbreviated) {
  for (const char* option :
       {"--array=1-9", "--arr=1", "--wrap=rm -rf /", "--output=x", "--depend=x",
        "--export=NONE", "--requeue", "-p x", "x", "--", "--mem=1\\n2",
        "--par$tition=x"}) {
    EXPECT_THROW((void)Parse(std::string("options = [\"") + option + "\"]"),
                 InputError)
        << option;
  }
  EXPECT_THAT(Parse("options = [\"--mail-type=END\"]").options,
              ElementsAre("--mail-type=END"));
}

TEST(SlurmOptions, RefusesValuesThatCannotBe) {
  for (const char* text :
       {"partition = \"a\\nb\"", "time_minutes = -1", "cpus = 0",
        "resources = \"gpu\"", "environment = [\"SLURM_JOB_ID=1\"]",
        "environment = [\"A B=1\"]", "partitoin = \"x\""}) {
    EXPECT_THROW((void)Parse(text), InputError) << text;
  }
}

TEST(SlurmCommands, ArraySpecFoldsStretches) {
  EXPECT_EQ(ArraySpec({3, 17, 42}, 4), "3,17,42%4");
  EXPECT_EQ(ArraySpec({0, 1, 2, 5, 6, 9}, 0), "0-2,5-6,9");
}

TEST(SlurmCommands, ArraysStayBelowMaxArraySizeAndKeepEveryJob) {
  const auto arrays = MakeArrays(
      {WithId(1), WithId(9), WithId(10), WithId(25), WithId(26, 2, 8)}, 10);
  ASSERT_EQ(arrays.size(), 4U);
  EXPECT_THAT(arrays[0].tasks, ElementsAre(1, 9));
  EXPECT_EQ(arrays[1].base, 10);
  EXPECT_THAT(arrays[1].tasks, ElementsAre(0));
  EXPECT_THAT(arrays[2].tasks, ElementsAre(5));
  EXPECT_THAT(arrays[3].tasks, ElementsAre(6));
  EXPECT_EQ(arrays[3].gpus_per_node, 8);
}

TEST(SlurmCommands, AskForTheNodesAndGpusOfTheCluster) {
  const auto words =
      SbatchArray({}, {}, {.tasks = {0}, .nodes = 2, .gpus_per_node = 8});
  EXPECT_THAT(words, Contains("--nodes=2"));
  EXPECT_THAT(words, Contains("--gres=gpu:8"));
}

TEST(SlurmCommands, RanksOnGpusHaveFourCoresEachUnlessTheUserSaysOtherwise) {
  const auto cpus = [](int gpus, int given) {
    return SbatchArray({.cpus = given}, {},
                       {.tasks = {0}, .nodes = 1, .gpus_per_node = gpus});
  };
  EXPECT_THAT(cpus(8, 0), Contains("--cpus-per-task=32"));
  EXPECT_THAT(cpus(0, 0), Contains("--cpus-per-task=1"));
  EXPECT_THAT(cpus(8, 3), Contains("--cpus-per-task=3"));
}

TEST(SlurmCommands, NamesAndPathsAreWordsAndTheScriptHasNone) {
  SlurmPlace place;
  place.program = "/a b/$(touch x)/oppa";
  place.folder = "/r'esults/;x/.slurm/t";
  place.experiment = std::string(64, 'x');
  const auto words = SbatchArray({}, place, {.tasks = {0}});
  EXPECT_THAT(words, Contains("/a b/$(touch x)/oppa"));  // one word, as it is
  EXPECT_THAT(words, Contains("--job-name=oppa-" + std::string(59, 'x')));
  EXPECT_THAT(TaskScript({.setup = {"module load cuda", "ulimit -l"}}),
              testing::EndsWith("slurm.md), not this copy.\nmodule load cuda\n"
                                "ulimit -l\n"
                                "exec \"$1\" run-task \"$2\" \"$3\"\n"));
}

TEST(SlurmCommands, EnvironmentHoldsNothingThatWasNotAskedFor) {
  ::setenv("SBATCH_PARTITION", "evil", 1);
  ::setenv("SLURM_ARRAY_TASK_ID", "3", 1);
  ::setenv("SECRET_TOKEN", "s", 1);
  ::setenv("WANTED", "w", 1);
  const auto environment = SlurmEnvironment({"WANTED", "GIVEN=a,b c"});
  ::unsetenv("SBATCH_PARTITION");
  ::unsetenv("SLURM_ARRAY_TASK_ID");
  for (const std::string& variable : environment) {
    EXPECT_THAT(variable, Not(HasSubstr("SBATCH_")));
    EXPECT_THAT(variable, Not(HasSubstr("SLURM_ARRAY")));
    EXPECT_THAT(variable, Not(HasSubstr("SECRET")));
  }
  EXPECT_THAT(environment, Contains("WANTED=w"));
  EXPECT_THAT(environment, Contains("GIVEN=a,b c"));
  EXPECT_THAT(environment, Contains("OMP_NUM_THREADS=1"));
}

TEST(SlurmCommands, RefusesFoldersThatSbatchWouldTakeApart) {
  EXPECT_THROW(CheckFolder("/results/50%t"), InputError);
  EXPECT_THROW(CheckFolder("/results\\x"), InputError);
  CheckFolder("/results with space/$x");
}

TEST(SlurmQueue, ReadsArraysPlainJobsAndReasonsWithBars) {
  const Queue queue = ParseQueue(
      "17|3|RUNNING|n4|9:59|None\n"
      "17|4|PENDING||1:00:00|(Resources)\n"
      "18|N/A|PENDING||INVALID|Dependency|odd\n"
      "slurm_load_jobs error\n\n");
  ASSERT_EQ(queue.size(), 3U);
  EXPECT_EQ(queue.at({17, 3}).node, "n4");
  EXPECT_EQ(queue.at({17, 4}).reason, "Resources");
  EXPECT_EQ(queue.at({18, -1}).reason, "Dependency|odd");
}

TEST(SlurmQueue, NamesEveryStateAndSurvivesUnknownOnes) {
  const auto entry = [](const char* state, const char* reason = "") {
    return QueueEntry{.state = state, .reason = reason};
  };
  for (const char* reason :
       {"JobHeldUser", "JobHeldAdmin", "launch failed requeued held",
        "DependencyNeverSatisfied", "PartitionNodeLimit"}) {
    EXPECT_TRUE(entry("PENDING", reason).IsStuck()) << reason;
    EXPECT_THAT(entry("PENDING", reason).Explain(), HasSubstr(reason));
  }
  EXPECT_FALSE(entry("PENDING", "Priority").IsStuck());
  EXPECT_TRUE(entry("RUNNING").IsActive());
  EXPECT_FALSE(entry("SOMETHING_NEW").IsActive());
  EXPECT_THAT(entry("TIMEOUT").Explain(), HasSubstr("time limit"));
  EXPECT_THAT(entry("OUT_OF_MEMORY").Explain(), HasSubstr("memory"));
  EXPECT_EQ(entry("SOMETHING_NEW").Explain(), "SOMETHING_NEW");
}

TEST(SlurmState, AttemptsAreReadBackAsTheyWereWritten) {
  const fakes::TemporaryFolder folder;
  using State = SlurmAttempt::State;
  for (const State state :
       {State::kRunning, State::kDone, State::kTimeLimit, State::kStopped,
        State::kLost, State::kFailed, State::kRefused}) {
    SlurmAttempt attempt;
    attempt.state = state;
    attempt.message = "bytes that are no UTF-8: \xff";
    attempt.pid = 7;
    WriteAttempt(folder.path(), 3, attempt);
    EXPECT_EQ(ReadAttempt(folder.path(), 3)->state, state);
    EXPECT_EQ(ReadAttempt(folder.path(), 3)->pid, 7);
  }
  EXPECT_FALSE(ReadAttempt(folder.path(), 4).has_value());
}

TEST(SlurmState, FindsATaskByItsIdAmongSimilarOnes) {
  const fakes::TemporaryFolder folder;
  std::vector<SlurmTask> tasks;
  for (const int id : {1, 10, 100, 11}) {
    tasks.push_back({.job = WithId(id), .failures = id});
    tasks.back().job.command = {"a b", "\"quoted\"\n"};
  }
  WriteTasks(folder.path(), tasks);
  EXPECT_EQ(ReadTask(folder.path(), 10).failures, 10);
  EXPECT_EQ(ReadTask(folder.path(), 10).job.command, tasks[1].job.command);
  EXPECT_EQ(ReadTasks(folder.path()).size(), 4U);
  EXPECT_THROW((void)ReadTask(folder.path(), 0), InputError);
}

}  // namespace harness::slurm_parts_test
