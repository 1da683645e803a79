#include "trials/cluster.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::cluster_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::filesystem::path ShippedFile(const std::string& name) {
  return fakes::SourceFolder() / "experiments" / "clusters" / (name + ".toml");
}

std::string Text(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A cluster file with this text, until the next one is written.
std::filesystem::path File(const std::string& text) {
  static const fakes::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "cluster.toml";
  std::ofstream(path) << text;
  return path;
}

// A file with one line of a good cluster file replaced.
std::filesystem::path Edited(const std::string& from, const std::string& to) {
  std::string text = Text(ShippedFile("rtx3080-2x8"));
  const std::string preset = "gpu = \"rtx-3080\"\n";
  text.replace(text.find(preset), preset.size(),
               "[gpu]\n" + Text(fakes::SourceFolder() / "experiments" / "gpus" /
                                "rtx-3080.toml"));
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return File(text);
}

std::string ErrorOf(const std::filesystem::path& path) {
  return fakes::ErrorOf([&] { return ReadCluster(path); });
}

TEST(Cluster, AMeshOfLinksGivesAGroupAsManyLinksAsRingsFit) {
  const Cluster dgx1 = ReadCluster(ShippedFile("v100-dgx1"));
  const double link = dgx1.intra.bandwidth_bytes_per_s;
  EXPECT_DOUBLE_EQ(dgx1.RingBytesPerSecond(2), link);
  EXPECT_DOUBLE_EQ(dgx1.RingBytesPerSecond(4), 4 * link);
  EXPECT_DOUBLE_EQ(dgx1.RingBytesPerSecond(8), 6 * link);
  // On its way to the network card a GPU has all its links.
  EXPECT_DOUBLE_EQ(dgx1.RingBytesPerSecond(1), 6 * link);
  const Cluster a100 = ReadCluster(ShippedFile("a100-8x4"));
  EXPECT_DOUBLE_EQ(a100.RingBytesPerSecond(2),
                   a100.intra.bandwidth_bytes_per_s);
  EXPECT_THAT(ErrorOf(Edited("peer_access = false",
                             "peer_access = false\nrings = [1, 2]")),
              AllOf(HasSubstr("rings has 2 numbers"),
                    HasSubstr("2 to 8 GPUs, 7 in all")));
}

TEST(Cluster, ASmallerHostHasAsManyNicsPerGpuButAJobOnPartOfAHostHasAllOfThem) {
  Cluster cluster = ReadCluster(ShippedFile("h100-infiniband"));
  ASSERT_EQ(cluster.gpus_per_node, 8);
  ASSERT_EQ(cluster.nics_per_node, 8);
  cluster.ring_nics = 6;
  EXPECT_EQ(WithHosts(cluster, 2, 4).nics_per_node, 4);
  EXPECT_EQ(WithHosts(cluster, 2, 4).ring_nics, 4);
  EXPECT_EQ(WithHosts(cluster, 4, 8).nics_per_node, 8);
  EXPECT_EQ(WithHosts(cluster, 4, 8).ring_nics, 6);
  EXPECT_EQ(WithGpus(cluster, 12).gpus_per_node, 6);
  EXPECT_EQ(WithGpus(cluster, 12).nics_per_node, 8);
  cluster.nics_per_node = 2;
  EXPECT_EQ(WithHosts(cluster, 2, 2).nics_per_node, 1);
}

TEST(Cluster, ShippedFilesAreThoseOfThePapersTable3) {
  const Cluster a5000 = ReadCluster(ShippedFile("a5000-8"));
  EXPECT_EQ(a5000.gpus(), 8);
  EXPECT_EQ(a5000.nodes, 1);
  EXPECT_TRUE(a5000.peer_access);
  const Cluster rtx3080 = ReadCluster(ShippedFile("rtx3080-2x8"));
  EXPECT_EQ(rtx3080.gpus(), 16);
  EXPECT_EQ(rtx3080.nodes, 2);
  EXPECT_FALSE(rtx3080.peer_access);
  const Cluster a100 = ReadCluster(ShippedFile("a100-8x4"));
  EXPECT_EQ(a100.gpus(), 32);
  EXPECT_EQ(a100.gpus_per_node, 4);
  EXPECT_EQ(ReadCluster(ShippedFile("h100-efa")).gpus_per_node, 8);
}

// cpu-2 and cpu-4 have CPU ranks, h200-shared-4 quarters of a GPU.
TEST(Cluster, EveryFileIsReadAndNumbersOfWholeGpusAreOfTheRightSize) {
  const std::set<std::string> without_gpus = {"cpu-2", "cpu-4",
                                              "h200-shared-4"};
  const std::set<std::string> several_types = {"a100-h100", "sailor-mit-2",
                                               "sailor-mit-8"};
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(ShippedFile("").parent_path())) {
    SCOPED_TRACE(entry.path().string());
    if (without_gpus.contains(entry.path().stem().string())) {
      EXPECT_GT(ReadCluster(entry.path()).gpu.memory_bytes, 0.0);
      continue;
    }
    ++files;
    if (several_types.contains(entry.path().stem().string())) {
      EXPECT_GE(ReadClusters(entry.path()).size(), 2U);
      continue;
    }
    const Cluster cluster = ReadCluster(entry.path());
    EXPECT_EQ(cluster.name, entry.path().stem().string());
    const Gpu& gpu = cluster.gpu;
    EXPECT_GT(gpu.memory_bytes, 9e9);
    EXPECT_LT(gpu.memory_bytes, 320e9);
    EXPECT_GT(gpu.memory_bandwidth_bytes_per_s, 3e11);
    EXPECT_LT(gpu.memory_bandwidth_bytes_per_s, 1e13);
    EXPECT_GT(gpu.half_flop_per_s, 5e13);
    EXPECT_LT(gpu.half_flop_per_s, 3e15);
    EXPECT_GT(gpu.half_flop_per_s, gpu.single_flop_per_s);
    EXPECT_GT(gpu.multiprocessors, 39);
    EXPECT_LE(gpu.multiprocessors, 304);  // the MI300X
    EXPECT_GT(cluster.intra.bandwidth_bytes_per_s, 5e9);
    EXPECT_LT(cluster.intra.bandwidth_bytes_per_s, 9e11);
    EXPECT_GT(cluster.intra.latency_s, 1e-6);
    EXPECT_LT(cluster.intra.latency_s, 2e-5);
    if (cluster.nodes > 1) {
      EXPECT_GT(cluster.inter.bandwidth_bytes_per_s, 1e8);
      EXPECT_LT(cluster.inter.bandwidth_bytes_per_s,
                cluster.intra.bandwidth_bytes_per_s);
      EXPECT_GT(cluster.inter.latency_s, cluster.intra.latency_s);
    }
    if (cluster.gpus_per_switch > 0) {
      // PCIe x16, raw: 31.5 GB/s in version 4.0, twice that in 5.0.
      const double raw = cluster.name == "pcie5-8" ? 63e9 : 31.5e9;
      EXPECT_LT(cluster.uplink.bandwidth_bytes_per_s, raw);
      EXPECT_LT(cluster.intra.bandwidth_bytes_per_s, raw);
    }
  }
  EXPECT_GE(files, 9);
}

