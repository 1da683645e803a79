#include "jobs/plan/plan_page.h"

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "common/text.h"
#include "jobs/plan/forecast_request.h"
#include "jobs/plan/plan_page_assets.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/jobs/job_fixture.h"
#include "trials/schedule.h"

namespace jobs::plan_page_test {

using common::Json;
using testing::HasSubstr;
using testing::Not;

ForecastRequest Small(const fakes::TemporaryFolder& folder) {
  ForecastRequest request;
  request.model = kSmallModel;
  request.gpus = "1x4";
  request.machine.gpu = "h100";
  request.batch_size = 64;
  request.sequence_length = 2048;
  request.html = folder.path() / "plan.html";
  return request;
}

std::string PageOf(const ForecastRequest& request) {
  (void)RunPlan(request);
  return common::ReadFile(request.html);
}

// What the page's script reads.
Json DataOf(const std::string& page) {
  const std::string begin = "id=\"data\">";
  const std::size_t from = page.find(begin) + begin.size();
  return common::ParseJson(
      page.substr(from, page.find("</script>", from) - from), "page");
}

Json JsonOf(ForecastRequest request) {
  request.html.clear();
  request.format = OutputFormat::kJson;
  request.layouts = std::numeric_limits<int>::max();
  return common::ParseJson(RunPlan(request).text, "plan");
}

TEST(PlanPage, HasTheNumbersOfTheJsonOfTheSameCommand) {
  const fakes::TemporaryFolder folder;
  const ForecastRequest request = Small(folder);
  const Json data = DataOf(PageOf(request));
  const Json plan = JsonOf(request);
  ASSERT_EQ(data["frameworks"].size(), 2U);
  for (std::size_t f = 0; f < 2; ++f) {
    EXPECT_EQ(data["frameworks"][f]["bands"], plan[f]["bands"]);
    ASSERT_FALSE(data["frameworks"][f]["kinds"].empty());
    for (const Json& kind : data["frameworks"][f]["kinds"]) {
      bool found = false;
      for (const Json& row : plan[f]["layouts"]) {
        if (row["config"] == kind["config"]) {
          found = true;
          for (const char* key :
               {"layout", "step_time_s", "mfu", "shares", "peak_memory_bytes",
                "tokens_per_s_per_gpu", "fit_probability", "microbatches"}) {
            EXPECT_EQ(kind[key], row[key]) << key;
          }
        }
      }
      EXPECT_TRUE(found) << kind["config"];
      double parts_s = 0.0;
      for (const Json& seconds : kind["parts"]) {
        parts_s += seconds.get<double>();
      }
      EXPECT_NEAR(parts_s, kind["step_time_s"].get<double>(), 1e-9 * parts_s);
      double fullest = 0.0;
      for (const Json& stage : kind["stages"]) {
        double bytes = 0.0;
        for (const Json& part : stage["memory"]) {
          bytes += part.get<double>();
        }
        fullest = std::max(fullest, bytes);
      }
      EXPECT_NEAR(fullest, kind["peak_memory_bytes"].get<double>(),
                  1e-5 * fullest);
    }
  }
}

// The request of a point, as the page tells its reader.
ForecastRequest RequestOf(ForecastRequest request, const Json& grid,
                          std::size_t point) {
  const Json& axes = grid["axes"];
  for (std::size_t a = axes.size(); a-- > 0;) {
    const std::size_t step = point % axes[a]["values"].size();
    point /= axes[a]["values"].size();
    if (step == axes[a]["present"]) {
      continue;
    }
    const auto value = axes[a]["values"][step].get<std::string>();
    const std::string option = axes[a]["option"];
    if (option == "--gpus") {
      request.gpus = value;
    } else if (option == "--batch") {
      request.batch_size = std::stoi(value);
    } else if (option == "--seq") {
      request.sequence_length = std::stoi(value);
    } else if (option == "--intra") {
      request.machine.intra_gb_per_s = std::stod(value);
    } else {
      EXPECT_EQ(option, "--inter");
      request.machine.inter_gb_per_s = std::stod(value);
    }
  }
  return request;
}

TEST(PlanPage, EveryStepOfTheGridIsTheAnswerToItsRequest) {
  const fakes::TemporaryFolder folder;
  const ForecastRequest request = Small(folder);
  const Json grid = DataOf(PageOf(request))["grid"];
  ASSERT_EQ(grid["axes"].size(), 5U);
  EXPECT_EQ(grid["together"], 5);
  ASSERT_EQ(grid["points"].size(), 243U);
  for (std::size_t point = 0; point < 243; point += 11) {
    SCOPED_TRACE(point);
    const Json plan = JsonOf(RequestOf(request, grid, point));
    const Json& row = grid["points"][point];
    EXPECT_EQ(row[0], plan[0]["nodes"].get<int>() *
                          plan[0]["gpus_per_node"].get<int>());
    for (std::size_t f = 0; f < 2; ++f) {
      const Json& best = plan[f]["layouts"][0];
      const Json& one = row[1 + f];
      EXPECT_EQ(one[1], best["step_time_s"]);
      EXPECT_EQ(one[2], best["mfu"]);
      EXPECT_EQ(one[3], best["peak_memory_bytes"]);
      EXPECT_EQ(one[4], best["tokens_per_s_per_gpu"]);
    }
  }
}

TEST(PlanGrid, OfAJobWithManyCandidatesChangesFewAxesAtOnce) {
  const fakes::TemporaryFolder folder;
  const ForecastRequest request = Small(folder);
  int made = 0;
  const auto none = [&](const ForecastRequest&) {
    ++made;
    std::vector<std::unique_ptr<Forecaster>> forecasters(1);
    return forecasters;
  };
  for (const auto& [candidates, together] :
       {std::pair<std::int64_t, int>(100, 5), {20'000, 2}, {30'000, 1}}) {
    const PlanGrid grid =
        MakeGrid(request, SmallJob().cluster, candidates, none);
    EXPECT_EQ(grid.together, together);
    int computed = 0;
    for (const PlanGrid::Point& point : grid.points) {
      computed += point.fastest.empty() ? 0 : 1;
    }
    EXPECT_EQ(computed, together == 5 ? 243 : together == 2 ? 51 : 11);
  }
}

TEST(PlanPage, RefersToNothingOutsideAndIsSmall) {
  const fakes::TemporaryFolder folder;
  ForecastRequest request = Small(folder);
  request.model = Llama8b();
  request.gpus = "8x8";
  request.batch_size = 512;
  request.sequence_length = 8192;
  const std::string page = PageOf(request);
  EXPECT_LT(page.size(), 400U * 1024);
  for (const char* reference :
       {"src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest",
        "WebSocket", "<link", "<iframe"}) {
    EXPECT_THAT(page, Not(HasSubstr(reference)));
  }
  // The name of a namespace is no address.
  const std::regex address("https?://(?!www\\.w3\\.org/2000/svg)");
  const std::string script(kPlanScript);
  EXPECT_FALSE(std::regex_search(script, address));
}

TEST(PlanPage, ShowsHostileNamesAsText) {
  const fakes::TemporaryFolder folder;
  const std::string name = "<script>alert(1)<!--&\"' onload=x";
  const auto model = folder.path() / (name + ".json");
  common::ReplaceFile(model, common::ReadFile(Llama8b()));
  ForecastRequest request = Small(folder);
  request.model = model.string();
  request.gpus = "2x8";
  const std::string page = PageOf(request);
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;!--"));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<!--")));
  EXPECT_FALSE(DataOf(page)["frameworks"].empty());
}

