// `oppa data` lists published tables.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/program_test.h"

namespace cli::data_test {

using testing::HasSubstr;

class DataTest : public fakes::ProgramTest {
 protected:
  int Data(const std::string& folder) {
    return Call({"env", "OPPA_DATA=" + folder, fakes::ProgramFile().string(),
                 "data", "--csv"});
  }
};

TEST_F(DataTest, TablesThatComeWithTheProjectAreWhatResultsWereMadeWith) {
  EXPECT_EQ(Data(""), 0) << Printed();
  EXPECT_THAT(output_, HasSubstr("measured/vtrain.csv,here,"));
  EXPECT_THAT(output_, HasSubstr("published/korthikanti2022.csv,missing,"));
}

TEST_F(DataTest, ATableWithAnotherContentIsNamed) {
  fakes::WriteFile(Path("data/measured/vtrain.csv"), "other");
  EXPECT_EQ(Data(Path("data").string()), 1);
  EXPECT_THAT(output_, HasSubstr("measured/vtrain.csv,differs: " +
                                 Path("data").string()));
}

}  // namespace cli::data_test
