#include "harness/manifest/manifest.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/toml_table.h"
#include "harness/experiment.h"
#include "harness/records/inputs.h"
#include "harness/testbeds/simulated.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/harness/manifest_checks.h"
#include "trials/record.h"

namespace harness::manifest_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A manifest that is right, with the project's own models and clusters.
const std::string kGood = fakes::SmallManifest(
    R"("random", "oppa")", "time_minutes = 20\nq_max = 10\n");

class ManifestTest : public testing::Test {
 protected:
  // The good manifest with each text replaced by another.
  Manifest Read(
      const std::vector<std::pair<std::string, std::string>>& changes = {},
      const ManifestOverrides& overrides = {}) {
    std::string text = kGood;
    for (const auto& [from, to] : changes) {
      const std::size_t at = text.find(from);
      if (at == std::string::npos) {
        throw std::logic_error("the good manifest has no " + from);
      }
      text.replace(at, from.size(), to);
    }
    fakes::WriteFile(path_, text);
    return ReadManifest(path_, overrides);
  }

  // The message about the manifest with these changes; each is one line.
  std::string Error(
      const std::vector<std::pair<std::string, std::string>>& changes,
      const ManifestOverrides& overrides = {}) {
    const std::string message =
        ErrorOf([&] { return CheckManifest(Read(changes, overrides)); });
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    const std::size_t place = message.find("m.toml");
    return message.substr(place == std::string::npos ? 0 : place);
  }

  fakes::ExperimentFolder folder_;
  fs::path path_ = folder_.path() / "m.toml";
};

template <typename Part>
std::vector<std::string> NamesOf(const std::vector<Part>& parts) {
  std::vector<std::string> names;
  for (const Part& part : parts) {
    names.push_back(part.name);
  }
  return names;
}

// Clusters and rule sets are found by their names from any folder.
TEST_F(ManifestTest, AManifestMayBeOutsideOfTheExperiments) {
  const fakes::TemporaryFolder elsewhere;
  std::string text = kGood;
  const auto replace = [&text](const std::string& from, const std::string& to) {
    ASSERT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
  };
  const std::string model = "workloads/qwen2-1.5b.json";
  replace(model, (folder_.path() / model).string());
  replace("clusters/a5000-8.toml", "a5000-8");
  fakes::WriteFile(elsewhere.path() / "own.toml", text);
  const Manifest manifest = ReadManifest(elsewhere.path() / "own.toml");
  EXPECT_GT(MakeTestbed(manifest.problems.front()).space->size(), 0);
}

TEST_F(ManifestTest, ReadsWhatIsThereAndDefaultsTheRest) {
  const Manifest manifest = Read();
  EXPECT_EQ(manifest.name, "m");
  EXPECT_EQ(manifest.title, "m");
  EXPECT_EQ(manifest.repeats, 2);
  EXPECT_EQ(manifest.seed, 1U);
  EXPECT_EQ(manifest.budget.time_s, 1200.0);
  EXPECT_EQ(manifest.budget.trials, 0);
  EXPECT_EQ(manifest.budget.q_max, 10);
  EXPECT_FALSE(manifest.budget.charge_thinking);
  EXPECT_THAT(NamesOf(manifest.problems), ElementsAre(""));
  EXPECT_THAT(NamesOf(manifest.methods), ElementsAre("random", "oppa"));
  EXPECT_EQ(manifest.methods[1].label, "OPPA");
  EXPECT_EQ(CheckManifest(manifest).at(0).gpus, 8);
}

TEST_F(ManifestTest, ListsOfAProblemAreAxes) {
  const Manifest manifest =
      Read({{"\"workloads/qwen2-1.5b.json\"",
             "[\"workloads/qwen2-1.5b.json\", "
             "\"workloads/bert-base-uncased.json\"]"},
            {"batch_size = 64", "batch_size = [32, 64]"},
            {"sequence_length = 1024", "sequence_length = 512"}});
  EXPECT_THAT(NamesOf(manifest.problems),
              ElementsAre("qwen2-1.5b-b32", "qwen2-1.5b-b64",
                          "bert-base-uncased-b32", "bert-base-uncased-b64"));
  EXPECT_EQ(manifest.problems[2].workload.RequireInt("batch_size"), 32);
  EXPECT_EQ(CheckManifest(manifest).size(), 4U);
}

