#include "plots/figures/figures.h"

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text.h"
#include "plots/figure_files.h"
#include "plots/summary.h"
#include "tests/plots/synthetic_experiment.h"

namespace plots::figures_test {

namespace fs = std::filesystem;
using fakes::TemporaryFolder;
using plots_test::SmallExperiment;
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
  const SmallExperiment folder;
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
  const SmallExperiment folder;
  EXPECT_THAT(Make("throughput-time", folder.path())->caption,
              Not(HasSubstr("exceed")));
  for (const int repeat : {1, 2, 3}) {
    WriteRun(folder.path(), "", "oppa", repeat,
             {{kCompleted, 60, 10, 2.04, 2.0}});
  }
  EXPECT_THAT(Make("throughput-time", folder.path())->caption,
              HasSubstr("Measured throughput includes noise and can exceed "
                        "it."));
}

TEST(Figures, OfSearchesThatEndedEarlyDoNotGoToTheTimeBudget) {
  const SmallExperiment folder;
  const auto end_s = [&](trials::FinishReason reason, double last_s) {
    for (const char* method : {"random", "oppa", "oppa-bare"}) {
      for (const int repeat : {1, 2, 3}) {
        WriteRun(folder.path(), "", method, repeat,
                 {{kCompleted, last_s, 10, 1.9, 1.9}}, reason);
      }
    }
    const double end = Make("throughput-time", folder.path())->panels[0].x_max;
    EXPECT_EQ(Make("trials-time", folder.path())->panels[0].x_max, end);
    return end;
  };
  using enum trials::FinishReason;
  EXPECT_NEAR(end_s(kTrialBudget, 2.0), 2.0, 0.2);
  EXPECT_EQ(end_s(kTrialBudget, 500.0), 600.0);
  EXPECT_EQ(end_s(kTimeBudget, 2.0), 600.0);
}

// Records that fill every figure: two problems with estimates and money, and
// one with a single run.
ExperimentRecords RecordsForAll(const fs::path& folder) {
  WriteSmallExperiment(folder);
  ExperimentRecords records = LoadExperiment(folder);
  ProblemRecords& problem = records.problems.front();
  problem.info.trade_off = {.price_per_gpu_hour = 2.0, .gpus = {1, 2}};
  for (MethodRecords& method : problem.methods) {
    for (Run& run : method.runs) {
      run.remaining = {{1, {.expected_gain = 0.5, .p_within_5 = 0.1}},
                       {2, {.expected_gain = 0.2, .p_within_5 = 0.4}}};
    }
  }
  for (const char* own : {"oppa", "oppa-bare"}) {  // as printed, the same
    MethodRecords printed =
        *std::ranges::find(problem.methods, own, &MethodRecords::name);
    printed.name.insert(4, "-paper");
    printed.label += " as printed";
    printed.family = "oppa-paper";
    problem.methods.push_back(printed);
  }
  records.problems.push_back(problem);
  records.problems.back().info.name = "other";
  return records;
}

