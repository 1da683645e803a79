// The hardware: GPUs, hosts, links.

#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/toml_table.h"

namespace trials {

struct CollectiveRates;

// One GPU, from its datasheet. SI units; files give GB, GB/s, TFLOPS.
struct Gpu {
  std::string name;
  // For the fraction of these rates that it achieves see
  // trials/gpu_architecture.h.
  std::string architecture;
  double memory_bytes = 0.0;
  double memory_bandwidth_bytes_per_s = 0.0;
  // Dense tensor-core rate with fp16/bf16 inputs and fp32 accumulation.
  double half_flop_per_s = 0.0;
  double single_flop_per_s = 0.0;  // fp32, no tensor cores
  int multiprocessors = 0;
  double price_per_hour = 0.0;  // USD; 0: unknown. Of the cluster's file
  // Dense tensor-core rate with 8-bit inputs; 0: none.
  double fp8_flop_per_s = 0.0;
  // The clock that the board's power limit leaves under tensor load, relative
  // to the board that tensor_fraction of the architecture describes.
  double power_fraction = 1.0;
  double attention_fraction = 1.0;  // the same of fused attention
  double board_power_w = 0.0;       // as rated; 0: unknown
  double host_bytes_per_s = 25e9;   // to its host and back, in each direction
  bool no_bf16 = false;  // tensor cores before Ampere multiply fp16 alone
  // The measurements that predictions for this GPU were compared with; "": not
  // validated.
  std::string validated;
  // The file in experiments/gpus/ that described it; "": the cluster's own
  // table.
  std::string preset;

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// A GPU by the name of its file in experiments/gpus/ ("h100-sxm"), or by the
// path of such a file (*.toml, relative to `from`).
// Errors: throws InputError for an unknown name, listing the known ones, and
// for an invalid file.
[[nodiscard]] Gpu FindGpu(const std::string& name,
                          const std::filesystem::path& from = {});

// The one that the key `gpu` of a table names.
[[nodiscard]] Gpu FindGpu(const common::TomlTable& table);

// The data files that a GPU was read from in addition to the cluster's.
[[nodiscard]] std::vector<std::filesystem::path> GpuFiles(const Gpu& gpu);

// One direction of one link: time for n bytes = latency + n / bandwidth. The
// bandwidth is what transfers reach, not the signalling rate.
struct Link {
  std::string name;
  double bandwidth_bytes_per_s = 0.0;
  double latency_s = 0.0;
  // Of [intra]: measured rates of collectives, which live as long as the
  // program; null: they follow from bandwidth and latency.
  const CollectiveRates* rates = nullptr;

  friend bool operator==(const Link&, const Link&) = default;
};

// A homogeneous cluster. Ranks 0 .. gpus()-1 fill one host after the other.
struct Cluster {
  std::string name;
  Gpu gpu;
  int gpus_per_node = 1;
  int nodes = 1;
  // GPUs of one operating system, where NVLink joins several of them to a host
  // (the trays of a rack); 0: a host has one.
  int gpus_per_tray = 0;
  Link intra;  // between two GPUs of one host, per GPU and direction
  // If the GPUs of a host are connected by links without a switch: the number
  // of rings through 2, 3, ... of them that fit into the links; `intra` is then
  // one link. Empty: a switch; a group of any size has the bandwidth of
  // `intra`.
  std::vector<double> rings;
  // GPUs behind one PCIe switch; the last switch of a host may have fewer. 0:
  // no shared switch (NVLink).
  int gpus_per_switch = 0;
  Link uplink;  // from a switch to the root complex, shared by its GPUs
  bool peer_access = true;  // false: GPU-to-GPU copies go through host memory
  Link inter;               // one NIC, per direction; unused with one node
  int nics_per_node = 1;
  // The number of these NICs that rings use to leave a host if they pass
  // through more than one of its GPUs but not all; 0: all. It is small if NCCL
  // cannot detect which NIC is near which GPU.
  int ring_nics = 0;
  // One NIC towards hosts of other GPU types (ReadClusters); without a
  // bandwidth, that is `inter`.
  Link outer;

