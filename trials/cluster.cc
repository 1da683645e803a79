#include "trials/cluster.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/units.h"
#include "trials/collective_rates.h"
#include "trials/data_folder.h"
#include "trials/gpu_architecture.h"

namespace trials {
namespace {

using common::kGibi;
using common::kGiga;
constexpr double kTera = 1e12;
constexpr double kMicro = 1e-6;

// No cluster has more nodes, GPUs in a node or multiprocessors.
constexpr int kMostParts = 1'000'000;

// Memory that a process can use, of the datasheet's GB, which are 2^30 bytes:
// 79.15 of 80 on A100, 79.11 of 80 on H100, 39.39 of 40.
constexpr double kUsableMemory = 0.987;

// What a generic GPU lacks: vector units with 1/16 of the tensor cores' rate
// and as many multiprocessors as an A100.
constexpr double kHalfPerSingle = 16.0;
constexpr int kMultiprocessors = 108;

double MemoryBytes(const common::TomlTable& table) {
  return kGibi * (table.Has("memory_gb")
                      ? kUsableMemory * table.RequirePositive("memory_gb")
                      : table.RequirePositive("memory_gib"));
}

Gpu ReadGpu(const common::TomlTable& table) {
  Gpu gpu;
  const bool generic = !table.Has("architecture");
  gpu.architecture = table.GetString("architecture", "generic");
  gpu.name = generic ? table.GetString("name", "generic GPU")
                     : table.RequireString("name");
  const GpuArchitecture& architecture =
      table.At("architecture", [&gpu]() -> const GpuArchitecture& {
        return FindGpuArchitecture(gpu.architecture);
      });
  gpu.memory_bytes = MemoryBytes(table);
  gpu.memory_bandwidth_bytes_per_s =
      table.RequirePositive("memory_bandwidth_gb_per_s") * kGiga;
  gpu.half_flop_per_s = table.RequirePositive("half_tflops") * kTera;
  if (generic) {
    gpu.single_flop_per_s =
        table.GetPositive("single_tflops",
                          gpu.half_flop_per_s / kTera / kHalfPerSingle) *
        kTera;
    gpu.multiprocessors =
        table.GetIntIn("multiprocessors", kMultiprocessors, 1, kMostParts);
  } else {
    gpu.single_flop_per_s = table.RequirePositive("single_tflops") * kTera;
    gpu.multiprocessors = table.RequireIntIn("multiprocessors", 1, kMostParts);
  }
  if (table.Has("fp8_tflops")) {
    gpu.fp8_flop_per_s = table.RequirePositive("fp8_tflops") * kTera;
  }
  gpu.host_bytes_per_s =
      table.GetPositive("host_gb_per_s", gpu.host_bytes_per_s / kGiga) * kGiga;
  gpu.no_bf16 = table.GetBool("no_bf16", false);
  gpu.power_fraction = table.GetPositive("power_fraction", 1.0);
  gpu.attention_fraction = table.GetPositive("attention_fraction", 1.0);
  if (table.Has("board_power_w")) {
    gpu.board_power_w = table.RequirePositive("board_power_w");
  }
  gpu.validated = table.GetString("validated", architecture.validated);
  return gpu;
}

Link ReadLink(const common::TomlTable& table) {
  return {table.RequireString("name"),
          table.RequirePositive("bandwidth_gb_per_s") * kGiga,
          table.RequirePositive("latency_us") * kMicro};
}

int ReadRingNics(const common::TomlTable& inter, int nics_per_node) {
  const std::int64_t nics = inter.GetInt("ring_nics", 0);
  if (nics < 0 || nics > nics_per_node) {
    inter.Fail("ring_nics",
               fmt::format("ring_nics is {}: must be a whole number from 0 "
                           "(all) to nics_per_node, which is {}",
                           nics, nics_per_node));
  }
  return static_cast<int>(nics);
}

std::vector<double> ReadRings(const common::TomlTable& intra,
                              int gpus_per_node) {
  std::vector<double> rings = intra.GetDoubles("rings");
  const auto groups = static_cast<std::size_t>(gpus_per_node) - 1;
  if (intra.Has("rings") && rings.size() != groups) {
    intra.Fail("rings",
               fmt::format("rings has {} numbers: must have one for each group "
                           "of 2 to {} GPUs, {} in all",
                           rings.size(), gpus_per_node, groups));
  }
  for (const double count : rings) {
    if (!(count > 0.0)) {
      intra.Fail("rings",
                 fmt::format("rings has {}: must be greater than 0", count));
    }
  }
  return rings;
}

}  // namespace

Gpu FindGpu(const std::string& name, const std::filesystem::path& from) {
  const std::filesystem::path file = FindDataFile("gpus", name, from);
  const common::TomlTable table = common::TomlTable::ParseFile(file);
  Gpu gpu = ReadGpu(table);
  table.RejectUnknownKeys();
  gpu.preset = name.ends_with(".toml") ? file.string() : name;
  return gpu;
}

Gpu FindGpu(const common::TomlTable& table) {
  return table.At("gpu", [&table] {
    return FindGpu(table.RequireString("gpu"), table.Folder());
  });
}

std::vector<std::filesystem::path> GpuFiles(const Gpu& gpu) {
  std::vector<std::filesystem::path> files = {
      FindDataFile("hardware", gpu.architecture)};
  if (!gpu.preset.empty()) {
    files.push_back(FindDataFile("gpus", gpu.preset));
  }
  return files;
}

std::vector<std::filesystem::path> PartFiles(const Cluster& cluster) {
  std::vector<std::filesystem::path> files = GpuFiles(cluster.gpu);
  if (cluster.intra.rates != nullptr) {
    files.push_back(FindDataFile("links", cluster.intra.rates->name));
  }
  return files;
}

double Cluster::RingBytesPerSecond(int gpus_of_host) const {
  if (rings.empty()) {
    return intra.bandwidth_bytes_per_s;
  }
  // A ring with one GPU in each host uses no link within a host; its way to
  // the network card is as wide as all its links together.
  const std::size_t place = gpus_of_host < 2
                                ? rings.size()
                                : static_cast<std::size_t>(gpus_of_host) - 1;
  return intra.bandwidth_bytes_per_s * rings[std::min(place, rings.size()) - 1];
}

void ReadChanges(const common::TomlTable& table, Cluster& cluster) {
  double& price = cluster.gpu.price_per_hour;
  price = table.GetPositive("price_per_gpu_hour", price);
  if (table.GetBool("constant_rates", false)) {
    cluster.intra.rates = nullptr;
  }
}

namespace {

Cluster WithSizes(Cluster cluster, int nodes, int gpus_per_node) {
  if (nodes > 1 && !(cluster.inter.bandwidth_bytes_per_s > 0.0)) {
    throw std::invalid_argument(
        fmt::format("{} GPUs are more than one host of the cluster '{}', which "
                    "has no [inter]",
                    nodes * gpus_per_node, cluster.name));
  }
  const std::size_t linked = cluster.rings.size() + 1;
  if (!cluster.rings.empty() &&
      static_cast<std::size_t>(gpus_per_node) > linked) {
    throw std::invalid_argument(
        fmt::format("a host of the cluster '{}' has links for {} GPUs, not {}",
                    cluster.name, linked, gpus_per_node));
  }
  cluster.nodes = nodes;
  cluster.gpus_per_node = gpus_per_node;
  return cluster;
}

}  // namespace

Cluster WithGpus(Cluster cluster, int gpus) {
  cluster.gpus_per_node = std::min(cluster.gpus_per_node, gpus);
  while (gpus % cluster.gpus_per_node != 0) {
    --cluster.gpus_per_node;
  }
  const int gpus_per_node = cluster.gpus_per_node;
  return WithSizes(std::move(cluster), gpus / gpus_per_node, gpus_per_node);
}

Cluster WithHosts(Cluster cluster, int nodes, int gpus_per_node) {
  if (gpus_per_node < cluster.gpus_per_node) {
    cluster.nics_per_node = std::max(
        1, cluster.nics_per_node * gpus_per_node / cluster.gpus_per_node);
    cluster.ring_nics = std::min(cluster.ring_nics, cluster.nics_per_node);
  }
  return WithSizes(std::move(cluster), nodes, gpus_per_node);
}

namespace {

// Hosts of one GPU type: the keys of a cluster file without groups.
Cluster ReadHosts(const common::TomlTable& table, const std::string& name) {
  Cluster cluster;
  cluster.name = table.GetString("name", name);
  cluster.nodes = table.RequireIntIn("nodes", 1, kMostParts);
  cluster.gpus_per_node = table.RequireIntIn("gpus_per_node", 1, kMostParts);
  cluster.gpus_per_tray = table.GetIntIn("gpus_per_tray", 0, 0, kMostParts);
  cluster.gpu = !table.Has("gpu") || table.IsTable("gpu")
                    ? ReadGpu(table.RequireTable("gpu"))
                    : FindGpu(table);
  ReadChanges(table, cluster);

  const common::TomlTable intra = table.RequireTable("intra");
  cluster.intra = ReadLink(intra);
  if (intra.Has("rates")) {
    cluster.intra.rates = intra.At("rates", [&intra] {
      return &FindCollectiveRates(intra.RequireString("rates"));
    });
  }
  cluster.peer_access = intra.GetBool("peer_access", true);
  cluster.rings = ReadRings(intra, cluster.gpus_per_node);
  if (table.Has("uplink")) {
    const common::TomlTable uplink = table.RequireTable("uplink");
    cluster.uplink = ReadLink(uplink);
    cluster.gpus_per_switch =
        uplink.RequireIntIn("gpus_per_switch", 1, kMostParts);
    if (cluster.gpus_per_node % cluster.gpus_per_switch != 0) {
      uplink.Fail("gpus_per_switch",
                  fmt::format("gpus_per_switch is {}: must divide "
                              "gpus_per_node, which is {}",
                              cluster.gpus_per_switch, cluster.gpus_per_node));
    }
  }
  if (cluster.nodes > 1 || table.Has("inter")) {
    const common::TomlTable inter = table.RequireTable("inter");
    cluster.inter = ReadLink(inter);
    cluster.nics_per_node = inter.GetIntIn("nics_per_node", 1, 1, kMostParts);
    cluster.ring_nics = ReadRingNics(inter, cluster.nics_per_node);
  }
  return cluster;
}

// Its hosts, as many as the type has.
Cluster ReadHostsLike(const common::TomlTable& gpu_type) {
  Cluster cluster = ReadCluster(FindDataFile("clusters", gpu_type, "like"));
  try {
    cluster.name = gpu_type.GetString("name", cluster.name);
    ReadChanges(gpu_type, cluster);
    const int gpus_per_node = gpu_type.GetIntIn(
        "gpus_per_node", cluster.gpus_per_node, 1, kMostParts);
    return WithHosts(std::move(cluster),
                     gpu_type.RequireIntIn("nodes", 1, kMostParts),
                     gpus_per_node);
  } catch (const common::InputError&) {
    throw;
  } catch (const std::invalid_argument& e) {
    gpu_type.Fail("like", e.what());
  }
}

std::vector<Cluster> ReadGpuTypes(const common::TomlTable& table) {
  const Link network =
      table.Has("network") ? ReadLink(table.RequireTable("network")) : Link{};
  std::vector<Cluster> gpu_types;
  for (const common::TomlTable& gpu_type : table.GetTables("gpu_type")) {
    Cluster cluster =
        gpu_type.Has("like")
            ? ReadHostsLike(gpu_type)
            : ReadHosts(gpu_type, fmt::format("gpu_type-{}", gpu_types.size()));
    cluster.outer = network;
    if (!(cluster.OuterLink().bandwidth_bytes_per_s > 0.0)) {
      gpu_type.Fail(
          "inter",
          fmt::format("the hosts of '{}' have no network to those of "
                      "other GPU types: add [gpu_type.inter] or [network]",
                      cluster.name));
    }
    for (const Cluster& other : gpu_types) {
      if (other.name == cluster.name) {
        gpu_type.Fail(
            "name",
            fmt::format("two GPU types are named '{}': give each a name "
                        "of its own",
                        cluster.name));
      }
    }
    gpu_types.push_back(std::move(cluster));
  }
  return gpu_types;
}

}  // namespace

std::vector<Cluster> ReadClusters(const std::filesystem::path& path) {
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  if (table.Has("group")) {
    table.Fail("group", "unknown table 'group': it is now [[gpu_type]]");
  }
  std::vector<Cluster> gpu_types =
      table.Has("gpu_type")
          ? ReadGpuTypes(table)
          : std::vector<Cluster>{ReadHosts(table, path.stem().string())};
  table.RejectUnknownKeys();
  return gpu_types;
}

Cluster ReadCluster(const std::filesystem::path& path) {
  std::vector<Cluster> gpu_types = ReadClusters(path);
  if (gpu_types.size() > 1) {
    throw common::InputError(fmt::format(
        "{}: a cluster with {} GPU types; this needs one type: name a file "
        "without several [[gpu_type]], or one type by [cluster] gpu_type = "
        "\"{}\"",
        path.string(), gpu_types.size(), gpu_types.front().name));
  }
  return std::move(gpu_types.front());
}

std::vector<std::filesystem::path> GpuTypeFiles(
    const std::filesystem::path& path) {
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  std::vector<std::filesystem::path> files;
  if (!table.Has("gpu_type")) {
    return files;
  }
  for (const common::TomlTable& gpu_type : table.GetTables("gpu_type")) {
    if (gpu_type.Has("like")) {
      files.push_back(FindDataFile("clusters", gpu_type, "like"));
    }
  }
  return files;
}

int GpusOf(std::span<const Cluster> gpu_types) {
  int gpus = 0;
  for (const Cluster& gpu_type : gpu_types) {
    gpus += gpu_type.gpus();
  }
  return gpus;
}

Cluster WithBandwidths(Cluster cluster, double intra, double inter) {
  cluster.intra.bandwidth_bytes_per_s *= intra;
  cluster.uplink.bandwidth_bytes_per_s *= intra;
  cluster.inter.bandwidth_bytes_per_s *= inter;
  cluster.outer.bandwidth_bytes_per_s *= inter;
  return cluster;
}

std::vector<Cluster> WithGpus(std::vector<Cluster> gpu_types, int gpus) {
  const std::int64_t all = std::max(1, GpusOf(gpu_types));
  for (Cluster& gpu_type : gpu_types) {
    const std::int64_t share = std::int64_t{gpus} * gpu_type.gpus();
    if (share % (all * gpu_type.gpus_per_node) != 0) {
      throw std::invalid_argument(fmt::format(
          "{} GPUs with the shares of the GPU types do not fill hosts of {} "
          "GPUs "
          "of '{}': use a multiple of {}, or other nodes of the types",
          gpus, gpu_type.gpus_per_node, gpu_type.name, all));
    }
    gpu_type = WithHosts(gpu_type,
                         static_cast<int>(share / all / gpu_type.gpus_per_node),
                         gpu_type.gpus_per_node);
  }
  return gpu_types;
}

}  // namespace trials
