#include "plots/report.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "tests/fakes/error_of.h"
#include "tests/plots/synthetic_experiment.h"

namespace plots::report_test {

namespace fs = std::filesystem;
using fakes::ReadFile;
using fakes::TemporaryFolder;
using plots_test::SmallExperiment;
using plots_test::WriteSmallExperiment;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Report, WritesEveryFigureInEveryFormatWithItsData) {
  const SmallExperiment folder;
  const ReportOutcome outcome = Report(folder.path());
  EXPECT_THAT(outcome.notes, IsEmpty());
  EXPECT_THAT(outcome.failures, IsEmpty());
  for (const std::string& figure : FigureNames()) {
    // Several problems, a method with an estimate, a single run, several
    // numbers of GPUs, the method as printed.
    if (figure == "overview" || figure == "remaining" || figure == "trials" ||
        figure == "pareto" || figure == "ablation" ||
        figure == "ablation-views") {
      continue;
    }
    for (const char* format : {".pdf", ".svg", ".png", ".gp"}) {
      EXPECT_TRUE(fs::exists(folder.path() / "figures" / (figure + format)))
          << figure << format;
    }
  }
  for (const fs::path& file : outcome.files) {
    EXPECT_GT(fs::file_size(file), 0U) << file;
  }
  EXPECT_TRUE(fs::exists(folder.path() / "summary.csv"));
  EXPECT_TRUE(fs::exists(folder.path() / "summary.md"));
  EXPECT_THAT(outcome.summary, HasSubstr("OPPA, bare"));
}

