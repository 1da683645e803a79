#include "jobs/plan/purchase.h"

#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text.h"
#include "jobs/plan/forecast_request.h"
#include "plots/table.h"
#include "tests/fakes/error_of.h"

namespace jobs::purchase_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Fails at exponential times while it trains intervals with checkpoints.
double SimulatedShare(double interval_s, double checkpoint_s, double restart_s,
                      double failure_s) {
  std::mt19937_64 random(3);
  std::exponential_distribution<double> failure(1.0 / failure_s);
  constexpr int kIntervals = 200000;
  double time_s = 0.0;
  for (int i = 0; i < kIntervals; ++i) {
    double needed_s = interval_s + checkpoint_s;
    for (double next_s = failure(random); next_s < needed_s;
         next_s = failure(random)) {
      time_s += next_s;
      needed_s = interval_s + checkpoint_s + restart_s;  // which may fail, too
    }
    time_s += needed_s;
  }
  return kIntervals * interval_s / time_s;
}

TEST(GoodputOf, IsThatOfASimulationWithFailures) {
  for (const double failure_s : {3600.0, 36000.0}) {
    const Goodput found = GoodputOf(60.0, 600.0, failure_s);
    EXPECT_NEAR(found.share,
                SimulatedShare(found.interval_s, 60.0, 600.0, failure_s),
                0.01 * found.share)
        << failure_s;
  }
}

TEST(GoodputOf, NoOtherIntervalIsMuchBetter) {
  const Goodput found = GoodputOf(120.0, 300.0, 7200.0);
  for (const double times : {0.5, 0.8, 1.25, 2.0}) {
    EXPECT_LT(SimulatedShare(times * found.interval_s, 120.0, 300.0, 7200.0),
              1.002 * found.share)
        << times;
  }
}

Offer Made(const std::string& kind, int gpus, double tokens_per_s_per_gpu) {
  Offer offer{.kind = kind,
              .framework = "megatron-core",
              .size = {gpus / 8, 8},
              .best = Prediction{.config = {.dp = gpus}},
              .band = {0.8, 1.3},
              .power_w = 700.0,
              .checkpoint_bytes = 1e12};
  offer.best->tokens_per_s_per_gpu = tokens_per_s_per_gpu;
  return offer;
}

TEST(Complete, DaysMoneyAndEnergyFollowFromTheTokens) {
  std::vector<Offer> offers = {Made("h100", 64, 1000.0)};
  Complete({.tokens = 64e3 * 86400.0 * 10.0,
            .prices = {{"h100", 2.0}},
            .failures_per_gpu_day = 0.0},
           offers);
  EXPECT_NEAR(offers[0].days, 10.0, 1e-9);
  EXPECT_NEAR(offers[0].money, 10.0 * 24.0 * 64 * 2.0, 1e-6);
  EXPECT_NEAR(offers[0].energy_mwh, 10.0 * 24.0 * 64 * 700.0 / 1e6, 1e-9);
}

TEST(Complete, FailuresCostMoreOnMoreGpus) {
  std::vector<Offer> offers = {Made("h100", 64, 1000.0),
                               Made("h100", 8192, 1000.0)};
  Complete({.tokens = 1e13}, offers);
  EXPECT_GT(offers[0].goodput.share, 0.98);
  EXPECT_LT(offers[1].goodput.share, offers[0].goodput.share - 0.02);
  EXPECT_GT(offers[0].goodput.interval_s, offers[1].goodput.interval_s);
}

TEST(Complete, WhereFailuresLeaveNoTimeNothingIsTrained) {
  for (const double failures : {1e3, 1e5}) {
    std::vector<Offer> offers = {Made("h100", 64, 1000.0)};
    Complete({.tokens = 1e12, .failures_per_gpu_day = failures}, offers);
    EXPECT_FALSE(offers[0].best);
    EXPECT_THAT(
        OfferText({.tokens = 1e12}, offers, 80),
        AllOf(HasSubstr("nothing is trained"), Not(HasSubstr("fastest"))));
  }
}

TEST(Complete, TheBestChoicesAreThoseThatNoOtherBeatsInBoth) {
  std::vector<Offer> offers = {Made("h100", 64, 1000.0),
                               Made("b200", 64, 2000.0),    // fast and cheap
                               Made("h100", 128, 1000.0),   // as fast, dearer
                               Made("b200", 128, 1900.0)};  // fastest
  Complete({.tokens = 1e12,
            .prices = {{"h100", 2.0}, {"b200", 3.0}},
            .failures_per_gpu_day = 0.0},
           offers);
  EXPECT_FALSE(offers[0].is_best_choice);
  EXPECT_TRUE(offers[1].is_best_choice);
  EXPECT_FALSE(offers[2].is_best_choice);
  EXPECT_TRUE(offers[3].is_best_choice);
}

