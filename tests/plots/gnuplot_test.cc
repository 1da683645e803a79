#include "plots/gnuplot.h"

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plots/figure_layout.h"
#include "plots/gnuplot_process.h"
#include "plots/table.h"
#include "tests/plots/synthetic_experiment.h"

namespace plots {
namespace {

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
  figure.panels[0].diagonal = true;
  const std::string script = Script(figure, {"pdf"});
  EXPECT_THAT(script, HasSubstr("using ($1/60):6:(0):($7-$6) with vectors"));
  EXPECT_THAT(script, testing::Not(HasSubstr(":6:7 with filledcurves")));
  EXPECT_THAT(script, HasSubstr("x with lines"));
}

TEST(Gnuplot, DataAreInSiUnitsAndEmptyWhereThereIsNoLine) {
  EXPECT_EQ(DataCsv(SomeFigure().panels[0]),
            "time_s,oppa_median,oppa_q1,oppa_q3,"
            "random_median,random_q1,random_q3\n"
            "0,0,0,0,0,0,0\n"
            "300,1.5,1,1.75,0.75,0.5,1\n"
            "600,1.95,1.9,2,,,\n");
}

TEST(Gnuplot, StylesDifferInColourAndInDashes) {
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
  ASSERT_EQ(RunGnuplot({{folder.path(), {"a.gp"}}}), "");
  const auto begin = [&](const char* format) {
    return fakes::ReadFile(folder.path() /
                           (std::string("throughput-time.") + format))
        .substr(0, 5);
  };
  EXPECT_EQ(begin("pdf"), "%PDF-");
  EXPECT_EQ(begin("svg"), "<?xml");
  EXPECT_EQ(begin("png"), std::string("\x89PNG\r"));
}

TEST(GnuplotProcess, SaysHowToGetGnuplotWhenItIsMissing) {
  const fakes::TemporaryFolder folder;
  EXPECT_THAT(RunGnuplot({{folder.path(), {"a.gp"}}}, "no-such-gnuplot"),
              testing::AllOf(HasSubstr("no-such-gnuplot"),
                             HasSubstr("apt-get install gnuplot-nox")));
}

TEST(GnuplotProcess, PassesOnWhatGnuplotSays) {
  const fakes::TemporaryFolder folder;
  std::ofstream(folder.path() / "bad.gp") << "plot 'missing.csv'\n";
  EXPECT_THAT(RunGnuplot({{folder.path(), {"bad.gp"}}}),
              testing::AllOf(HasSubstr("bad.gp"), HasSubstr("line 1")));
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

}  // namespace
}  // namespace plots