TEST_F(ManifestTest, ATableOfMeasurementsIsOfOneJob) {
  const std::pair<std::string, std::string> replay = {
      "type = \"simulator\"",
      "type = \"replay\"\ntable = \"t.csv\"\nscenarios = [\"a\", \"b\"]"};
  EXPECT_THAT(NamesOf(Read({replay}).problems), ElementsAre("a", "b"));
  EXPECT_THAT(
      Error({replay, {"batch_size = 64", "batch_size = [32, 64]"}}),
      AllOf(HasSubstr("m.toml:"), HasSubstr("once for every batch_size")));
}

class HeldOutTest : public ManifestTest {
 protected:
  Manifest ReadFour(const std::string& held_out, bool run_held_out = false) {
    return Read({{"repeats = 2", "repeats = 2\nheld_out = " + held_out},
                 {"batch_size = 64", "batch_size = [8, 16, 32, 64]"}},
                {.held_out = run_held_out});
  }
};

TEST_F(HeldOutTest, OddProblemsAreLeftOutUnlessRequested) {
  const Manifest manifest = ReadFour("\"odd\"");
  EXPECT_THAT(NamesOf(manifest.problems), ElementsAre("b8", "b32"));
  EXPECT_THAT(manifest.held_out, ElementsAre("b16", "b64"));
  EXPECT_EQ(HeldOutNote(manifest),
            "m: development half: 2 of 4 problems; --held-out (make "
            "HELD_OUT=1) includes the held-out half\n");
  const Manifest all = ReadFour("\"odd\"", true);
  EXPECT_THAT(NamesOf(all.problems), ElementsAre("b8", "b16", "b32", "b64"));
  EXPECT_EQ(HeldOutNote(all),
            "m: 2 of 4 problems are held out: results on them must not be used "
            "to choose methods or settings\n");
}

TEST_F(HeldOutTest, ProblemsAreNamedInAList) {
  EXPECT_THAT(NamesOf(ReadFour("[\"b8\"]").problems),
              ElementsAre("b16", "b32", "b64"));
  EXPECT_THAT(HeldOutNote(Read()), "");
  EXPECT_THAT(HeldOutNote(Read({}, {.held_out = true})), "");
}

TEST_F(HeldOutTest, AnUnknownProblemOrNoOtherOneIsAnError) {
  const auto error = [&](const std::string& held_out) {
    return Error({{"repeats = 2", "repeats = 2\nheld_out = " + held_out},
                  {"batch_size = 64", "batch_size = [8, 16]"}});
  };
  EXPECT_THAT(error("[\"b9\"]"), HasSubstr("unknown problem 'b9'"));
  EXPECT_THAT(error("[\"b8\", \"b16\"]"), HasSubstr("2 of 2 problems"));
  EXPECT_THAT(error("[]"), HasSubstr("0 of 2 problems"));
}

// The records of a problem do not depend on whether others are held out.
TEST_F(HeldOutTest, SeedsAreThoseOfTheWholeManifest) {
  const Manifest half = ReadFour("\"odd\"");
  const Manifest all = ReadFour("\"odd\"", true);
  EXPECT_EQ(half.MethodSeed(half.problems[1], 1),
            all.MethodSeed(all.problems[2], 1));
}

TEST_F(ManifestTest, ListsOfAMethodAreVariants) {
  const Manifest manifest = Read(
      {{"[budget]", "[method.oppa]\nq_min = [1, 5]\ntau = 0.01\n[budget]"}});
  EXPECT_THAT(NamesOf(manifest.methods),
              ElementsAre("random", "oppa-q_min-1", "oppa-q_min-5"));
  EXPECT_EQ(manifest.methods[2].base, "oppa");
  EXPECT_EQ(manifest.methods[2].label, "OPPA q_min=5");
  EXPECT_EQ(manifest.methods[2].options.RequireInt("q_min"), 5);
  EXPECT_EQ(CheckManifest(manifest).size(), 1U);
}