// A name says nothing: "oppa-like" is a method of its own, "tuned" a variant.
TEST(Report, KnowsAblationsByTheirFamily) {
  const SmallExperiment folder;
  trials::ExperimentInfo info = trials::ReadExperimentInfo(folder.path());
  info.methods = {{"oppa-like", "another method"},
                  {"oppa", "OPPA", "oppa"},
                  {"tuned", "OPPA, tuned", "oppa"}};
  trials::Write(folder.path(), info);
  const auto rename = [&](const char* from, const char* to) {
    fs::rename(folder.path() / from, folder.path() / to);
    for (const auto& run : fs::directory_iterator(folder.path() / to)) {
      trials::RunInfo renamed = trials::ReadRunInfo(run.path());
      renamed.method = to;
      trials::Write(run.path(), renamed);
    }
  };
  rename("random", "oppa-like");
  rename("oppa-bare", "tuned");
  (void)Report(folder.path(), {.formats = {}});
  const auto columns = [&](const char* name) {
    const std::string text = ReadFile(folder.path() / "figures" / name);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_THAT(columns("throughput-time.csv"), HasSubstr("oppa-like_median"));
  EXPECT_THAT(columns("throughput-time.csv"), Not(HasSubstr("tuned_median")));
  EXPECT_THAT(columns("ablation-ours.csv"), HasSubstr("tuned_median"));
  EXPECT_THAT(columns("ablation-ours.csv"), Not(HasSubstr("oppa-like_median")));
}

TEST(Report, DrawsTheFinalThroughputToTheEndOfTheBudget) {
  const SmallExperiment folder;
  (void)Report(folder.path(), {.figures = {"throughput-time"}, .formats = {}});
  const std::string csv =
      ReadFile(folder.path() / "figures" / "throughput-time.csv");
  EXPECT_THAT(csv, HasSubstr("\n600,1.99,1.99,1.99,1.01,0.505,1.455\n"));
}

TEST(Report, NamesTheBackendInEveryFigure) {
  const SmallExperiment folder;
  (void)Report(folder.path(), {.formats = {}});
  int scripts = 0;
  for (const auto& entry : fs::directory_iterator(folder.path() / "figures")) {
    if (entry.path().extension() == ".gp") {
      ++scripts;
      EXPECT_THAT(ReadFile(entry.path()), HasSubstr("simulated cluster"));
    }
  }
  EXPECT_EQ(scripts, 8);
}

TEST(Report, DrawsOnlyWhatTheManifestAsksForUnlessToldOtherwise) {
  const SmallExperiment folder;
  trials::ExperimentInfo info = trials::ReadExperimentInfo(folder.path());
  info.figures = {"thinking"};
  trials::Write(folder.path(), info);
  (void)Report(folder.path(), {.formats = {}});
  EXPECT_TRUE(fs::exists(folder.path() / "figures" / "thinking.gp"));
  EXPECT_FALSE(fs::exists(folder.path() / "figures" / "ablation-ours.gp"));
  (void)Report(folder.path(), {.figures = {"ablation-ours"}, .formats = {}});
  EXPECT_TRUE(fs::exists(folder.path() / "figures" / "ablation-ours.gp"));
}

TEST(Report, SaysWhatAFigureLacksThatItWasAskedFor) {
  const SmallExperiment folder;
  const auto notes = [&](const std::vector<std::string>& figures) {
    return Report(folder.path(), {.figures = figures, .formats = {}}).notes;
  };
  EXPECT_THAT(notes({}), testing::IsEmpty());
  EXPECT_THAT(notes({"thinking", "overview"}),
              testing::ElementsAre("figure 'overview' is not drawn: it needs "
                                   "two problems with a known optimum"));
}

TEST(Report, WorksWhileTheExperimentRuns) {
  const SmallExperiment folder;
  fs::remove_all(folder.path() / "random");
  fs::remove_all(folder.path() / "oppa" / "2");
  const ReportOutcome outcome = Report(folder.path(), {.formats = {}});
  EXPECT_THAT(outcome.notes, ElementsAre("not begun: repeats 1-3 of random",
                                         "not begun: repeats 2 of oppa"));
  EXPECT_TRUE(fs::exists(folder.path() / "figures" / "throughput-time.gp"));
}

TEST(Report, WorksBeforeTheFirstTrial) {
  const SmallExperiment folder;
  for (const char* method : {"random", "oppa", "oppa-bare"}) {
    fs::remove_all(folder.path() / method);
  }
  const ReportOutcome outcome = Report(folder.path());
  EXPECT_THAT(outcome.notes,
              ElementsAre("not begun: repeats 1-3 of random, oppa, oppa-bare"));
  EXPECT_THAT(outcome.failures, IsEmpty());
  EXPECT_FALSE(fs::exists(folder.path() / "figures"));
}

TEST(Report, DrawsEachProblemAndAnOverview) {
  const TemporaryFolder folder;
  trials::Write(folder.path(),
                trials::ExperimentInfo{.name = "two",
                                       .problems = {"a", "b"},
                                       .methods = {{"oppa", "OPPA"}},
                                       .repeats = 1});
  for (const auto& [problem, exact] :
       {std::pair<std::string, double>("a", 1.0), {"b", 1.5}}) {
    plots_test::WriteProblem(folder.path(), plots_test::SmallProblem(problem));
    plots_test::WriteRun(folder.path(), problem, "oppa", 1,
                         {{trials::Outcome::kCompleted, 60, 10, 1.0, 0.5},
                          {trials::Outcome::kCompleted, 120, 10, 2.0, exact}});
  }
  const ReportOutcome outcome = Report(folder.path());
  EXPECT_THAT(outcome.notes, IsEmpty());
  const fs::path figures = folder.path() / "figures";
  EXPECT_TRUE(fs::exists(figures / "a" / "throughput-trials.png"));
  EXPECT_TRUE(fs::exists(figures / "b" / "throughput-time.svg"));
  EXPECT_TRUE(fs::exists(figures / "overview.pdf"));
  EXPECT_EQ(ReadFile(figures / "overview.csv"),
            "trials,oppa_median,oppa_q1,oppa_q3\n"
            "1,0.25,0.25,0.25\n"
            "2,0.625,0.625,0.625\n");
}

TEST(Report, KeepsTablesScriptsAndDataWhenGnuplotIsMissing) {
  const SmallExperiment folder;
  const std::string path = std::getenv("PATH");
  setenv("PATH", folder.path().c_str(), 1);
  const ReportOutcome outcome = Report(folder.path());
  setenv("PATH", path.c_str(), 1);
  EXPECT_THAT(outcome.failures, ElementsAre(HasSubstr("gnuplot-nox")));
  EXPECT_TRUE(fs::exists(folder.path() / "figures" / "thinking.gp"));
  EXPECT_TRUE(fs::exists(folder.path() / "figures" / "thinking.csv"));
  for (const fs::path& file : outcome.files) {
    EXPECT_TRUE(fs::exists(file)) << file;
  }
}

TEST(Report, SaysThatNoConfigurationRan) {
  const SmallExperiment folder;
  for (const char* method : {"random", "oppa", "oppa-bare"}) {
    for (const int repeat : {1, 2, 3}) {
      plots_test::WriteRun(folder.path(), "", method, repeat,
                           {{trials::Outcome::kOutOfMemory, 60}});
    }
  }
  const ReportOutcome outcome = Report(folder.path(), {.formats = {}});
  EXPECT_THAT(outcome.summary, HasSubstr("no configuration ran"));
  EXPECT_THAT(outcome.summary, Not(HasSubstr("0.000 [")));
  for (const char* figure :
       {"throughput-time.gp", "training-steps.gp", "ablation-ours.gp"}) {
    EXPECT_FALSE(fs::exists(folder.path() / "figures" / figure)) << figure;
  }
  EXPECT_TRUE(fs::exists(folder.path() / "figures" / "trials-time.gp"));
}

TEST(Report, RefusesNamesThatLeaveTheFolderOfTheExperiment) {
  const TemporaryFolder folder;
  const fs::path experiment = folder.path() / "a" / "b";
  WriteSmallExperiment(experiment);
  const trials::ExperimentInfo good = trials::ReadExperimentInfo(experiment);
  plots_test::WriteProblem(folder.path(), plots_test::SmallProblem("x"));
  plots_test::WriteRun(folder.path(), "x", "oppa", 1,
                       {{trials::Outcome::kCompleted, 60, 10, 1.0, 1.0}});
  trials::ExperimentInfo info = good;
  for (const char* problem : {"../../x", "..", "a/b", "/tmp"}) {
    info.problems = {problem};
    trials::Write(experiment, info);
    EXPECT_THROW((void)Report(experiment), common::InputError) << problem;
  }
  info = good;
  info.methods.front().name = "../../oppa";
  trials::Write(experiment, info);
  EXPECT_THROW((void)Report(experiment), common::InputError);
  EXPECT_FALSE(fs::exists(folder.path() / "x" / "throughput-time.gp"));
  EXPECT_FALSE(fs::exists(experiment / "summary.csv"));
  EXPECT_FALSE(fs::exists(experiment / "figures"));
}

// Two processes, each with many reports of the same folder.
TEST(Report, TwoAtOnceLeaveWholeFiles) {
  const SmallExperiment folder;
  std::vector<pid_t> children;
  for (int child = 0; child < 2; ++child) {
    children.push_back(::fork());
    if (children.back() != 0) {
      continue;
    }
    bool failed = false;
    for (int i = 0; i < 8 && !failed; ++i) {
      try {
        failed =
            !Report(folder.path(), {.figures = {"throughput-time", "thinking"},
                                    .formats = {"svg"}})
                 .failures.empty();
      } catch (const std::exception&) {
        failed = true;
      }
    }
    ::_exit(failed ? 1 : 0);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (const auto& entry : fs::directory_iterator(folder.path() / "figures")) {
    EXPECT_THAT(entry.path().extension(),
                testing::AnyOf(".gp", ".csv", ".svg"));
    EXPECT_THAT(ReadFile(entry.path()), testing::EndsWith("\n"));
  }
}

TEST(Report, RejectsWhatItDoesNotKnow) {
  const SmallExperiment folder;
  const auto message = [&](const ReportOptions& options) {
    return fakes::ErrorOf([&] { return Report(folder.path(), options); });
  };
  EXPECT_THAT(message({.figures = {"abalation"}}),
              HasSubstr("did you mean 'ablation'?"));
  EXPECT_THAT(message({.formats = {"gif"}}), HasSubstr("'gif'"));
  EXPECT_FALSE(fs::exists(folder.path() / "summary.csv"));
}

}  // namespace plots::report_test
