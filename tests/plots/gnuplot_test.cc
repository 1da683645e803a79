#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "plots/figure_files.h"
#include "plots/table.h"
#include "tests/fakes/error_of.h"
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

TEST(DataCsv, HasOneColumnForMarksWithoutQuartiles) {
  EXPECT_EQ(DataCsv(PlainFigure().panels[0]),
            "gpus,line,steps,points,scenario\n"
            "1,2,2,2,\"a,b\"\n"
            "10,3,3,,c\n");
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

// What is drawn of a figure, as SVG.
std::string SvgOf(const Figure& figure) {
  const fakes::TemporaryFolder folder;
  EXPECT_EQ(WriteFigures({{folder.path(), {figure}}}, {"svg"}).error, "");
  return fakes::ReadFile(folder.path() / (figure.name + ".svg"));
}

TEST(Gnuplot, TheLegendHasEveryLabelOfAnyPanelOnce) {
  Figure figure = PlainFigure();
  figure.panels[1].series[0].label = "another";
  const std::string texts = TextsOfSvg(SvgOf(figure));
  for (const char* label : {"it's, fast", "A100", "another"}) {
    EXPECT_NE(texts.find(label), std::string::npos) << label;
    EXPECT_EQ(texts.find(label), texts.rfind(label)) << label;
  }
}

TEST(Gnuplot, ALogarithmicAxisOfAShortRangeHasNumbers) {
  Figure figure = PlainFigure();
  figure.panels.resize(1);
  Panel& panel = figure.panels.front();
  panel.x_min = 21.0;
  panel.x_max = 49.0;
  panel.y_min = 310.0;
  panel.y_max = 410.0;
  const std::string texts = TextsOfSvg(SvgOf(figure));
  for (const char* number : {"30", "40", "320", "360", "400"}) {
    EXPECT_THAT(texts, HasSubstr(number));
  }
}

TEST(Gnuplot, MillionsAreShortEnoughForTheirAxis) {
  Figure figure = PlainFigure();
  figure.panels.resize(1);
  figure.panels.front().log_y = false;
  figure.panels.front().y_min = 2.98e7;
  figure.panels.front().y_max = 3.03e7;
  EXPECT_THAT(TextsOfSvg(SvgOf(figure)),
              AllOf(HasSubstr("30.00M"), Not(HasSubstr("e+07"))));
}

// The axes of one format do not remain for the legend of the next.
TEST(Gnuplot, DrawsLogarithmicAxesInEveryFormat) {
  const fakes::TemporaryFolder folder;
  EXPECT_EQ(
      WriteFigures({{folder.path(), {PlainFigure()}}}, AllFormats()).error, "");
}

// Capitals of DejaVu Sans are 0.69 of the font size wide, in the mean of these.
TEST(Gnuplot, LabelsOfALegendDoNotReachTheNextSample) {
  Figure figure = SomeFigure();
  figure.panels[0].series.resize(3, figure.panels[0].series[0]);
  const std::vector<std::string> labels = {"OPPA-PAPER", "COST-MODEL", "BO"};
  for (std::size_t s = 0; s < labels.size(); ++s) {
    figure.panels[0].series[s].label = labels[s];
  }
  const std::string svg = SvgOf(figure);
  std::vector<double> lefts;
  for (const std::string& label : labels) {
    const std::regex text(
        "translate\\(([0-9.]+),[0-9.]+\\)[^>]*font-size=\"13.00\"[^>]*>"
        "\\s*<text>" +
        label);
    std::smatch at;
    ASSERT_TRUE(std::regex_search(svg, at, text)) << "6.5 points are 13 units";
    lefts.push_back(std::stod(at[1]));
  }
  constexpr double kSample = 25.0;  // units
  for (std::size_t s = 0; s + 1 < labels.size(); ++s) {
    const double end =
        lefts[s] + 0.69 * 13.0 * static_cast<double>(labels[s].size());
    EXPECT_LT(end, lefts[s + 1] - kSample) << labels[s];
  }
}

// Places of texts: <g transform="translate(x,y)">.
TEST(Gnuplot, TextsBeginOnThePage) {
  Figure figure = SomeFigure();
  figure.panels[0].series.resize(5, figure.panels[0].series[0]);
  for (std::size_t s = 0; s < 5; ++s) {
    figure.panels[0].series[s].label =
        fmt::format("OPPA without early termination {}", s);
  }
  const std::string svg = SvgOf(figure);
  const std::regex box("viewBox=\"0 0 ([0-9]+) ([0-9]+)\"");
  std::smatch size;
  ASSERT_TRUE(std::regex_search(svg, size, box));
  const std::regex place("translate\\((-?[0-9.]+),(-?[0-9.]+)\\)");
  int places = 0;
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), place);
       at != std::sregex_iterator(); ++at, ++places) {
    for (const int axis : {1, 2}) {
      EXPECT_GE(std::stod((*at)[axis]), 0.0) << (*at)[0];
      EXPECT_LE(std::stod((*at)[axis]), std::stod(size[axis])) << (*at)[0];
    }
  }
  EXPECT_GT(places, 10);
}