TEST(Figures, EstimatesOfWhatIsLeftStandBesideTheTruth) {
  const TemporaryFolder folder;
  const ExperimentRecords records = RecordsForAll(folder.path());
  const auto kind =
      std::ranges::find(Figures(), "remaining", &FigureKind::name);
  const auto figure = MakeFigure(*kind, records, &records.problems.front());
  ASSERT_TRUE(figure);
  EXPECT_THAT(figure->caption, HasSubstr("symbols: the truth"));
  int compared = 0;
  for (const Series& series : figure->panels.front().series) {
    for (const MethodRecords& method : records.problems.front().methods) {
      if (series.name != method.name + "_true") {
        continue;
      }
      double sum = 0.0;  // what was left after the first trial
      const auto shares =
          RunSharesOf(method.runs, records.problems.front().info);
      for (const RunShare& share : shares) {
        sum += 100.0 * (1.0 / share.at[0] - 1.0);
      }
      const double mean = sum / static_cast<double>(shares.size());
      if (std::isfinite(mean)) {
        ASSERT_EQ(series.band.x.front(), 1.0);
        EXPECT_NEAR(series.band.y.front().median, mean, 1e-9) << series.name;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 0);
}

TEST(Figures, AMethodLooksTheSameInEveryExperiment) {
  const auto last = [](const std::vector<std::string>& names) {
    return StylesOf(names).back();
  };
  for (const char* method : {"oppa-sim", "my-method"}) {
    const LineStyle alone = last({method});
    const LineStyle second = last({"vanilla-bo", method});
    EXPECT_EQ(alone.color, second.color) << method;
    EXPECT_EQ(alone.dash, second.dash) << method;
    EXPECT_EQ(alone.symbol, second.symbol) << method;
  }
}

TEST(Figures, SevenMethodsOfAnExperimentsOwnHaveSevenColors) {
  std::set<std::string> colors;
  for (const LineStyle& style :
       StylesOf({"oppa", "q_min-1", "q_min-2", "q_min-5", "q_min-10",
                 "q_min-20", "q_min-30", "q_min-50"})) {
    colors.insert(style.color);
  }
  EXPECT_EQ(colors.size(), 8U);
}

TEST(Figures, PlannersAndSearchesOfAFigureHaveDifferentColors) {
  std::set<std::string> colors;
  for (const LineStyle& style :
       StylesOf({"random", "vanilla-bo", "aceso", "astra", "amp", "nnscaler",
                 "oppa", "oppa-sim"})) {
    colors.insert(style.color);
  }
  EXPECT_EQ(colors.size(), 8U);
}

TEST(Figures, ManyLinesAreDrawnInPartsWithTheFirstOneInEach) {
  Figure figure{.name = "f", .caption = "c.", .panels = {{}, {}}};
  for (Panel& panel : figure.panels) {
    for (int m = 0; m < 17; ++m) {
      const std::string name = fmt::format("m{}", m);
      panel.series.push_back({.name = name, .label = name});
    }
  }
  const std::vector<Figure> parts = InParts(figure);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[2].name, "f-3");
  EXPECT_EQ(parts[2].caption, "c. Part 3 of 3.");
  std::set<std::string> drawn;
  for (const Figure& part : parts) {
    for (const Panel& panel : part.panels) {
      EXPECT_EQ(panel.series.front().name, "m0");
      std::set<std::string> colors;
      for (const Series& series : panel.series) {
        drawn.insert(series.name);
        colors.insert(series.style.color);
      }
      EXPECT_EQ(colors.size(), panel.series.size());
    }
  }
  EXPECT_EQ(drawn.size(), 17U);
  figure.panels[0].series.resize(8);
  figure.panels[1].series.resize(8);
  EXPECT_EQ(InParts(figure).size(), 1U);
}

std::string Rgb(const std::string& color) {
  const auto part = [&](std::size_t at) {
    return std::stoi(color.substr(at, 2), nullptr, 16);
  };
  return fmt::format("rgb({:3}, {:3}, {:3})", part(1), part(3), part(5));
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Figures, ShowEverySeriesLabelAndUnit) {
  const TemporaryFolder folder;
  const ExperimentRecords records = RecordsForAll(folder.path());
  ExperimentRecords one_run = records;
  one_run.problems.resize(1);
  one_run.problems[0].methods.resize(2);
  one_run.problems[0].methods[0].runs.clear();
  one_run.problems[0].methods[1].runs.resize(1);
  std::vector<Figure> figures = JointFigures({records}, {});
  for (const FigureKind& kind : Figures()) {
    const ExperimentRecords& from = kind.name == "trials" ? one_run : records;
    const auto figure = MakeFigure(
        kind, from,
        kind.set == FigureSet::kProblems ? nullptr : &from.problems.front());
    ASSERT_TRUE(figure) << kind.name;
    figures.push_back(*figure);
    figures.back().name += "-alone";
  }
  ASSERT_EQ(WriteFigures({{folder.path(), figures}}, {"svg"}).error, "");
  for (const Figure& figure : figures) {
    const std::string svg =
        fakes::ReadFile(folder.path() / (figure.name + ".svg"));
    SCOPED_TRACE(figure.name);
    for (const Panel& panel : figure.panels) {
      for (const std::string& text : {panel.x_label, panel.y_label, panel.title,
                                      panel.horizontal_label}) {
        EXPECT_THAT(svg, HasSubstr(text));
      }
      EXPECT_THAT(panel.x_label + panel.y_label,
                  testing::ContainsRegex("\\(.+\\)|trial|steps|ratio"))
          << "no unit";
      for (const Series& series : panel.series) {
        EXPECT_THAT(svg, HasSubstr(series.label));
        // In the legend, if it is there, and in the axes.
        EXPECT_GE(Count(common::Lower(svg), Rgb(series.style.color)),
                  series.label.empty() || panel.by_name ? 1 : 2)
            << series.name;
      }
    }
  }
}

TEST(Figures, ThePapersMethodComesFirstAndTheCaptionSaysWhichOneItIs) {
  const TemporaryFolder folder;
  ExperimentRecords records = RecordsForAll(folder.path());
  const auto named = [&](const char* name) {
    const auto kind = std::ranges::find(Figures(), name, &FigureKind::name);
    return *MakeFigure(*kind, records, &records.problems.front());
  };
  const Figure compared = named("throughput-time");
  EXPECT_EQ(compared.panels[0].series.front().name, "oppa-paper");
  EXPECT_EQ(compared.panels[0].series.size(), 3U);  // without ablations
  EXPECT_THAT(compared.caption, HasSubstr("OPPA is this project's"));
  std::ranges::reverse(records.problems.front().methods);
  EXPECT_EQ(named("throughput-time").panels[0].series.front().name,
            "oppa-paper");
  // The two versions are not mixed in a figure of ablations.
  for (const auto& [figure, first, second, whose] :
       {std::tuple("ablation", "oppa-paper", "oppa-paper-bare",
                   ". OPPA-PAPER is the paper's method as printed."),
        std::tuple("ablation-ours", "oppa", "oppa-bare",
                   ". OPPA is this project's version")}) {
    EXPECT_THAT(named(figure).caption, HasSubstr(whose));
    const auto drawn = named(figure).panels[0].series;
    ASSERT_EQ(drawn.size(), 2U) << figure;
    EXPECT_EQ(drawn[0].name, first);
    EXPECT_EQ(drawn[1].name, second);
  }
}

TEST(Figures, OfSeveralProblemsHaveTheirTitlesAndOneLegend) {
  const TemporaryFolder folder;
  const ExperimentRecords records = RecordsForAll(folder.path());
  const std::vector<Figure> joint =
      JointFigures({records, records}, {"throughput-time", "ablation-views"});
  ASSERT_EQ(joint.size(), 2U);
  EXPECT_EQ(joint[0].panels.size(), 4U);
  EXPECT_EQ(joint[0].panels[0].title, "(a) A small experiment");
  EXPECT_EQ(joint[0].panels[3].title, "(d) other");
  EXPECT_EQ(joint[0].panels[0].series[0].style.color,
            joint[0].panels[3].series[0].style.color);
  EXPECT_EQ(Count(joint[0].caption, "3 repeats"), 1);
  EXPECT_EQ(joint[1].columns, 3U);  // time, trials and steps of a problem
  EXPECT_EQ(joint[1].panels.size(), 12U);
}

}  // namespace plots::figures_test
