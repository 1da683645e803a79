#include "plots/figures/gnuplot.h"

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "plots/figure_files.h"
#include "plots/figures/gnuplot_process.h"
#include "plots/figures/layout.h"
#include "plots/table.h"
#include "tests/plots/synthetic_experiment.h"

namespace plots::gnuplot_test {

using testing::HasSubstr;

Figure SomeFigure() {
  Panel panel{.name = "time",
              .x_column = "time_s",
              .x_label = "search time (min)",
              .y_label = "best throughput (steps/s)",
              .x_unit = 60.0,
              .x_max = 600.0,
              .y_min = 0.0,
              .y_max = 2.1,
              .horizontal = 2.0,
              .horizontal_label = "optimum"};
  panel.series = {
      {.name = "oppa",
       .label = "OPPA",
       .style = StyleOf(0, true),
       .band = {.x = {0, 300, 600},
                .y = {{0, 0, 0}, {1, 1.5, 1.75}, {1.9, 1.95, 2}}}},
      {.name = "random",
       .label = "it's RANDOM",
       .style = StyleOf(0, false),
       .band = {.x = {0, 300, 600}, .y = {{0, 0, 0}, {0.5, 0.75, 1}, {}}}}};
  return {.name = "throughput-time",
          .title = "A small experiment",
          .caption = "simulated cluster; 3 repeats: median and quartiles.",
          .panels = {panel}};
}

TEST(Gnuplot, ScriptIsTheGoldenOne) {
  plots_test::ExpectGolden("throughput-time.gp",
                           Script(SomeFigure(), {"pdf", "svg", "png"}));
}

TEST(Gnuplot, PointsHaveBarsAndNoBand) {
  Figure figure = SomeFigure();
  figure.panels[0].series[1].mark = Mark::kPoints;
  figure.panels[0].slopes = {1.0, 1.2};
  const std::string script = Script(figure, {"pdf"});
  EXPECT_THAT(script, HasSubstr("using ($1/60):6:(0):($7-$6) with vectors"));
  EXPECT_THAT(script, testing::Not(HasSubstr(":6:7 with filledcurves")));
  EXPECT_THAT(script, HasSubstr("1*x with lines"));
  EXPECT_THAT(script, HasSubstr("1.2*x with lines"));
}

// A figure with a series of every mark that has no quartiles.
Figure PlainFigure() {
  const Band band{.x = {1, 10}, .y = {{2, 2, 2}, {3, 3, 3}}};
  Panel panel{.name = "1",
              .x_column = "gpus",
              .x_label = "GPUs",
              .y_label = "s",
              .log_x = true,
              .log_y = true,
              .x_min = 1.0,
              .x_max = 10.0};
  panel.series = {{.name = "line",
                   .label = "it's, fast",
                   .style = ThinStyle(0, true),
                   .band = band,
                   .mark = Mark::kLine},
                  {.name = "steps", .band = band, .mark = Mark::kStep},
                  {.name = "points",
                   .label = "A100",
                   .band = {.x = {1, 10}, .y = {{2, 2, 2}, {}}},
                   .mark = Mark::kScatter}};
  panel.name_column = "scenario";
  panel.names = {"a,b", "c"};
  Figure figure{.name = "plain", .title = "It's a figure", .panels = {panel}};
  figure.panels.push_back(panel);
  figure.panels.back().name = "2";
  figure.panels.back().log_x = false;
  return figure;
}

TEST(Gnuplot, MarksWithoutQuartilesHaveOneColumn) {
  EXPECT_EQ(DataCsv(PlainFigure().panels[0]),
            "gpus,line,steps,points,scenario\n"
            "1,2,2,2,\"a,b\"\n"
            "10,3,3,,c\n");
  const std::string script = Script(PlainFigure(), {"svg"});
  EXPECT_THAT(script, HasSubstr("using 1:2 with lines"));
  EXPECT_THAT(script, HasSubstr("using 1:3 with histeps"));
  EXPECT_THAT(script, HasSubstr("using 1:4 with points"));
  EXPECT_THAT(script, testing::Not(HasSubstr("terminal_pdf")));
}

TEST(Gnuplot, EveryPanelIsDrawnOnItsOwnAxes) {
  const std::string script = Script(PlainFigure(), {"svg"});
  const std::size_t first = script.find("  set logscale x\n");
  const std::size_t unset = script.find("  unset logscale x\n");
  ASSERT_NE(first, std::string::npos);
  EXPECT_LT(script.find("plain-1.csv"), unset);
  EXPECT_GT(script.find("plain-2.csv"), unset);
  EXPECT_EQ(script.find("  set logscale x\n", first + 1), std::string::npos);
}

TEST(Gnuplot, TheLegendHasEveryLabelOfAnyPanelOnce) {
  Figure figure = PlainFigure();
  figure.panels[1].series[0].label = "another";
  const Layout layout = LayoutOf(figure);
  ASSERT_EQ(layout.legend.size(), 3U);  // steps have no label
  EXPECT_EQ(layout.legend[0].label, "it's, fast");
  EXPECT_TRUE(layout.legend[1].is_point);
  EXPECT_EQ(layout.legend[2].label, "another");
}

TEST(Gnuplot, ASquareFigureHasAxesOfOneLength) {
  Figure figure = SomeFigure();
  figure.square = true;
  const Layout layout = LayoutOf(figure);
  EXPECT_NEAR(AxesRight(layout, 0) - AxesLeft(layout, 0),
              layout.axes_top - layout.axes_bottom, 1e-12);
}

// All texts of an SVG picture, one after the other.
std::string TextsOfSvg(const std::string& svg) {
  std::string texts;
  bool inside = false;
  for (const char c : svg) {
    inside = c == '>' || (inside && c != '<');
    texts += inside && c != '>' ? std::string(1, c) : "";
  }
  const std::pair<std::string, char> entities[] = {
      {"&apos;", '\''}, {"&#39;", '\''}, {"&quot;", '"'}, {"&amp;", '&'}};
  for (const auto& [entity, c] : entities) {
    for (std::size_t at = texts.find(entity); at != std::string::npos;
         at = texts.find(entity)) {
      texts.replace(at, entity.size(), 1, c);
    }
  }
  return texts;
}

TEST(Gnuplot, TextsWithQuotesAndPercentSignsAreDrawnAsTheyAre) {
  const fakes::TemporaryFolder folder;
  Figure figure = SomeFigure();
  figure.title = "'quoted' ''twice''";
  figure.caption = "'";
  figure.panels[0].series[0].label = "'s {$x} \"a\" `b` @c #d";
  figure.panels[0].series[1].label = "%d of 50% 'or' \\n";
  figure.panels[0].horizontal_label = "''%s";
  figure.panels.push_back(figure.panels[0]);
  figure.panels[1].name = "end";
  figure.panels[1].by_name = true;
  EXPECT_EQ(WriteFigures({{folder.path(), {figure}}}, {"svg"}).error, "");
  const std::string texts =
      TextsOfSvg(fakes::ReadFile(folder.path() / "throughput-time.svg"));
  for (const std::string& text :
       {figure.title, figure.panels[0].series[0].label,
        figure.panels[0].series[1].label, figure.panels[0].horizontal_label}) {
    EXPECT_THAT(texts, HasSubstr(text));
  }
  // In the legend and at its tic.
  const std::string& label = figure.panels[0].series[1].label;
  EXPECT_NE(texts.find(label), texts.rfind(label));
}

TEST(Gnuplot, DataAreInSiUnitsAndEmptyWhereThereIsNoLine) {
  EXPECT_EQ(DataCsv(SomeFigure().panels[0]),
            "time_s,oppa_median,oppa_q1,oppa_q3,"
            "random_median,random_q1,random_q3\n"
            "0,0,0,0,0,0,0\n"
            "300,1.5,1,1.75,0.75,0.5,1\n"
            "600,1.95,1.9,2,,,\n");
}

TEST(Gnuplot, StylesDifferInColorAndInDashes) {
  std::set<std::string> colors = {StyleOf(0, true).color};
  std::set<int> dashes = {StyleOf(0, true).dash};
  for (int i = 0; i < 7; ++i) {
    colors.insert(StyleOf(i, false).color);
    dashes.insert(StyleOf(i, false).dash);
  }
  EXPECT_EQ(colors.size(), 8U);
  EXPECT_EQ(dashes.size(), 8U);
}

TEST(Gnuplot, DrawsEveryFormat) {
  const fakes::TemporaryFolder folder;
  const Figure figure = SomeFigure();
  std::ofstream(folder.path() / "throughput-time.csv")
      << DataCsv(figure.panels[0]);
  std::ofstream(folder.path() / "a.gp")
      << Script(figure, {"pdf", "svg", "png"});
  ASSERT_EQ(RunGnuplot({{folder.path(),
                         {"a.gp"},
                         {"throughput-time.pdf", "throughput-time.svg",
                          "throughput-time.png"}}}),
            "");
  const auto begin = [&](const char* format) {
    return fakes::ReadFile(folder.path() /
                           (std::string("throughput-time.") + format))
        .substr(0, 5);
  };
  EXPECT_EQ(begin("pdf"), "%PDF-");
  EXPECT_EQ(begin("svg"), "<?xml");
  EXPECT_EQ(begin("png"), std::string("\x89PNG\r"));
}

TEST(FigureFiles, AFolderThatCannotBeWrittenIsNamedWithTheRemedy) {
  try {
    (void)WriteFigures({{"/proc/none", {SomeFigure()}}}, {});
    FAIL() << "/proc/none was written";
  } catch (const common::InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("/proc/none"));
    EXPECT_THAT(e.what(), HasSubstr("choose another folder (--results)"));
  }
}