TEST(Cluster, ErrorsNamePlaceValueAndRule) {
  const auto path = Edited("half_tflops = 59.5", "half_tflops = -5");
  EXPECT_THAT(ErrorOf(path),
              AllOf(HasSubstr(path.string() + ":14:15: "),
                    HasSubstr("half_tflops = -5: must be a number > 0")));
  EXPECT_THAT(ErrorOf(Edited("memory_gib = 9.78", "memory_gib = \"10\"")),
              HasSubstr(":12:14: "));
  EXPECT_THAT(ErrorOf(Edited("gpus_per_switch = 4", "gpus_per_switch = 3")),
              HasSubstr("must divide gpus_per_node, which is 8"));
  EXPECT_THAT(ErrorOf(Edited("nics_per_node = 1", "nic_per_node = 1")),
              AllOf(HasSubstr(".toml:"), HasSubstr("nic_per_node")));
  EXPECT_THAT(ErrorOf(Edited("\"ampere_ga102_geforce\"", "\"ampere_ga10\"")),
              AllOf(HasSubstr("ampere_ga10"), HasSubstr("hopper")));
}

std::filesystem::path Written(const std::string& gpu) {
  return File("nodes = 1\ngpus_per_node = 8\n" + gpu +
              "\n[intra]\nname = \"NVLink\"\n"
              "bandwidth_gb_per_s = 200\nlatency_us = 3\n");
}