TEST(PlanPage, SaysWhatToChangeWhereNothingFits) {
  const fakes::TemporaryFolder folder;
  ForecastRequest request = Small(folder);
  request.model = Llama8b();
  request.gpus = "1x1";
  request.sequence_length = 131072;
  request.batch_size = 1;
  const std::string page = PageOf(request);
  EXPECT_THAT(page, HasSubstr("the smallest needs"));
  EXPECT_THAT(page, HasSubstr("id=\"steps\""));
}

TEST(PlanPage, NeedsOneSize) {
  const fakes::TemporaryFolder folder;
  ForecastRequest request = Small(folder);
  request.gpus = "4..8";
  EXPECT_THAT(fakes::ErrorOf([&] { (void)RunPlan(request); }),
              HasSubstr("--html needs one size"));
}

// The text as the page's script reads it.
std::vector<trials::ActionRecord> Parse(
    const std::string& text,
    const std::map<std::string, std::array<double, 2>>& lengths,
    double unit_s) {
  std::vector<std::string> words;
  const auto split = common::Split(text, ' ');
  for (std::size_t i = 0; i < split.size(); ++i) {
    const std::string word(split[i]);
    const std::size_t star = word.find('*');
    if (star == std::string::npos) {
      words.push_back(word);
      continue;
    }
    const int times = std::stoi(word.substr(0, star));
    const std::size_t count = std::stoul(word.substr(star + 1));
    for (int k = 0; k < times; ++k) {
      for (std::size_t j = 1; j <= count; ++j) {
        words.emplace_back(split[i + j]);
      }
    }
    i += count;
  }
  std::vector<trials::ActionRecord> actions;
  std::map<std::string, int> counts;
  double now_s = 0.0;
  for (std::string word : words) {
    trials::ActionRecord one;
    one.critical = word.front() == '!';
    word = word.substr(one.critical ? 1 : 0);
    const auto cells = common::Split(word, ',');
    const std::string name(cells[0]);
    if (cells.size() > 1) {
      now_s += unit_s * std::stoi(std::string(cells[1]), nullptr, 36);
      one.received_s = unit_s * std::stoi(std::string(cells[2]), nullptr, 36);
    }
    one.action = {name[0] == 'f', counts[name]++, std::stoi(name.substr(1)),
                  name[0] == 'w'};
    one.begin_s = now_s;
    one.end_s = now_s + lengths.at(name)[0];
    one.free_s = now_s = one.end_s + lengths.at(name)[1];
    actions.push_back(one);
  }
  return actions;
}