TEST(GnuplotProcess, SaysHowToGetGnuplotWhenItIsMissing) {
  const fakes::TemporaryFolder folder;
  EXPECT_THAT(RunGnuplot({{folder.path(), {"a.gp"}, {}}}, "no-such-gnuplot"),
              testing::AllOf(HasSubstr("no-such-gnuplot"),
                             HasSubstr("apt-get install gnuplot-nox")));
}

TEST(GnuplotProcess, PassesOnWhatGnuplotSays) {
  const fakes::TemporaryFolder folder;
  std::ofstream(folder.path() / "bad.gp") << "plot 'missing.csv'\n";
  EXPECT_THAT(RunGnuplot({{folder.path(), {"bad.gp"}, {}}}),
              testing::AllOf(HasSubstr("bad.gp"), HasSubstr("line 1")));
}

// A program that draws `picture` as gnuplot does when it cannot write all of
// it.
std::string FakeGnuplot(const fakes::TemporaryFolder& folder,
                        const std::string& picture,
                        const std::string& content) {
  const std::filesystem::path path = folder.path() / "fake-gnuplot";
  fakes::WriteFile(path, "#!/bin/sh\nprintf '%s' '" + content + "' > " +
                             picture + "\nexit 0\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(GnuplotProcess, APictureThatIsCutIsAnErrorAndTheOldOneStays) {
  for (const char* picture : {"a.png", "a.pdf", "a.svg"}) {
    const fakes::TemporaryFolder folder;
    fakes::WriteFile(folder.path() / picture, "the old one");
    const std::string program =
        FakeGnuplot(folder, picture, "%PDF-1.4 <svg> half of it");
    EXPECT_THAT(
        RunGnuplot({{folder.path(), {"a.gp"}, {picture}}}, program),
        testing::AllOf(HasSubstr(picture), HasSubstr("is the disk full?")));
    EXPECT_EQ(fakes::ReadFile(folder.path() / picture), "the old one");
  }
}

TEST(GnuplotProcess, APictureThatIsMissingIsAnError) {
  const fakes::TemporaryFolder folder;
  EXPECT_THAT(RunGnuplot({{folder.path(), {"a.gp"}, {"a.svg"}}}, "true"),
              HasSubstr("a.svg"));
}

TEST(GnuplotProcess, ACompletePictureReplacesTheOldOne) {
  const fakes::TemporaryFolder folder;
  fakes::WriteFile(folder.path() / "a.svg", "the old one");
  const std::string program = FakeGnuplot(folder, "a.svg", "<svg>new</svg>");
  EXPECT_EQ(RunGnuplot({{folder.path(), {"a.gp"}, {"a.svg"}}}, program), "");
  EXPECT_EQ(fakes::ReadFile(folder.path() / "a.svg"), "<svg>new</svg>");
}

TEST(Table, QuotesCellsThatNeedIt) {
  EXPECT_EQ(CsvRow({"a", "dp=1,tp=2", "say \"x\"", ""}),
            "a,\"dp=1,tp=2\",\"say \"\"x\"\"\",\n");
  EXPECT_EQ(CsvRow({"", "b"}), ",b\n");
}

TEST(Table, AlignsByCharactersNotBytes) {
  EXPECT_EQ(
      ToText({.header = {"name", "x"}, .rows = {{"é", "1"}, {"bc", "22"}}}),
      "name   x\n--------\né      1\nbc    22\n");
}

TEST(Table, BreaksNamesOfAHeaderThatIsTooWide) {
  Table table{.header = {"", "one long name"}, .rows = {{"a", "1"}}};
  EXPECT_EQ(ToText(table),
            "   one long name\n----------------\na              1\n");
  table.header[0] = std::string(110, 'x');
  const std::string text = ToText(table);
  EXPECT_THAT(text, HasSubstr("   one\n"));
  EXPECT_THAT(text, HasSubstr("  long\n"));
  EXPECT_THAT(text, HasSubstr("x  name\n"));
}

TEST(FigureLayout, LegendTakesFewRowsAndStaysOnThePage) {
  Figure figure = SomeFigure();
  figure.panels[0].series.resize(5, figure.panels[0].series[0]);
  figure.panels[0].series[3].label = "OPPA without early termination";
  const Layout layout = LayoutOf(figure);
  EXPECT_EQ(layout.legend_column_widths.size(), 2U);
  EXPECT_LE(layout.legend_column_widths[0] + layout.legend_column_widths[1],
            layout.width);
}

TEST(FigureLayout, CaptionIsBrokenIntoLinesOfLikeLength) {
  Figure figure = SomeFigure();
  figure.caption =
      "a model of some size, batch 64 x 1024, on a cluster of 8 GPUs; "
      "simulated cluster; 10 repeats: median and quartiles.";
  const Layout layout = LayoutOf(figure);
  ASSERT_EQ(layout.caption.size(), 2U);
  EXPECT_LT(std::abs(static_cast<int>(layout.caption[0].size()) -
                     static_cast<int>(layout.caption[1].size())),
            15);
}

}  // namespace plots::gnuplot_test