TEST(DataCsv, IsInSiUnitsAndEmptyWhereThereIsNoLine) {
  EXPECT_EQ(DataCsv(SomeFigure().panels[0]),
            "time_s,oppa_median,oppa_q1,oppa_q3,"
            "random_median,random_q1,random_q3\n"
            "0,0,0,0,0,0,0\n"
            "300,1.5,1,1.75,0.75,0.5,1\n"
            "600,1.95,1.9,2,,,\n");
}

TEST(Styles, OfMethodsDifferInColorAndInGray) {
  const std::vector<std::string> compared = {
      "random",   "xgboost", "cost-model", "vanilla-bo", "oppa",
      "oppa-sim", "mine",    "theirs",     "planned"};
  const std::vector<std::string> ablations = {
      "oppa", "oppa-paper", "oppa-no-prior", "oppa-no-early-termination",
      "oppa-no-prior-no-early-termination"};
  for (const auto& methods : {compared, ablations}) {
    std::set<std::pair<std::string, int>> colored;
    std::set<std::pair<int, int>> gray;
    for (const LineStyle& style : StylesOf(methods)) {
      colored.insert({style.color, style.dash});
      gray.insert({style.dash, style.symbol});
      EXPECT_EQ(style.width, StylesOf({"oppa"}).front().width);
    }
    EXPECT_EQ(colored.size(), methods.size());
    EXPECT_EQ(gray.size(), methods.size());
  }
}

TEST(Gnuplot, LinesThatCoincideHaveTheirSymbolsAtDifferentPlaces) {
  Figure figure = SomeFigure();
  Panel& panel = figure.panels[0];
  panel.series[1].band = panel.series[0].band =
      Band{.x = {0, 100, 200, 300, 400, 500, 600},
           .y = std::vector<common::Quartiles>(7, {1, 1.5, 1.75})};
  const std::string svg = SvgOf(figure);
  // Places in units of the page, of symbols of each color.
  const std::regex symbol(
      "#gpPt[0-9]+' transform='translate\\(([0-9.]+),([0-9.]+)\\)[^>]*"
      "color='rgb\\(([^)]*)\\)'");
  std::map<std::string, std::set<std::string>> places;  // in the axes
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), symbol);
       at != std::sregex_iterator(); ++at) {
    places[(*at)[3]].insert((*at)[1]);
  }
  ASSERT_EQ(places.size(), 2U);
  for (const std::string& place : places.begin()->second) {
    EXPECT_FALSE(places.rbegin()->second.contains(place)) << place;
  }
}

TEST(Gnuplot, ACaptionDoesNotBreakInsideAName) {
  for (std::size_t length = 30; length < 110; ++length) {
    Figure figure = SomeFigure();
    figure.caption = std::string(length, 'x') +
                     " on a100-selene (8 x A100-SXM4-80GB), batch 64 x 1024.";
    const std::string script = Script(figure, {"svg"});
    EXPECT_THAT(script, HasSubstr("(8 x A100-SXM4-80GB)")) << length;
    EXPECT_THAT(script, HasSubstr("64 x 1024")) << length;
  }
}

