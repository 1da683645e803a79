// Profiled links of a cluster: point-to-point bandwidths and collectives.

#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace planners {

// A change of the layout of a tensor; kSplit needs no communication.
enum class Collective { kSplit, kAllGather, kAllToAll };

// It reads a CSV file without a header, in the format of Aceso's published
// profiles:
//   p2p_intra_node,S1,S2,...             sizes in MB, then a line of GB/s;
//   p2p_inter_node,S1,S2,...             the same between hosts
//   prim_MODEL_all_gather_Ngpus,MB,ms    one line per size
// Sizes of point-to-point lines are 1, 2, 4, ... Other lines are skipped.
class LinkTable {
 public:
  // Errors: throws InputError "file:line: ..." for a line that cannot be read
  // and for a file without both bandwidths.
  [[nodiscard]] static LinkTable Read(const std::filesystem::path& path,
                                      std::string_view model);

  // A table with one bandwidth for all sizes, without latency.
  [[nodiscard]] static LinkTable Uniform(double within_hosts_gb_per_s,
                                         double between_hosts_gb_per_s,
                                         int gpus_per_node);

  // Time of a transfer at the bandwidth of the next smaller profiled size.
  [[nodiscard]] double TransferUs(double mb, bool between_hosts) const;

  // Time of a collective over so many GPUs, each of which has `mb`. Only exact
  // sizes are profiled: those of the model's own tensors, rounded, or one less.
  // Infinite where none is, so that no plan rests on a time that was not
  // measured. Over uniform links, a GPU receives what the others send it: r - 1
  // tensors in an all-gather, (r - 1) / r of one in an all-to-all.
  [[nodiscard]] double CollectiveUs(Collective kind, int ranks,
                                    double mb) const;

 private:
  std::array<std::vector<double>, 2> gb_per_s_;  // by "between hosts"
  int gpus_per_node_ = 0;                        // of uniform links
  // By kind and ranks: (size in MB, ms).
  std::map<std::pair<Collective, int>, std::map<int, double>> collectives_;
};

}  // namespace planners