  [[nodiscard]] const Link& OuterLink() const {
    return outer.bandwidth_bytes_per_s > 0.0 ? outer : inter;
  }
  [[nodiscard]] int gpus() const { return gpus_per_node * nodes; }
  // The GPUs for which one launcher starts processes.
  [[nodiscard]] int launched_gpus() const {
    return gpus_per_tray > 0 && gpus_per_node % gpus_per_tray == 0
               ? gpus_per_tray
               : gpus_per_node;
  }
  [[nodiscard]] int launchers() const { return gpus() / launched_gpus(); }
  // A rank's switch, in [0, switches()). Precondition: gpus_per_switch > 0.
  [[nodiscard]] int SwitchOf(int rank) const {
    return rank / gpus_per_node * SwitchesPerNode() +
           rank % gpus_per_node / gpus_per_switch;
  }
  [[nodiscard]] int switches() const { return nodes * SwitchesPerNode(); }
  // The bandwidth of a ring through this many GPUs of one host.
  [[nodiscard]] double RingBytesPerSecond(int gpus_of_host) const;

  friend bool operator==(const Cluster&, const Cluster&) = default;

 private:
  [[nodiscard]] int SwitchesPerNode() const {
    return (gpus_per_node + gpus_per_switch - 1) / gpus_per_switch;
  }
};

// The cluster with as many of its hosts as this many GPUs need. Hosts keep
// their number of GPUs if it divides `gpus`, and have the next smaller divisor
// otherwise.
// Errors: throws std::invalid_argument for several hosts without [inter].
[[nodiscard]] Cluster WithGpus(Cluster cluster, int gpus);

// The cluster with other sizes. A smaller host has links like the whole, and as
// many NICs per GPU, at least one.
// Errors: throws std::invalid_argument for several hosts without [inter], and
// for more GPUs per host than [intra] has rings for.
[[nodiscard]] Cluster WithHosts(Cluster cluster, int nodes, int gpus_per_node);

// The keys of a GPU type or of a manifest's [cluster] that change what a file
// says of the cluster: price_per_gpu_hour, and constant_rates, which ignores
// `rates` of [intra].
void ReadChanges(const common::TomlTable& table, Cluster& cluster);

// The data files that a cluster was read from in addition to its own.
[[nodiscard]] std::vector<std::filesystem::path> PartFiles(
    const Cluster& cluster);

// Reads a cluster file (experiments/clusters/*.toml; format in
// docs/cluster_format.md). Its GPU is a table [gpu] or the name of a preset,
// gpu = "h100-sxm". Every number there is next to its source.
// Errors: throws InputError with file:line:column, and for a file with several
// GPU types.
[[nodiscard]] Cluster ReadCluster(const std::filesystem::path& path);

// Reads a file that may have several GPU types ([[gpu_type]]): a cluster
// for each of them, with different names. Their hosts are joined by [network]
// or, without it, by the slower network of both sides.
[[nodiscard]] std::vector<Cluster> ReadClusters(
    const std::filesystem::path& path);

// The cluster files that the GPU types of a file are like.
// Errors: as ReadClusters.
[[nodiscard]] std::vector<std::filesystem::path> GpuTypeFiles(
    const std::filesystem::path& path);

// The cluster whose links have other bandwidths, times these factors: `intra`
// of those within hosts, `inter` of those between them.
[[nodiscard]] Cluster WithBandwidths(Cluster cluster, double intra,
                                     double inter);

// All GPUs of several types.
[[nodiscard]] int GpusOf(std::span<const Cluster> gpu_types);

// The types with fewer or more hosts: each has its share of `gpus`.
// Errors: throws std::invalid_argument where a share does not fill hosts, and
// as WithGpus.
[[nodiscard]] std::vector<Cluster> WithGpus(std::vector<Cluster> gpu_types,
                                            int gpus);

}  // namespace trials