TEST(Cluster, APresetIsTheSameGpuAsATableWithItsNumbers) {
  Gpu preset = ReadCluster(Written("gpu = \"a100-sxm-80gb\"\n")).gpu;
  const Gpu table =
      ReadCluster(Written("[gpu]\nname = \"A100-SXM4-80GB\"\n"
                          "architecture = \"ampere_ga100\"\n"
                          "memory_gib = 79.15\n"
                          "memory_bandwidth_gb_per_s = 2039\n"
                          "half_tflops = 312\nsingle_tflops = 19.5\n"
                          "multiprocessors = 108\nboard_power_w = 400\n"))
          .gpu;
  EXPECT_EQ(preset.preset, "a100-sxm-80gb");
  preset.preset = "";
  EXPECT_EQ(preset, table);
  EXPECT_THAT(ErrorOf(Written("gpu = \"h100-smx\"\n")),
              AllOf(HasSubstr("did you mean 'h100-sxm'?"), HasSubstr("mi300x"),
                    HasSubstr(":3:")));
}

TEST(Cluster, AGenericGpuNeedsMemoryBandwidthAndRate) {
  const Gpu gpu = ReadCluster(Written("[gpu]\nmemory_gb = 80\n"
                                      "memory_bandwidth_gb_per_s = 2039\n"
                                      "half_tflops = 312\n"))
                      .gpu;
  EXPECT_EQ(gpu.architecture, "generic");
  EXPECT_EQ(gpu.validated, "");
  EXPECT_EQ(gpu.single_flop_per_s, 312e12 / 16);
  EXPECT_EQ(gpu.multiprocessors, 108);
  EXPECT_EQ(gpu.price_per_hour, 0.0);
  EXPECT_EQ(gpu.power_fraction, 1.0);
  EXPECT_EQ(gpu.fp8_flop_per_s, 0.0);
  EXPECT_NEAR(gpu.memory_bytes / (79.15 * 1024 * 1024 * 1024), 1.0, 0.005);
  EXPECT_THAT(ErrorOf(Written("[gpu]\nmemory_gb = 80\nhalf_tflops = 312\n")),
              HasSubstr("memory_bandwidth_gb_per_s"));
}

TEST(Cluster, EveryPresetIsReadAndSaysWithWhatItWasValidated) {
  int validated = 0;
  int presets = 0;
  for (const auto& file : std::filesystem::directory_iterator(
           fakes::SourceFolder() / "experiments" / "gpus")) {
    const Gpu gpu = FindGpu(file.path().stem().string());
    ++presets;
    validated += gpu.validated.empty() ? 0 : 1;
    EXPECT_EQ(GpuFiles(gpu).size(), 2) << file.path();
  }
  EXPECT_GE(presets, 13);
  EXPECT_GT(validated, 0);
  EXPECT_LT(validated, presets);
}

// Hosts keep their GPUs where the number of them divides the whole.
TEST(Cluster, SomeGpusAreAsManyHostsAsTheyNeed) {
  Cluster cluster;
  cluster.name = "c";
  cluster.nodes = 4;
  cluster.gpus_per_node = 8;
  cluster.inter.bandwidth_bytes_per_s = 1e9;
  const auto sizes = [&](int gpus) {
    const Cluster part = WithGpus(cluster, gpus);
    return std::pair(part.nodes, part.gpus_per_node);
  };
  EXPECT_EQ(sizes(32), std::pair(4, 8));
  EXPECT_EQ(sizes(16), std::pair(2, 8));
  EXPECT_EQ(sizes(12), std::pair(2, 6));
  EXPECT_EQ(sizes(6), std::pair(1, 6));
  EXPECT_EQ(sizes(11), std::pair(11, 1));
  EXPECT_EQ(sizes(1), std::pair(1, 1));
}

