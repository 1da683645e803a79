#include "planners/operators/operator_table.h"

#include <string>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"

namespace planners::operator_table_test {

using testing::ElementsAre;
using testing::HasSubstr;

OperatorTable Read(const std::string& rows,
                   const std::string& first_columns = "mbs,tp,algo") {
  const fakes::TemporaryFolder folder;
  fakes::WriteFile(
      folder.path() / "t.csv",
      first_columns +
          ",op_name,forward-compute,backward-compute,input_size,output_size,"
          "weights,activations,fwd_reserved,bwd_reserved\n" +
          rows);
  return OperatorTable::Read(folder.path() / "t.csv", "gpt");
}

std::string Error(const std::string& rows) {
  return fakes::ErrorOf([&] { return Read(rows); });
}

TEST(OperatorTable, FindsEachRowByItsSizesAndNothingElse) {
  const OperatorTable table = Read(
      "2,1,0,a,1,2,3,4,5,6,7,8\n"
      "2,1,0,b,11,2,3,4,5,6,7,8\n"
      "8,4,1,a,21,2,3,4,5,6,7,8\n"
      "8,4,1,b,1e6,2,3,4,5,6,7,8\n"
      "8,4,0,a,2,1e6,3,4,5,6,7,8\n"
      "8,4,0,b,999999,999999,3,4,5,6,7,8\n");
  EXPECT_THAT(table.names(), ElementsAre("a", "b"));
  EXPECT_THAT(table.micro_batches(), ElementsAre(2, 8));
  EXPECT_EQ(table.variants(), 2);
  EXPECT_EQ(table.largest_tp(), 4);
  const OperatorProfile* a = table.Find(0, 2, 0, 0);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->forward_us, 1.0);
  EXPECT_EQ(a->backward_us, 2.0);
  EXPECT_EQ(a->input_mb, 3.0);
  EXPECT_EQ(a->output_mb, 4.0);
  EXPECT_EQ(a->weights_mb, 5.0);
  EXPECT_EQ(a->activations_mb, 6.0);
  EXPECT_EQ(a->forward_reserved_mb, 7.0);
  EXPECT_EQ(a->backward_reserved_mb, 8.0);
  EXPECT_EQ(table.Find(1, 2, 0, 0)->forward_us, 11.0);
  EXPECT_EQ(table.Find(0, 8, 2, 1)->forward_us, 21.0);
  // From a second on, the profiler has failed.
  EXPECT_EQ(table.Find(1, 8, 2, 1), nullptr);
  EXPECT_EQ(table.Find(0, 8, 2, 0), nullptr);
  EXPECT_NE(table.Find(1, 8, 2, 0), nullptr);
  // No rows.
  for (const auto& [mbs, tp_log2, variant] : {std::tuple(1, 0, 0),
                                              {0, 0, 0},
                                              {9, 0, 0},
                                              {2, 1, 0},
                                              {2, 3, 0},
                                              {2, 0, 2}}) {
    EXPECT_EQ(table.Find(0, mbs, tp_log2, variant), nullptr) << mbs;
  }
}

TEST(OperatorTable, ReadsTheRowsOfOneModel) {
  const OperatorTable table = Read(
      "gpt,1,1,0,a,1,2,3,4,5,6,7,8\n"
      "t5,1,1,0,b,1,2,3,4,5,6,7,8\n",
      "model,mbs,tp,algo");
  EXPECT_THAT(table.names(), ElementsAre("a"));
}

TEST(OperatorTable, NamesTheLineAndTheRangeOfAMistake) {
  const auto row = [](const std::string& sizes) {
    return sizes + ",a,1,2,3,4,5,6,7,8\n";
  };
  EXPECT_EQ(Error(row("4096,1024,7")), "no error");
  for (const auto& [sizes, message] :
       {std::pair("4097,1,0", "mbs = 4097: must be an integer from 1 to 4096"),
        {"1,2048,0", "tp = 2048: must be an integer from 1 to 1024"},
        {"1,1,8", "algo = 8: must be an integer from 0 to 7"},
        {"0,1,0", "mbs = '0': must be a number of at least 1"},
        {"1.5,1,0", "mbs = 1.5"},
        {"1,0,0", "tp = '0': must be a number of at least 1"},
        {"1,3,0", "tp = 3"},
        {"1,1,-1", "algo = '-1': must be a number of at least 0"}}) {
    EXPECT_THAT(Error(row(sizes)), HasSubstr(message));
  }
  EXPECT_THAT(Error("1,1,0,a,-1,2,3,4,5,6,7,8\n"),
              HasSubstr("forward-compute = '-1': must be a number of at least "
                        "0"));
  EXPECT_EQ(Error("1,1,0,a,0,0,0,0,0,0,0,0\n"), "no error");
  EXPECT_THAT(Error("1,1,0,a,1,2,3,4,5,6,7,8\n1,2,0,b,1,2,3,4,5,6,7,8\n"),
              HasSubstr("the operator 'b' is missing in the first rows"));
}

}  // namespace planners::operator_table_test
