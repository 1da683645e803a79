#include "plots/comparison.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plots/report.h"
#include "tests/plots/synthetic_experiment.h"

namespace plots::comparison_test {

using fakes::ReadFile;
using fakes::TemporaryFolder;
using plots_test::WriteProblem;
using plots_test::WriteRun;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

// The shares of the optimum (2 steps/s) that each repeat of a method reaches
// with its only trial.
struct Shares {
  std::string method;
  std::vector<double> repeats;
};

struct Problem {
  std::string name;
  std::vector<Shares> methods;
};

void WriteShares(const std::filesystem::path& folder,
                 const std::vector<Problem>& problems,
                 const std::vector<trials::ExperimentInfo::Method>& methods,
                 std::optional<std::vector<std::string>> held_out = {}) {
  trials::ExperimentInfo info{.name = "shares",
                              .title = "Shares",
                              .methods = methods,
                              .held_out = std::move(held_out)};
  for (const Problem& problem : problems) {
    info.problems.push_back(problem.name);
    WriteProblem(folder, plots_test::SmallProblem(problem.name));
    for (const Shares& method : problem.methods) {
      info.repeats = static_cast<int>(method.repeats.size());
      for (std::size_t r = 0; r < method.repeats.size(); ++r) {
        const double steps_per_s = 2.0 * method.repeats[r];
        WriteRun(folder, problem.name, method.method, static_cast<int>(r) + 1,
                 {{.elapsed_s = 60,
                   .steps = 10,
                   .throughput = steps_per_s,
                   .exact = steps_per_s}});
      }
    }
  }
  trials::Write(folder, info);
}

const std::vector<trials::ExperimentInfo::Method> kTwo = {
    {"random", "RANDOM"}, {"oppa", "OPPA", "oppa"}};

std::vector<ComparisonSet> CompareIn(const std::filesystem::path& folder,
                                     const std::string& reference = "oppa") {
  return Compare(Summarize(LoadExperiment(folder)), reference);
}

TEST(Compare, PairsRepeatsOfOneProblemByTheirNumber) {
  const TemporaryFolder folder;
  WriteShares(
      folder.path(),
      {{"",
        {{"random", {0.5, 0.6, 0.7, 0.9}}, {"oppa", {0.7, 0.7, 0.7, 0.8}}}}},
      kTwo);
  const ComparisonSet set = CompareIn(folder.path()).back();
  EXPECT_EQ(set.checkpoint, kEnd);
  EXPECT_FALSE(set.over_problems);
  ASSERT_THAT(set.methods, SizeIs(1));
  const Comparison& random = set.methods[0];
  EXPECT_EQ(random.method, "random");
  EXPECT_NEAR(random.difference.value, -0.05, 1e-12);
  EXPECT_LT(random.difference.low, random.difference.value);
  EXPECT_EQ(random.test.pairs, 4);
  EXPECT_EQ(random.test.wins, 1);
  EXPECT_EQ(random.test.losses, 2);
  EXPECT_EQ(random.test.ties, 1);
}

// Ten repeats of two problems are two units, not twenty.
TEST(Compare, TestsSeveralProblemsOverProblemsOnly) {
  const TemporaryFolder folder;
  const std::vector<double> low(10, 0.5);
  const std::vector<double> high(10, 0.9);
  WriteShares(folder.path(),
              {{"a", {{"random", low}, {"oppa", high}}},
               {"b", {{"random", low}, {"oppa", high}}}},
              kTwo);
  const ComparisonSet set = CompareIn(folder.path()).back();
  EXPECT_TRUE(set.over_problems);
  EXPECT_EQ(set.problems, "(mean)");
  EXPECT_EQ(set.methods[0].test.pairs, 2);
  EXPECT_EQ(set.methods[0].test.losses, 2);
  EXPECT_EQ(set.methods[0].test.wilcoxon_p, 0.5);
}

TEST(Compare, CallsSharesThatDifferByRoundingEqual) {
  const TemporaryFolder folder;
  WriteShares(folder.path(),
              {{"a", {{"random", {0.1, 0.3}}, {"oppa", {0.3, 0.1 + 1e-16}}}},
               {"b", {{"random", {0.5, 0.5}}, {"oppa", {0.5, 0.5}}}}},
              kTwo);
  EXPECT_EQ(CompareIn(folder.path()).back().methods[0].test.ties, 2);
}

TEST(Compare, DoesNotCountUnfinishedPairs) {
  const TemporaryFolder folder;
  WriteShares(folder.path(),
              {{"", {{"random", {0.5, 0.6, 0.7}}, {"oppa", {0.7, 0.7, 0.7}}}}},
              kTwo);
  WriteRun(folder.path(), "", "oppa", 2,
           {{.elapsed_s = 60, .steps = 10, .throughput = 2.0, .exact = 2.0}},
           trials::FinishReason::kUnfinished);
  EXPECT_EQ(CompareIn(folder.path()).back().methods[0].test.pairs, 2);
}

TEST(Compare, AdjustsRivalsAndVariantsSeparately) {
  const TemporaryFolder folder;
  const std::vector<double> reference = {0.9, 0.8, 0.9, 0.8, 0.9, 0.8};
  const std::vector<double> worse = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6};
  WriteShares(folder.path(),
              {{"",
                {{"random", worse},
                 {"xgboost", worse},
                 {"oppa", reference},
                 {"oppa-bare", worse}}}},
              {{"random", "RANDOM"},
               {"xgboost", "XGBOOST"},
               {"oppa", "OPPA", "oppa"},
               {"oppa-bare", "OPPA, bare", "oppa"}});
  const ComparisonSet set = CompareIn(folder.path()).back();
  ASSERT_THAT(set.methods, SizeIs(3));
  EXPECT_FALSE(set.methods[0].is_variant);
  EXPECT_TRUE(set.methods[2].is_variant);
  EXPECT_DOUBLE_EQ(set.methods[0].holm_p, 2 * 0.03125);
  EXPECT_DOUBLE_EQ(set.methods[2].holm_p, 0.03125);
  EXPECT_DOUBLE_EQ(set.SmallestHolmP(false), 2 * 0.03125);
  const std::string text = Describe(set);
  EXPECT_THAT(text, HasSubstr("6 repeats"));
  EXPECT_THAT(text,
              HasSubstr("too few for p < 0.05: the smallest possible p is "
                        "0.062 among the methods."));
  EXPECT_THAT(text, Not(HasSubstr("among the variants")));
}