TEST(Cluster, SeveralHostsNeedANetworkAndGpusTheirLinks) {
  Cluster cluster;
  cluster.name = "c";
  cluster.gpus_per_node = 4;
  EXPECT_EQ(WithHosts(cluster, 1, 8).gpus(), 8);
  EXPECT_THROW((void)WithHosts(cluster, 2, 4), std::invalid_argument);
  cluster.inter.bandwidth_bytes_per_s = 1e9;
  EXPECT_EQ(WithHosts(cluster, 2, 4).gpus(), 8);
  cluster.rings = {1, 2, 4};  // of 2, 3 and 4 GPUs
  EXPECT_EQ(WithHosts(cluster, 1, 4).gpus_per_node, 4);
  EXPECT_EQ(WithHosts(cluster, 1, 1).gpus_per_node, 1);
  EXPECT_THROW((void)WithHosts(cluster, 1, 5), std::invalid_argument);
}

constexpr const char* kTwoTypes = R"(
[[gpu_type]]
name = "slow"
like = "a100-80gb-vtrain"
nodes = 2
[[gpu_type]]
name = "fast"
like = "h100-infiniband"
nodes = 1
[network]
name = "Ethernet"
bandwidth_gb_per_s = 11
latency_us = 20
)";

// The file of two types with one line replaced.
std::filesystem::path TwoTypes(const std::string& from = "",
                               const std::string& to = "") {
  std::string text = kTwoTypes;
  text.replace(text.find(from), from.size(), to);
  return File(text);
}

std::string GroupError(const std::filesystem::path& path) {
  return fakes::ErrorOf([&] { return ReadClusters(path); });
}

TEST(Clusters, AGroupHasTheGpuTheLinksAndTheHostsThatItNames) {
  const std::vector<Cluster> groups = ReadClusters(TwoTypes());
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].name, "slow");
  EXPECT_EQ(groups[0].gpus(), 16);
  EXPECT_EQ(groups[0].gpu.name, "A100-SXM4-80GB");
  EXPECT_EQ(groups[1].gpus(), 8);
  EXPECT_EQ(groups[1].intra, ReadCluster(ShippedFile("h100-infiniband")).intra);
  for (const Cluster& group : groups) {
    EXPECT_EQ(group.OuterLink().bandwidth_bytes_per_s, 11e9);
  }
  EXPECT_EQ(GpusOf(groups), 24);
  EXPECT_EQ(GpuTypeFiles(TwoTypes()).size(), 2U);
  EXPECT_TRUE(GpuTypeFiles(ShippedFile("a5000-8")).empty());
}

TEST(Clusters, AFileWithoutGroupsIsOneGroupWithoutANetworkToOthers) {
  const std::vector<Cluster> groups = ReadClusters(ShippedFile("a5000-8"));
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups.front(), ReadCluster(ShippedFile("a5000-8")));
}

TEST(Clusters, AnotherNumberOfGpusKeepsTheSharesOfTheGroups) {
  const std::vector<Cluster> groups = ReadClusters(TwoTypes());
  const std::vector<Cluster> twice = WithGpus(groups, 48);
  EXPECT_EQ(twice[0].nodes, 4);
  EXPECT_EQ(twice[1].nodes, 2);
  EXPECT_THROW((void)WithGpus(groups, 32), std::invalid_argument);
}