TEST_F(ManifestTest, AMethodTableMayNameItsBase) {
  const Manifest manifest =
      Read({{"\"oppa\"]", "\"patient\"]"},
            {"[budget]",
             "[method.patient]\nbase = \"oppa\"\nlabel = \"PATIENT\"\n"
             "q_min = 9\n[budget]"}});
  EXPECT_EQ(manifest.methods[1].name, "patient");
  EXPECT_EQ(manifest.methods[1].base, "oppa");
  EXPECT_EQ(manifest.methods[1].label, "PATIENT");
}

TEST_F(ManifestTest, OverridesStandInPlaceOfTheManifest) {
  const Manifest manifest =
      Read({}, {.repeats = 7, .methods = {"xgboost", "oppa"}});
  EXPECT_EQ(manifest.repeats, 7);
  EXPECT_THAT(NamesOf(manifest.methods), ElementsAre("xgboost", "oppa"));
}

TEST_F(ManifestTest, SaysWhatIsWrongAndWhere) {
  const struct {
    std::string from, to, place, message;
  } cases[] = {
      {"repeats = 2", "repeat = 2", "m.toml:3:1",
       "'experiment.repeat' (did you mean 'repeats'?)"},
      {"[budget]", "[buget]", "m.toml:21:1",
       "unknown key 'buget' (did you mean 'budget'?)"},
      {"\"oppa\"]", "\"opa\"]", "m.toml:2:22",
       "unknown method 'opa' (did you mean 'oppa'?)"},
      {"\"oppa\"]", "\"random\"]", "m.toml:2:22", "'random' is listed twice"},
      {"repeats = 2", "repeats = 0", "m.toml:3:11", "repeats = 0: must be"},
      {"repeats = 2", "repeats = \"two\"", "m.toml:3:11",
       "must be an integer, not a string"},
      {"batch_size = 64", "batch_size = \"64\"", "m.toml:10:14",
       "workload.batch_size must be an integer, not a string (\"64\")"},
      {"q_max = 10", "q_max = 0", "m.toml:23:9", "q_max = 0"},
      {"time_minutes = 20", "time_minutes = -1", "m.toml:22:16",
       "must be a number > 0"},
      {"time_minutes = 20\n", "", "m.toml:21:1", "a budget is missing"},
      {"q_max = 10\n", "q_max = 10\nstop_when = \"gain > 1%\"\n",
       "m.toml:24:13",
       "invalid condition 'gain > 1%': gain must be compared with <; write"},
      {"\"simulator\"", "\"simulater\"", "m.toml:6:8",
       "unknown backend 'simulater' (did you mean 'simulator'?)"},
      {"qwen2-1.5b.json", "qwen3.json", "m.toml:9:9", "qwen3.json"},
      {"a5000-8.toml", "a6000-8.toml", "m.toml:14:8", "no such cluster file"},
      {"\"colossalai\"", "\"colosalai\"", "m.toml:17", "colosalai"},
      {"dp_bucket_mb", "dp_buckt_mb", "m.toml:18:15", "dp_buckt_mb"},
      {"dp_bucket_mb = [16]", "dp = [3]", "m.toml:1", "8"},
      {"type = \"simulator\"", "type = \"simulator\"\ntable = \"x.csv\"",
       "m.toml:", "table"},
      {"[budget]", "[noise]\njiter = 0.1\n[budget]", "m.toml:22:1",
       "noise.jiter"},
      {"[budget]", "[noise]\njitter = -0.1\n[budget]", "m.toml:21:1", "jitter"},
      {"[budget]", "[noise]\njitter = inf\n[budget]", "m.toml:22:10",
       "jitter is inf: must be a finite number"},
      {"\"simulator\"\n", "\"simulator\"\nframework = \"megatron-cor\"\n",
       "m.toml:7:13", "did you mean 'megatron-core'?"},
      {"[budget]", "[method.oppa]\nq_min = 11\n[budget]", "m.toml:22:9",
       "q_min = 11 is more than q_max = 10"},
      {"[budget]", "[method.oppa]\nq_mn = 3\n[budget]", "m.toml:22:1",
       "'method.oppa.q_mn' (did you mean 'q_min'?)"},
      {"[budget]", "[method.oppa]\nq_min = []\n[budget]", "m.toml:22:9",
       "empty list"},
      {"[budget]", "[method.opa]\nq_min = 3\n[budget]", "m.toml:21:1",
       "unknown method 'opa' (did you mean 'oppa'?)"},
      {"[budget]", "[method.x]\nbase = \"opa\"\n[budget]", "m.toml:22:8",
       "unknown method 'opa' (did you mean 'oppa'?)"},
      {"[budget]", "[method.\"../x\"]\nbase = \"oppa\"\n[budget]",
       "m.toml:21:1", "cannot be a folder name"},
      {"repeats = 2", "name = \"../up\"", "m.toml:3:8",
       "cannot be a folder name"},
      {"repeats = 2", "name = \"figures\"", "m.toml:3:8",
       "cannot be a folder name"},
      {"repeats = 2", "figures = [\"thruput-time\"]", "m.toml:3:12",
       "did you mean 'throughput-time'?"},
      {"repeats = 2", "repeats = ", "m.toml:3:", ""},
      {"batch_size = 64", "batch_size = [64, 64]", "m.toml:8",
       "two problems have the name 'b64'"},
      {"methods = [\"random\", \"oppa\"]\n", "", "m.toml:1:1",
       "experiment.methods is missing"},
  };
  for (const auto& [from, to, place, message] : cases) {
    const std::string error = Error({{from, to}});
    EXPECT_TRUE(error.starts_with(place)) << to << ": " << error;
    EXPECT_THAT(error, HasSubstr(message)) << to;
  }
}