TEST(Compare, KnowsNothingWithoutAnOptimumOrWithOneMethod) {
  const TemporaryFolder folder;
  WriteShares(folder.path(),
              {{"", {{"random", {0.5, 0.6}}, {"oppa", {0.7, 0.7}}}}}, kTwo);
  WriteProblem(folder.path(), {.backend = "command", .time_budget_s = 600.0});
  for (const char* method : {"random", "oppa"}) {
    WriteRun(folder.path(), "", method, 1,
             {{.elapsed_s = 60, .steps = 10, .throughput = 1.0}});
  }
  EXPECT_THAT(CompareIn(folder.path()), SizeIs(0));
  EXPECT_THAT(CompareIn(folder.path(), "missing"), SizeIs(0));
}

TEST(DefaultReference, IsOppaOrTheFirstMethodWithRuns) {
  const TemporaryFolder folder;
  WriteShares(folder.path(),
              {{"", {{"random", {0.5, 0.6}}, {"oppa", {0.7, 0.7}}}}}, kTwo);
  EXPECT_EQ(DefaultReference(LoadExperiment(folder.path()).problems), "oppa");
  std::filesystem::remove_all(folder.path() / "oppa");
  EXPECT_EQ(DefaultReference(LoadExperiment(folder.path()).problems), "random");
}

TEST(Report, ComparesWithTheRequestedReference) {
  const TemporaryFolder folder;
  WriteShares(folder.path(),
              {{"", {{"random", {0.5, 0.625}}, {"oppa", {0.75, 0.75}}}}}, kTwo);
  (void)Report(folder.path(), {.formats = {}, .reference = "random"});
  EXPECT_THAT(ReadFile(folder.path() / "comparison.csv"),
              HasSubstr("\n,end,oppa,OPPA,rival,random,repeat,2,0.1875,"));
  EXPECT_THAT(ReadFile(folder.path() / "summary.md"),
              HasSubstr("method, minus RANDOM"));
  EXPECT_THROW((void)Report(folder.path(), {.reference = "missing"}),
               common::InputError);
}

// Means of the halves and of all, and a line that says which is which.
TEST(Report, SeparatesTheHeldOutHalf) {
  const TemporaryFolder folder;
  WriteShares(folder.path(),
              {{"a", {{"random", {0.2, 0.4}}, {"oppa", {0.8, 0.8}}}},
               {"b", {{"random", {0.6, 0.8}}, {"oppa", {0.9, 0.9}}}},
               {"c", {{"random", {0.4, 0.6}}, {"oppa", {1.0, 1.0}}}}},
              kTwo, std::vector<std::string>{"b"});
  const Summary summary = Summarize(LoadExperiment(folder.path()));
  ASSERT_THAT(summary.means, SizeIs(3));
  EXPECT_EQ(summary.means[1].name, "(mean development)");
  EXPECT_DOUBLE_EQ(summary.means[0].methods[0].shares[kEnd].mean.value, 0.5);
  EXPECT_DOUBLE_EQ(summary.means[1].methods[0].shares[kEnd].mean.value, 0.4);
  EXPECT_EQ(summary.means[2].name, "(mean held-out)");
  EXPECT_DOUBLE_EQ(summary.means[2].methods[0].shares[kEnd].mean.value, 0.7);
  const std::string text = Report(folder.path(), {.formats = {}}).summary;
  EXPECT_THAT(text, HasSubstr("must not be used to choose settings: b."));
  EXPECT_THAT(text, HasSubstr("Mean over 1 of 3 problems: held-out half"));
}

}  // namespace plots::comparison_test