ForecastRequest Buying() {
  ForecastRequest request;
  request.model =
      "layers=8,hidden=2048,heads=16,kv_heads=8,ffn=5632,vocab=8000";
  request.gpus = "8..16";
  request.machine.gpu = "h100,b200";
  request.batch_size = 64;
  request.sequence_length = 2048;
  request.frameworks = {"megatron-lm"};
  request.training_assumptions.tokens = 1e12;
  request.price = "h100=2.5,b200=4";
  return request;
}

TEST(RunPlan, ABuyersTableHasEveryKindAndNumber) {
  ForecastRequest request = Buying();
  const std::string text = RunPlan(request).text;
  EXPECT_THAT(text,
              AllOf(HasSubstr("fastest: 16 b200"), HasSubstr("cheapest: "),
                    HasSubstr("failures per GPU and day")));
  request.format = OutputFormat::kJson;
  const common::Json json = common::ParseJson(RunPlan(request).text, "offers");
  ASSERT_EQ(json.size(), 4U);
  EXPECT_LT(json[1]["days"], json[0]["days"]);
  EXPECT_EQ(json[2]["gpu"], "b200");
  EXPECT_GT(json[3]["half_network"], 1.0);
  EXPECT_TRUE(json[2]["half_network"].is_null());  // one node
  request.training_assumptions.prices.clear();
  request.price = "mi300x=2";
  EXPECT_THAT(fakes::ErrorOf([&] { return RunPlan(request).text; }),
              HasSubstr("'mi300x' is none of --gpu h100,b200"));
  request.price = "cheap";
  EXPECT_THAT(fakes::ErrorOf([&] { return RunPlan(request).text; }),
              HasSubstr("--price cheap: give the price"));
}

TEST(RunPlan, TheCheapestOfSomePricesIsCalledSo) {
  ForecastRequest request = Buying();
  request.price = "h100=2.5";
  EXPECT_THAT(RunPlan(request).text,
              HasSubstr("cheapest of those with a price: "));
}

TEST(RunPlan, AHourCostsWhatIsSaidOfItsKindOfGpu) {
  ForecastRequest request = Buying();
  request.training_assumptions.tokens = 0.0;
  request.gpus = "1x8";
  request.machine.gpu = "h100";
  request.format = OutputFormat::kJson;
  const auto cost = [&](const std::string& price) {
    request.price = price;
    const common::Json json = common::ParseJson(RunPlan(request).text, "plan");
    return json[0].at("price_per_step").get<double>();
  };
  EXPECT_EQ(cost("h100=2.5"), cost("2.5"));
  EXPECT_EQ(cost("h100=2.5,4"), cost("2.5"));
  for (const char* wrong : {"b200=4", "h100=2.5,b200=4"}) {
    request.price = wrong;
    EXPECT_THAT(fakes::ErrorOf([&] { return RunPlan(request).text; }),
                HasSubstr("'b200' is none of --gpu h100"));
  }
  request.price = "2.5,3";
  EXPECT_THAT(fakes::ErrorOf([&] { return RunPlan(request).text; }),
              HasSubstr("--price 2.5,3: give the price"));
}

TEST(OfferText, FitsTheTerminalAndTheCsvHasAllColumns) {
  std::vector<Offer> offers = {Made("h100", 64, 1000.0),
                               Made("b200", 8192, 2000.0)};
  offers[0].best->config = {
      .dp = 512, .tp = 8, .pp = 16, .zero_stage = 1, .cp = 2};
  offers[0].half_network = 1.25;
  offers.push_back({.kind = "l40", .size = {1, 8}, .problem = "does not fit"});
  const TrainingAssumptions assumptions = {
      .tokens = 1e13, .prices = {{"", 2.0}}, .grams_co2_per_kwh = 400.0};
  Complete(assumptions, offers);
  for (const std::size_t columns : {80, 120}) {
    const std::string text = OfferText(assumptions, offers, columns);
    for (const std::string_view line : common::Split(text, '\n')) {
      EXPECT_LE(line.size(), columns) << line;
    }
    EXPECT_THAT(text, AllOf(HasSubstr("thousand"), HasSubstr("MWh"),
                            HasSubstr("8 l40: does not fit")));
    EXPECT_EQ(text.find("1.25") != std::string::npos, columns == 120);
  }
  EXPECT_THAT(plots::ToCsv(OfferTable(assumptions, offers)),
              AllOf(HasSubstr("half_network"), HasSubstr("tp=8 pp=16")));
}

TEST(OfferPage, HasNoReferencesAndEscapesNames) {
  std::vector<Offer> offers = {Made("h100", 64, 1000.0),
                               Made("<script>", 64, 2000.0)};
  Complete({.tokens = 1e12}, offers);
  const std::string page = OfferPage({.tokens = 1e12}, offers, "a<b");
  EXPECT_THAT(page, AllOf(HasSubstr("&lt;script&gt;"), HasSubstr("a&lt;b"),
                          HasSubstr("<svg"), Not(HasSubstr("<script>")),
                          Not(HasSubstr("http"))));
}

}  // namespace jobs::purchase_test