TEST(FigureFiles, AFolderThatCannotBeWrittenIsNamedWithTheRemedy) {
  EXPECT_THAT(fakes::ErrorOf([&] {
                return WriteFigures({{"/proc/none", {SomeFigure()}}}, {});
              }),
              testing::AllOf(HasSubstr("/proc/none"),
                             HasSubstr("choose another folder (--results)")));
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

TEST(GnuplotProcess, ACompletePictureReplacesTheOldOne) {
  const fakes::TemporaryFolder folder;
  fakes::WriteFile(folder.path() / "a.svg", "the old one");
  const std::string program = FakeGnuplot(folder, "a.svg", "<svg>new</svg>");
  EXPECT_EQ(RunGnuplot({{folder.path(), {"a.gp"}, {"a.svg"}}}, program), "");
  EXPECT_EQ(fakes::ReadFile(folder.path() / "a.svg"), "<svg>new</svg>");
}

TEST(GnuplotProcess, RemovesWhatAKilledReportLeft) {
  const fakes::TemporaryFolder folder;
  std::filesystem::path left;
  std::filesystem::path others;
  const auto begin = folder.path() / ".drawing";
  (void)common::CreateTemporaryFolder(begin, left);
  const auto lock = common::CreateTemporaryFolder(begin, others);
  std::filesystem::create_directories(left / "sub");
  const std::string program = FakeGnuplot(folder, "a.svg", "<svg></svg>");
  EXPECT_EQ(RunGnuplot({{folder.path(), {"a.gp"}, {"a.svg"}}}, program), "");
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(others));  // of a report that runs
}

Table SomeTable(const std::string& name, const std::string& number) {
  Table table;
  table.Add({{name, "é"}, {"data_s", number, Fixed(0.0123, 1, 1000.0)}});
  table.Add({{name, "a,b"}, {"data_s", number, Fixed(trials::kUnknown, 1)}});
  return table;
}

TEST(Table, ShowsPeopleRoundedNumbersAndProgramsAllDigits) {
  const Table table = SomeTable("name", "ms");
  EXPECT_EQ(ToText(table), "name    ms\n----------\né     12.3\na,b       \n");
  EXPECT_EQ(ToMarkdown(table),
            "| name |   ms |\n| ---- | ---: |\n| é    | 12.3 |\n"
            "| a,b  |      |\n");
  EXPECT_EQ(ToCsv(table), "name,data_s\né,0.0123\n\"a,b\",\n");
}

TEST(Table, KeepsMarkupOfNamesOutOfMarkdown) {
  EXPECT_THAT(ToMarkdown(SomeTable("a|b", "<script>")),
              testing::AllOf(HasSubstr("a\\|b"), HasSubstr("&lt;script>")));
}

TEST(Table, HasThreeColumnsForTheProgramsOfAnEstimate) {
  Table table;
  table.Add({{"share", "of optimum (%)", Interval({0.5, 0.25, 0.75}, 1, 100.0)},
             {"only_data", "", 1},
             {"", "only for people", 2}});
  EXPECT_EQ(ToCsv(table),
            "share,share_low,share_high,only_data\n0.5,0.25,0.75,1\n");
  EXPECT_THAT(ToText(table), HasSubstr("50.0 [25.0, 75.0]                2"));
}

TEST(Table, BreaksNamesOfAHeaderThatIsTooWide) {
  const std::string text =
      ToText(SomeTable(std::string(110, 'x'), "one long name"));
  EXPECT_THAT(text, HasSubstr(" one long\n"));
  EXPECT_THAT(text, HasSubstr("x      name\n"));
}

TEST(Rounded, HasSignificantDigitsWithoutExponent) {
  EXPECT_EQ(Rounded(0.42411, 4).text, "0.4241");
  EXPECT_EQ(Rounded(-0.0042411, 3).text, "-0.00424");
  EXPECT_EQ(Rounded(1234.5, 4).text, "1234");
  EXPECT_EQ(Rounded(trials::kUnknown, 4).text, "");
}

}  // namespace plots::gnuplot_test