// "1, 2, ..., n".
std::string Numbers(int n) {
  std::string text;
  for (int i = 1; i <= n; ++i) {
    text += (i == 1 ? "" : ", ") + std::to_string(i);
  }
  return text;
}

// Each of these took minutes, or all of the memory.
TEST_F(ManifestTest, RefusesListsThatMakeTooMuch) {
  EXPECT_THAT(Error({{"batch_size = 64", "batch_size = [" + Numbers(300) + "]"},
                     {"sequence_length = 1024",
                      "sequence_length = [" + Numbers(300) + "]"}}),
              HasSubstr("more than 10000 problems"));
  EXPECT_THAT(Error({{"[budget]", "[method.oppa]\ntau = [" + Numbers(2000) +
                                      "]\n[budget]"}}),
              HasSubstr("more than 1000 variants"));
  std::string tables;
  for (int i = 0; i < 20000; ++i) {
    tables += "[method.m" + std::to_string(i) + "]\nbase = \"oppa\"\n";
  }
  EXPECT_THAT(Error({{"[budget]", tables + "[budget]"}}),
              HasSubstr("20000 tables of methods; at most 1000"));
  EXPECT_THAT(Error({{"repeats = 2", "repeats = 2147483647"}}),
              HasSubstr("more than 1000000 runs"));
}

TEST_F(ManifestTest, RefusesWrongOverrides) {
  EXPECT_THAT(Error({}, {.methods = {"opa"}}),
              HasSubstr("--methods: unknown method 'opa'"));
  EXPECT_THAT(Error({}, {.repeats = 0}), HasSubstr("--repeats 0"));
  EXPECT_THAT(Error({}, {.settings = {"backend.use=gpu"}}),
              AllOf(HasSubstr("unknown backend 'gpu'"), HasSubstr("trainer")));
}