TEST(Clusters, ErrorsNameThePlaceAndTheRemedy) {
  EXPECT_THAT(ErrorOf(TwoTypes()),
              AllOf(HasSubstr("cluster.toml: a cluster with 2 GPU types"),
                    HasSubstr("gpu_type = \"slow\"")));
  EXPECT_THAT(GroupError(TwoTypes("name = \"fast\"", "name = \"slow\"")),
              AllOf(HasSubstr("cluster.toml:7:"),
                    HasSubstr("two GPU types are named 'slow'")));
  EXPECT_THAT(GroupError(TwoTypes("h100-infiniband", "h100-infiniban")),
              AllOf(HasSubstr("cluster.toml:8:"), HasSubstr("h100-infiniban")));
  EXPECT_THAT(GroupError(TwoTypes("nodes = 1", "")),
              AllOf(HasSubstr("cluster.toml:6:"), HasSubstr("nodes")));
  EXPECT_THAT(GroupError(TwoTypes("nodes = 1", "nodes = 1\nintra = 3")),
              HasSubstr("intra"));
  const std::string network = kTwoTypes;
  const std::size_t at = network.find("[network]");
  EXPECT_THAT(GroupError(File(network.substr(0, at))), HasSubstr("no error"));
  // The hosts of a5000-8 have no network.
  EXPECT_THAT(GroupError(File("[[gpu_type]]\nlike = \"a5000-8\"\nnodes = 1\n")),
              AllOf(HasSubstr("cluster.toml:1:"),
                    HasSubstr("add [gpu_type.inter] or [network]")));
}

TEST(Cluster, CountsAreFromOneToAMillion) {
  const auto gpu = [](const std::string& multiprocessors) {
    return Written(
        "[gpu]\nmemory_gb = 80\nmemory_bandwidth_gb_per_s = 2039\n"
        "half_tflops = 312\nmultiprocessors = " +
        multiprocessors + "\n");
  };
  const auto hosts = [](const std::string& nodes, const std::string& gpus) {
    return File("nodes = " + nodes + "\ngpus_per_node = " + gpus +
                "\ngpu = \"a100-sxm-80gb\"\n[intra]\nname = \"NVLink\"\n"
                "bandwidth_gb_per_s = 200\nlatency_us = 3\n");
  };
  EXPECT_EQ(ReadCluster(hosts("1", "1")).nics_per_node, 1);
  for (const char* count : {"1", "1000000"}) {
    EXPECT_EQ(ErrorOf(gpu(count)), "no error");
    EXPECT_EQ(ErrorOf(hosts("1", count)), "no error");
  }
  for (const char* count : {"0", "1000001"}) {
    EXPECT_THAT(ErrorOf(gpu(count)), HasSubstr("multiprocessors"));
    EXPECT_THAT(ErrorOf(hosts(count, "1")), HasSubstr("nodes"));
    EXPECT_THAT(ErrorOf(hosts("1", count)), HasSubstr("gpus_per_node"));
  }
  EXPECT_THAT(ErrorOf(Edited("nics_per_node = 1\n", "nics_per_node = 0\n")),
              HasSubstr("nics_per_node"));
  // Two hosts need a network.
  EXPECT_THAT(ErrorOf(hosts("2", "1")), HasSubstr("inter"));
}

TEST(Cluster, RingsAndNicsOfRingsHaveLimits) {
  const auto rings = [](const std::string& numbers) {
    return Edited("peer_access = false",
                  "peer_access = false\nrings = [" + numbers + "]");
  };
  EXPECT_EQ(ReadCluster(rings("0.05, 1, 1, 1, 1, 1, 2")).rings.front(), 0.05);
  EXPECT_THAT(ErrorOf(rings("0, 1, 1, 1, 1, 1, 2")),
              HasSubstr("rings has 0: must be greater than 0"));
  EXPECT_THAT(ErrorOf(rings("1, 1, 1, 1, 1, 1, 1, 1")),
              HasSubstr("rings has 8 numbers"));
  const auto nics = [](const std::string& ring_nics) {
    return Edited("nics_per_node = 1",
                  "nics_per_node = 2\nring_nics = " + ring_nics);
  };
  EXPECT_EQ(ReadCluster(nics("0")).ring_nics, 0);
  EXPECT_EQ(ReadCluster(nics("2")).ring_nics, 2);
  EXPECT_THAT(ErrorOf(nics("3")), HasSubstr("ring_nics is 3"));
  EXPECT_THAT(ErrorOf(nics("-1")), HasSubstr("ring_nics is -1"));
}

TEST(Clusters, TheFormerWordForAGpuTypeIsAnError) {
  EXPECT_THAT(GroupError(File("[[group]]\nlike = \"a5000-8\"\n")),
              AllOf(HasSubstr("cluster.toml:1:"), HasSubstr("[[gpu_type]]")));
}

}  // namespace trials::cluster_test
