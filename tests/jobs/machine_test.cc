#include "jobs/machine.h"

#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/toml_table.h"
#include "tests/fakes/error_of.h"
#include "trials/data_folder.h"

namespace jobs::machine_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(MachineSize, NodesTimesGpusIsReadLiterally) {
  EXPECT_THAT(ParseMachineSizes("2x8", {4}), ElementsAre(MachineSize{2, 8}));
  EXPECT_THAT(ParseMachineSizes("3x4", {8}), ElementsAre(MachineSize{3, 4}));
}

TEST(MachineSize, GpusAloneFillNodesOfTheUsualSize) {
  EXPECT_THAT(ParseMachineSizes("16", {8}), ElementsAre(MachineSize{2, 8}));
  EXPECT_THAT(ParseMachineSizes("4", {8}), ElementsAre(MachineSize{1, 4}));
  EXPECT_THAT(ParseMachineSizes("16", {4}), ElementsAre(MachineSize{4, 4}));
}

TEST(MachineSize, ARangeDoublesFromItsFirstSize) {
  EXPECT_THAT(ParseMachineSizes("4..32", {8}),
              ElementsAre(MachineSize{1, 4}, MachineSize{1, 8},
                          MachineSize{2, 8}, MachineSize{4, 8}));
  EXPECT_THAT(
      ParseMachineSizes("3x4..12x4", {8}),
      ElementsAre(MachineSize{3, 4}, MachineSize{6, 4}, MachineSize{12, 4}));
  EXPECT_THAT(ParseMachineSizes("8,64", {8}),
              ElementsAre(MachineSize{1, 8}, MachineSize{8, 8}));
}

TEST(MachineSize, ARangeHasTheSizeThatEndsIt) {
  EXPECT_THAT(
      ParseMachineSizes("8..24", {8}),
      ElementsAre(MachineSize{1, 8}, MachineSize{2, 8}, MachineSize{3, 8}));
  EXPECT_THAT(ParseMachineSizes("3..5", {8}),
              ElementsAre(MachineSize{1, 3}, MachineSize{1, 5}));
  EXPECT_THAT(ParseMachineSizes("8..8", {8}), ElementsAre(MachineSize{1, 8}));
}

// NVIDIA's published runs on racks of 72 have 64, 128 and 256 GPUs.
TEST(MachineSize, ARackGivesAnyNumberOfItsTrays) {
  const NodeSize rack{.gpus = 72, .gpus_per_tray = 4};
  EXPECT_THAT(ParseMachineSizes("64", rack), ElementsAre(MachineSize{1, 64}));
  EXPECT_THAT(ParseMachineSizes("256", rack), ElementsAre(MachineSize{4, 64}));
  EXPECT_THAT(ParseMachineSizes("64x4", rack), ElementsAre(MachineSize{4, 64}));
  EXPECT_THAT(ParseMachineSizes("144", rack), ElementsAre(MachineSize{2, 72}));
  EXPECT_THAT(
      ParseMachineSizes("64..256", rack),
      ElementsAre(MachineSize{1, 64}, MachineSize{2, 64}, MachineSize{4, 64}));
}

TEST(MachineSize, AnErrorOffersTheNumberOfGpusThatWasAskedFor) {
  EXPECT_THAT(
      fakes::ErrorOf([] { return ParseMachineSizes("100", {8}); }),
      HasSubstr("20x5 has that number, 12x8 and 13x8 are the next ones"));
}

TEST(MachineSize, OtherTextIsRefused) {
  for (const std::string text :
       {"", "x", "2x", "x8", "0x8", "-2x8", "12", "two", "8..", "64..8",
        "2x8x1", "1000000", "60000x8", "8,,16", "1e3"}) {
    EXPECT_THROW((void)ParseMachineSizes(text, {8}), common::InputError)
        << text;
  }
}

TEST(MachineSize, AnErrorNamesTheTextAndTheForms) {
  const auto error = [](const std::string& text) {
    return fakes::ErrorOf([&] { return ParseMachineSizes(text, {8}); });
  };
  EXPECT_THAT(error("2x"), HasSubstr("--gpus 2x: invalid size '2x': write "
                                     "NODESxGPUS (2x8), GPUS (16) or "));
  EXPECT_THAT(error("16,8.."), HasSubstr("invalid size '8..': write"));
}

TEST(Machine, NamesAliasesAndOverrides) {
  EXPECT_EQ(FindMachine({.gpu = "h100"}), FindMachine({.gpu = "H100-SXM"}));
  EXPECT_EQ(FindMachine({.gpu = "4090"}).gpu.name, "GeForce RTX 4090");
  EXPECT_DOUBLE_EQ(FindMachine({.gpu = "h100", .inter_gb_per_s = 12})
                       .inter.bandwidth_bytes_per_s,
                   12e9);
  EXPECT_THAT(fakes::ErrorOf([&] { return FindMachine({.gpu = "h10"}); }),
              AllOf(HasSubstr("did you mean 'h100'?"), HasSubstr("mi300x")));
}