class RunHashTest : public ManifestTest {
 protected:
  std::string Hash(
      const std::vector<std::pair<std::string, std::string>>& changes) {
    const Manifest manifest = Read(changes);
    return HashOf(manifest, manifest.methods.size() - 1);
  }
};

TEST_F(RunHashTest, StaysWhereTheRunStaysTheSame) {
  const std::string hash = Hash({});
  EXPECT_EQ(hash, Hash({{"repeats = 2", "repeats = 5 # more"}}));
  EXPECT_EQ(hash, Hash({{"repeats = 2", "title = \"T\""}}));
  EXPECT_EQ(hash, Hash({{"\"random\", ", ""}}));
  EXPECT_EQ(hash,
            Hash({{"[budget]", "[method.oppa]\nlabel = \"L\"\n[budget]"}}));
}

TEST_F(RunHashTest, ChangesWithWhateverChangesTheRun) {
  std::vector<std::string> hashes = {
      Hash({}),
      Hash({{"q_max = 10", "q_max = 11"}}),
      Hash({{"time_minutes = 20", "time_minutes = 21"}}),
      Hash({{"repeats = 2", "seed = 2"}}),
      Hash({{"[16]", "[64]"}}),
      Hash({{"batch_size = 64", "batch_size = 128"}}),
      Hash({{"a5000-8", "a100-8x4"}}),
      Hash({{"[budget]", "[method.oppa]\nq_min = 7\n[budget]"}}),
      Hash({{"[budget]", "[noise]\njitter = 0.5\n[budget]"}}),
      Hash({{"batch_size = 64", "batch_size = [64, 32]"}}),
  };
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()), hashes.end());
}

TEST_F(RunHashTest, ContainsTheStopConditionOnlyWhereOneIsSet) {
  const auto with = [this](const std::string& condition) {
    return Hash(
        {{"q_max = 10", "q_max = 10\nstop_when = \"" + condition + "\""}});
  };
  EXPECT_NE(with("gain < 1%"), Hash({}));
  EXPECT_NE(with("gain < 1%"), with("gain < 2%"));
  EXPECT_EQ(with("gain < 1%"), with("gain<1.0%"));
}

// The files of experiments/ in a folder of their own, where they can change.
class InputFilesTest : public RunHashTest {
 protected:
  InputFilesTest() {
    const fs::path data = folder_.path() / "data";
    fs::copy(fakes::SourceFolder() / "experiments", data,
             fs::copy_options::recursive);
    for (const char* name : {"workloads", "clusters", "rules"}) {
      fs::remove(folder_.path() / name);
      fs::create_directory_symlink(data / name, folder_.path() / name);
    }
    ::setenv("OPPA_EXPERIMENTS", data.c_str(), 1);
  }
  ~InputFilesTest() override { ::unsetenv("OPPA_EXPERIMENTS"); }

  void Append(const std::string& file, const std::string& text) {
    const fs::path path = folder_.path() / "data" / file;
    fakes::WriteFile(path, fakes::ReadFile(path) + text);
  }
};

TEST_F(InputFilesTest, TheHashChangesWithEveryFileThatASimulationReads) {
  const std::vector<std::pair<std::string, std::string>> framework = {
      {"\"simulator\"\n", "\"simulator\"\nframework = \"megatron\"\n"}};
  std::vector<std::string> hashes = {Hash(framework)};
  for (const char* file :
       {"workloads/qwen2-1.5b.json", "clusters/a5000-8.toml",
        "rules/colossalai.rules", "hardware/ampere_ga102.toml",
        "frameworks/megatron.toml"}) {
    Append(file, "\n");
    hashes.push_back(Hash(framework));
  }
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()), hashes.end());
}

