#include "plots/figures/figures.h"

#include <cstdlib>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plots/figure_files.h"
#include "tests/plots/synthetic_experiment.h"

namespace plots::figures_test {

namespace fs = std::filesystem;
using fakes::TemporaryFolder;
using plots_test::WriteProblem;
using plots_test::WriteRun;
using plots_test::WriteSmallExperiment;
using testing::HasSubstr;
using testing::Not;
using enum trials::Outcome;

const FigureKind& Kind(std::string_view name) {
  for (const FigureKind& kind : Figures()) {
    if (kind.name == name) {
      return kind;
    }
  }
  throw std::invalid_argument(std::string(name));
}

std::optional<Figure> Make(std::string_view name, const fs::path& folder) {
  const ExperimentRecords records = LoadExperiment(folder);
  return MakeFigure(Kind(name), records, &records.problems.front());
}

TEST(Figures, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const FigureKind& kind : Figures()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
  }
}

// With OPPA_UPDATE_GOLDEN set in the environment the table is written instead.
TEST(Figures, StandInTheDocumentationAsInTheTable) {
  const std::string begin = "<!-- generated: figures -->\n";
  const std::string end = "<!-- end -->";
  const fs::path path = fakes::SourceFolder() / "docs/figures.md";
  std::string text = fakes::ReadFile(path);
  const std::size_t from = text.find(begin) + begin.size();
  const std::size_t to = text.find(end, from);
  ASSERT_NE(to, std::string::npos);
  const std::string table = ToMarkdown(FigureTable());
  if (std::getenv("OPPA_UPDATE_GOLDEN") != nullptr) {
    text.replace(from, to - from, table);
    fakes::WriteFile(path, text);
    return;
  }
  EXPECT_EQ(text.substr(from, to - from), table);
}

TEST(Figures, WithOneRepeatHaveNoMedianInTheirCaption) {
  const TemporaryFolder folder;
  WriteSmallExperiment(folder.path());
  EXPECT_THAT(Make("throughput-time", folder.path())->caption,
              HasSubstr("; 3 repeats: median and quartiles."));
  trials::ExperimentInfo info = trials::ReadExperimentInfo(folder.path());
  info.repeats = 1;
  trials::Write(folder.path(), info);
  const std::string caption = Make("throughput-time", folder.path())->caption;
  EXPECT_THAT(caption, HasSubstr("; 1 repeat."));
  EXPECT_THAT(caption, Not(HasSubstr("median")));
}

TEST(Figures, SayWhyAMeasuredThroughputExceedsTheOptimum) {
  const TemporaryFolder folder;
  WriteSmallExperiment(folder.path());
  EXPECT_THAT(Make("throughput-time", folder.path())->caption,
              Not(HasSubstr("noise")));
  for (const int repeat : {1, 2, 3}) {
    WriteRun(folder.path(), "", "oppa", repeat,
             {{kCompleted, 60, 10, 2.04, 2.0}});
  }
  EXPECT_THAT(Make("throughput-time", folder.path())->caption,
              HasSubstr("Measured throughput includes noise and can exceed "
                        "the noise-free optimum."));
}

TEST(Figures, OfTheThroughputAreNotDrawnWhenNoConfigurationRan) {
  const TemporaryFolder folder;
  WriteSmallExperiment(folder.path());
  for (const char* method : {"random", "oppa", "oppa-bare"}) {
    for (const int repeat : {1, 2, 3}) {
      WriteRun(folder.path(), "", method, repeat,
               {{kOutOfMemory, 60}, {kFailed, 120}, {kTerminatedEarly, 200}});
    }
  }
  for (const char* name :
       {"throughput-time", "training-steps", "ablation", "ablation-views"}) {
    EXPECT_FALSE(Make(name, folder.path())) << name;
  }
  EXPECT_TRUE(Make("trials-time", folder.path()));
  EXPECT_TRUE(Make("thinking", folder.path()));
}

}  // namespace plots::figures_test
