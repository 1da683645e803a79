#include "jobs/machine_size.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace jobs::machine_size_test {

using jobs::MachineSize;
using jobs::ParseMachineSizes;
using testing::ElementsAre;

TEST(MachineSize, NodesTimesGpusIsReadLiterally) {
  EXPECT_THAT(ParseMachineSizes("2x8", 4), ElementsAre(MachineSize{2, 8}));
  EXPECT_THAT(ParseMachineSizes("3x4", 8), ElementsAre(MachineSize{3, 4}));
}

TEST(MachineSize, GpusAloneFillNodesOfTheUsualSize) {
  EXPECT_THAT(ParseMachineSizes("16", 8), ElementsAre(MachineSize{2, 8}));
  EXPECT_THAT(ParseMachineSizes("4", 8), ElementsAre(MachineSize{1, 4}));
  EXPECT_THAT(ParseMachineSizes("16", 4), ElementsAre(MachineSize{4, 4}));
}

TEST(MachineSize, ARangeDoublesFromItsFirstSize) {
  EXPECT_THAT(ParseMachineSizes("4..32", 8),
              ElementsAre(MachineSize{1, 4}, MachineSize{1, 8},
                          MachineSize{2, 8}, MachineSize{4, 8}));
  EXPECT_THAT(
      ParseMachineSizes("3x4..12x4", 8),
      ElementsAre(MachineSize{3, 4}, MachineSize{6, 4}, MachineSize{12, 4}));
  EXPECT_THAT(ParseMachineSizes("8,64", 8),
              ElementsAre(MachineSize{1, 8}, MachineSize{8, 8}));
}

TEST(MachineSize, OtherTextIsRefused) {
  for (const std::string text :
       {"", "x", "2x", "x8", "0x8", "-2x8", "12", "two", "8..", "64..8",
        "2x8x1", "1000000", "60000x8", "8,,16", "1e3"}) {
    EXPECT_THROW((void)ParseMachineSizes(text, 8), common::InputError) << text;
  }
}

}  // namespace jobs::machine_size_test