TEST_F(ManifestTest, ChoosesTheFrameworkOfTheSimulator) {
  const auto best = [this](const std::string& framework) {
    const Manifest manifest =
        Read({{"\"simulator\"\n", "\"simulator\"\n" + framework + "\n"}});
    const Testbed testbed = MakeTestbed(manifest.problems.front());
    return std::make_pair(
        testbed.model->Expect(trials::ParallelConfig{.dp = 8}).step_time_s,
        testbed.description);
  };
  const auto by_default = best("");
  EXPECT_EQ(best("framework = \"colossalai\"").first, by_default.first);
  EXPECT_NE(best("framework = \"megatron-core\"").first, by_default.first);
  EXPECT_THAT(best("framework = \"megatron-core\"").second,
              HasSubstr("framework megatron-core"));
  EXPECT_THAT(by_default.second, Not(HasSubstr("framework")));
}

TEST_F(ManifestTest, NoiseComesFromTheFileThatItNames) {
  const auto failed_s = [this](const std::string& settings) {
    const Manifest manifest = Read({{"[workload]", settings + "\n[workload]"}});
    const Testbed testbed = MakeTestbed(manifest.problems.front());
    for (const trials::ParallelConfig& config : testbed.space->configs()) {
      const trials::Measurement trial =
          testbed.exact->Run({.candidate = config, .max_steps = 1});
      if (trial.outcome == trials::Outcome::kOutOfMemory) {
        return trial.duration_s;
      }
    }
    return 0.0;
  };
  fakes::WriteFile(folder_.path() / "noise.toml",
                   "[failure_s]\nvalue = 70\nrange = [5, 600]\n");
  EXPECT_NEAR(failed_s("[noise]\nfile = \"noise.toml\""), failed_s("") + 10,
              1e-9);
  const auto error = [this](const std::string& name, const std::string& text) {
    fakes::WriteFile(folder_.path() / "noise.toml", text);
    return Error(
        {{"[workload]", "[noise]\nfile = \"" + name + "\"\n[workload]"}});
  };
  EXPECT_THAT(error("none.toml", ""), HasSubstr("no such file"));
  EXPECT_THAT(error("noise.toml", "[jitter]\nvalue = 1\nrange = [5, 600]\n"),
              HasSubstr("around its value"));
  EXPECT_THAT(error("noise.toml", "[jiter]\nvalue = 1\nrange = [0, 2]\n"),
              HasSubstr("did you mean 'jitter'"));
  fakes::WriteFile(folder_.path() / "noise.toml",
                   "[launch_process_s]\nvalue = 114\nrange = [1, 200]\n");
  EXPECT_GT(failed_s("[noise]\nfile = \"noise.toml\""), failed_s("") + 50.0);
  for (const char* name : {"measured.toml", "measured-cpu-jobs.toml"}) {
    const std::string measured =
        (fakes::SourceFolder() / "experiments/noise" / name).string();
    EXPECT_GT(failed_s("[noise]\nfile = \"" + measured + "\""), 0.0) << name;
  }
}

TEST_F(ManifestTest, WhatAFrameworkCannotDoIsNoCandidate) {
  const auto make = [this](const std::string& framework) {
    const Manifest manifest =
        Read({{"\"simulator\"\n",
               "\"simulator\"\nframework = \"" + framework + "\"\n"}});
    return MakeTestbed(manifest.problems.front());
  };
  const Testbed deepspeed = make("deepspeed");
  for (const trials::ParallelConfig& config : deepspeed.space->configs()) {
    EXPECT_EQ(config.model_chunks, 1);
    EXPECT_TRUE(config.pp == 1 || config.zero_stage <= 1);
  }
  std::int64_t dropped = 0;
  for (const auto& rule : deepspeed.space->dropped()) {
    dropped += rule.origin == "deepspeed" ? rule.count : 0;
  }
  EXPECT_GT(dropped, 0);
  EXPECT_THAT(deepspeed.model->Validation(), HasSubstr("not validated"));
  const Testbed fsdp2 = make("fsdp2");
  for (const trials::ParallelConfig& config : fsdp2.space->configs()) {
    EXPECT_NE(config.zero_stage, 1);
    EXPECT_EQ(config.sp, config.tp);
  }
  EXPECT_THAT(make("megatron-core").model->Validation(),
              HasSubstr("megatron_golden_values"));
}