TEST(ActionsText, TellsEveryActionOfEverySchedule) {
  constexpr double kUnit_s = 1e-8;
  for (const trials::PipelineShape& shape :
       {trials::PipelineShape{1, 3, 1}, trials::PipelineShape{4, 64, 1},
        trials::PipelineShape{3, 24, 2},
        trials::PipelineShape{4, 9, 1, true}}) {
    trials::PipelineTimes times;
    times.forward_s.assign(shape.stages * shape.chunks, 0.7);
    times.forward_s.back() = 0.9;
    times.backward_s.assign(times.forward_s.size(), 1.3);
    times.send_forward_s.assign(shape.stages, 0.05);
    times.send_backward_s = times.send_forward_s;
    times.weights_s.assign(shape.stages, 0.4);
    trials::PipelineRecord record = trials::RecordPipeline(shape, times);
    trials::MarkCriticalPath(shape, 0, record);
    const int period = (shape.zero_bubble ? 3 : 2) * shape.chunks *
                       (shape.chunks > 1 ? shape.stages : 1);
    for (const auto& stage : record) {
      std::map<std::string, std::array<double, 2>> lengths;
      for (const trials::ActionRecord& one : stage) {
        lengths[fmt::format("{}{}",
                            one.action.weights   ? "w"
                            : one.action.forward ? "f"
                                                 : "b",
                            one.action.chunk)] = {one.end_s - one.begin_s,
                                                  one.free_s - one.end_s};
      }
      const std::string text = ActionsText(stage, period, kUnit_s);
      const auto read = Parse(text, lengths, kUnit_s);
      ASSERT_EQ(read.size(), stage.size());
      for (std::size_t i = 0; i < read.size(); ++i) {
        EXPECT_EQ(read[i].action, stage[i].action);
        EXPECT_EQ(read[i].critical, stage[i].critical);
        EXPECT_NEAR(read[i].begin_s, stage[i].begin_s, 1e-5);
        EXPECT_NEAR(read[i].received_s, stage[i].received_s, 1e-5);
      }
      if (shape.microbatches >= 64) {
        EXPECT_LT(text.size(), 60U * shape.stages) << "repeats are told once";
      }
    }
  }
}

}  // namespace jobs::plan_page_test