TEST(FindMachine, TakesWhatNvidiaSmiPrintsAndSaysThatTpusAreNotSupported) {
  EXPECT_EQ(FindMachine({.gpu = "NVIDIA H100 80GB HBM3"}).gpu.name,
            FindMachine({.gpu = "h100"}).gpu.name);
  EXPECT_EQ(FindMachine({.gpu = "NVIDIA GeForce RTX 5090"}).gpu.name,
            FindMachine({.gpu = "5090"}).gpu.name);
  for (const char* gpu : {"gb200", "b300", "h800", "h20", "a800", "mi325x",
                          "mi355x", "l4", "a10", "rtx-5090"}) {
    EXPECT_FALSE(FindMachine({.gpu = gpu}).gpu.name.empty()) << gpu;
  }
  EXPECT_THAT(fakes::ErrorOf([&] { return FindMachine({.gpu = "tpu-v5e"}); }),
              HasSubstr("TPUs are not supported"));
}

TEST(Machine, EveryListedMachineHasAGpuLinksAndANetworkOrSaysSo) {
  const auto machines = common::TomlTable::ParseFile(
      trials::ExperimentsFolder() / "machines" / "machines.toml");
  for (const std::string& gpu : machines.Keys()) {
    const trials::Cluster node = FindMachine({.gpu = gpu});
    EXPECT_GT(node.gpu.half_flop_per_s, 0.0) << gpu;
    if (gpu == "rtx-a5000") {  // workstations without a network
      EXPECT_THROW((void)WithSize(node, {2, 8}), common::InputError);
    } else {
      EXPECT_EQ(WithSize(node, {2, 8}).gpus(), 16) << gpu;
    }
  }
  const trials::Cluster node = FindMachine({.gpu = "h100"});
  EXPECT_EQ(2 * WithSize(node, {2, 4}).nics_per_node, node.nics_per_node);
  EXPECT_EQ(WithSize(node, {2, 4}, 3).nics_per_node, 3);
}

TEST(Likeness, AnotherMachineStandsInForAnUnknownGpuAndIsNamed) {
  const auto like = [](const std::string& product, int nodes, int gpus) {
    return LikenessOf({.size = {nodes, gpus}, .product = product});
  };
  const auto unknown = like("NVIDIA X9000", 2, 4);
  ASSERT_TRUE(unknown.has_value());
  EXPECT_EQ(unknown->cluster, "a100-selene");
  EXPECT_THAT(unknown->note, HasSubstr("in place of this machine"));
  const auto known = like("NVIDIA H100 80GB HBM3", 2, 4);
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->cluster, "h100-infiniband");
  EXPECT_EQ(known->note, "");
  const auto near = like("NVIDIA H100 NVL", 2, 4);
  ASSERT_TRUE(near.has_value());
  EXPECT_EQ(near->cluster, "h100-infiniband");
  EXPECT_THAT(near->note, HasSubstr("in place of this machine"));
  EXPECT_THAT(fakes::ErrorOf([] { return FindMachine({.gpu = "H100 NVL"}); }),
              HasSubstr("it is no h100-sxm: nvl"));
  // Its cluster has no network.
  const auto several = like("NVIDIA RTX A5000", 2, 4);
  ASSERT_TRUE(several.has_value());
  EXPECT_EQ(several->cluster, "a100-selene");
  EXPECT_TRUE(like("", 1, 4).has_value()) << "ranks on a CPU";
  EXPECT_FALSE(like("", 2, 4).has_value()) << "CPUs of several hosts";
}

TEST(Machine, CountsTheGpusOfNvidiaSmiAndTakesTheLeastMemory) {
  const Machine machine = ParseNvidiaSmi(
      "NVIDIA H100 80GB HBM3, 81559\nNVIDIA H100 80GB HBM3, 81408\n");
  EXPECT_EQ(machine.size.gpus_per_node, 2);
  EXPECT_DOUBLE_EQ(machine.memory_gib, 79.5);
  EXPECT_THAT(machine.source, HasSubstr("H100"));
  EXPECT_EQ(ParseNvidiaSmi("No devices were found\n").size.gpus_per_node, 0);
}

TEST(Machine, GivesTheCpuTheRanksOfTorchrunOrOfTheStart) {
  if (DetectMachine({"true"}).source != "CPU") {
    GTEST_SKIP() << "this machine has GPUs or is a Slurm job";
  }
  EXPECT_EQ(DetectMachine({"true"}, 3).size.gpus_per_node, 3);
  const Machine launched = DetectMachine({"torchrun", "--nproc_per_node=2"}, 3);
  EXPECT_EQ(launched.size.gpus_per_node, 2);
  EXPECT_GT(launched.memory_gib, 0.0);
}

}  // namespace jobs::machine_test