TEST_F(ManifestTest, AssumedCostsOfATrialCanBeSet) {
  const auto run = [this](const std::vector<std::string>& settings) {
    const Manifest manifest = Read({}, {.settings = settings});
    const Testbed testbed = MakeTestbed(manifest.problems.front());
    for (const trials::ParallelConfig& config : testbed.space->configs()) {
      if (testbed.exact->ExactThroughput(config) == 0.0) {
        return testbed.exact->Run({.candidate = config});
      }
    }
    throw std::logic_error("every configuration fits");
  };
  const trials::Measurement base = run({});
  const trials::Measurement failure = run({"backend.failure_s=5"});
  EXPECT_DOUBLE_EQ(base.duration_s - failure.duration_s, 55.0);
  const trials::Measurement setup = run({"backend.setup_factor=0.5"});
  EXPECT_DOUBLE_EQ(setup.setup_s, 0.5 * base.setup_s);
  EXPECT_NEAR(base.duration_s - setup.duration_s, 0.5 * base.setup_s, 1e-9);
}

TEST_F(ManifestTest, AssumedConstantsOutOfRangeAreErrorsWithTheirPlace) {
  for (const char* setting :
       {"backend.failure_s=-1", "backend.setup_factor=-0.5", "noise.factor=-3",
        "noise.landscape=-0.1", "cluster.intra_bandwidth_factor=0",
        "cluster.inter_bandwidth_factor=inf", "cluster.gpu_speed_factor=0",
        "cluster.gpu_memory_factor=-1"}) {
    EXPECT_THAT(Error({}, {.settings = {setting}}),
                testing::AllOf(
                    testing::StartsWith("--set " + std::string(setting) + ": "),
                    HasSubstr("must be a number >")));
  }
  EXPECT_THAT(
      Error({{"[backend]\n", "[backend]\nfailure_s = -1\n"}}),
      testing::StartsWith("m.toml:6:13: backend.failure_s = -1: must be"));
}

TEST_F(ManifestTest, LinkFactorsChangeTheTimesOfConfigurationsThatCommunicate) {
  const auto throughput = [this](const std::string& config,
                                 const std::vector<std::string>& settings) {
    const Manifest manifest = Read({}, {.settings = settings});
    const Testbed testbed = MakeTestbed(manifest.problems.front());
    return *testbed.exact->ExactThroughput(trials::ParseParallelConfig(config));
  };
  const std::string tp = "dp=1,tp=4,pp=2,microbatches=8,grad_checkpoint=1";
  EXPECT_GT(throughput(tp, {"cluster.intra_bandwidth_factor=2"}),
            throughput(tp, {}));
  EXPECT_EQ(throughput(tp, {"cluster.inter_bandwidth_factor=2"}),
            throughput(tp, {}));  // one host
}

TEST_F(ManifestTest, FactorsOfTheGpuChangeItsSpeedAndItsMemory) {
  const auto run = [this](const std::string& setting) {
    const Manifest manifest = Read({}, {.settings = {setting}});
    const Testbed testbed = MakeTestbed(manifest.problems.front());
    return testbed.exact->ExactThroughput(trials::ParseParallelConfig(
        "dp=1,tp=4,pp=2,microbatches=8,grad_checkpoint=1"));
  };
  const auto usual = run("cluster.gpu_speed_factor=1");
  EXPECT_GT(*run("cluster.gpu_speed_factor=2"), 1.1 * *usual);
  EXPECT_EQ(run("cluster.gpu_memory_factor=2"), usual);
  EXPECT_EQ(run("cluster.gpu_memory_factor=0.01"), 0.0);  // out of memory
}

TEST_F(ManifestTest, ASettingCannotIncludeHeldOutProblems) {
  for (const char* setting :
       {"experiment.held_out=[]", "experiment = {held_out = []}",
        " experiment.\"held_out\" = []"}) {
    EXPECT_THAT([&] { (void)Read({}, {.settings = {setting}}); },
                ThrowsMessage<common::InputError>(AllOf(
                    HasSubstr("--set"), HasSubstr("--held-out includes them"))))
        << setting;
  }
}

TEST_F(HeldOutTest, ASettingCannotSelectProblemsWhereSomeAreHeldOut) {
  const auto read = [this](const std::string& setting, bool run_held_out) {
    return Read({{"repeats = 2", "repeats = 2\nheld_out = \"odd\""},
                 {"batch_size = 64", "batch_size = [8, 16, 32, 64]"}},
                {.settings = {setting}, .held_out = run_held_out});
  };
  for (const char* setting :
       {"workload.batch_size=[16, 64]", "workload={batch_size=[16, 8]}",
        "workload.sequence_length=512", "cluster.gpus=16",
        "backend.framework=megatron"}) {
    EXPECT_THAT([&] { (void)read(setting, false); },
                ThrowsMessage<common::InputError>(
                    AllOf(HasSubstr("--set"),
                          HasSubstr("only a run with --held-out can set it"))))
        << setting;
  }
  EXPECT_THAT(NamesOf(read("workload.batch_size=[16, 64]", true).problems),
              ElementsAre("b16", "b64"));
  EXPECT_THAT(NamesOf(read("backend.failure_s=5", false).problems),
              ElementsAre("b8", "b32"));
}

TEST_F(ManifestTest, SeedsDifferByProblemAndRepeatOnly) {
  const Manifest manifest =
      Read({{"batch_size = 64", "batch_size = [64, 32]"}});
  const auto& problems = manifest.problems;
  EXPECT_NE(manifest.MethodSeed(problems[0], 1),
            manifest.MethodSeed(problems[0], 2));
  EXPECT_NE(manifest.MethodSeed(problems[0], 1),
            manifest.MethodSeed(problems[1], 1));
  EXPECT_NE(manifest.MethodSeed(problems[0], 1),
            manifest.TrialSeed(problems[0], 1));
}

TEST_F(ManifestTest, TheMatrixInterleavesRepeats) {
  const Manifest manifest =
      Read({{"batch_size = 64", "batch_size = [64, 32]"}});
  std::vector<std::string> names;
  for (const RunSpec& run : RunMatrix(manifest)) {
    names.push_back(run.Name());
  }
  EXPECT_THAT(names, ElementsAre("b64/random/1", "b64/oppa/1", "b32/random/1",
                                 "b32/oppa/1", "b64/random/2", "b64/oppa/2",
                                 "b32/random/2", "b32/oppa/2"));
  EXPECT_EQ(FindRun(manifest, "b32", "oppa", 2).Name(), "b32/oppa/2");
  EXPECT_THROW((void)FindRun(manifest, "b32", "oppa", 3), common::InputError);
}

TEST_F(ManifestTest, AnotherBackendHasKeysAndRecordsOfItsOwn) {
  const std::vector<std::pair<std::string, std::string>> both = {
      {"[workload]",
       "setup_factor = 2\n[backend.command]\nprogram = [\"true\"]\n"
       "[noise]\nfactor = 2\n[workload]"}};
  const Manifest own = Read(both);
  EXPECT_EQ(own.name, "m");
  EXPECT_TRUE(own.problems.front().noise.Has("factor"));
  EXPECT_FALSE(own.budget.charge_thinking);
  EXPECT_NO_THROW(CheckManifest(own));

  const Manifest other = Read(both, {.settings = {"backend.use=command"}});
  EXPECT_EQ(other.name, "m-command");
  EXPECT_EQ(other.problems.front().backend.RequireString("type"), "command");
  EXPECT_FALSE(other.problems.front().noise.Has("factor"));
  EXPECT_TRUE(other.budget.charge_thinking);
  EXPECT_NO_THROW(CheckManifest(other));
}

TEST_F(ManifestTest, TheOwnBackendChangesNothing) {
  const Manifest used = Read({}, {.settings = {"backend.use=simulator"}});
  EXPECT_EQ(used.name, "m");
  EXPECT_EQ(HashOf(Read()), HashOf(used));
}

}  // namespace harness::manifest_test
