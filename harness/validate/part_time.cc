#include "harness/validate/part_time.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "trials/simulator/collectives.h"
#include "trials/simulator/gpu_model.h"
#include "trials/simulator/layer_cost.h"
#include "trials/simulator/topology.h"

namespace harness {
namespace {

using trials::GpuModel;

// The ring through the first `ranks` GPUs.
trials::GroupLink LinkOf(const trials::Cluster& cluster, int ranks) {
  trials::Group group(static_cast<std::size_t>(ranks));
  std::iota(group.begin(), group.end(), 0);
  return trials::RingLink(cluster, std::vector<trials::Group>{group});
}

double OperatorTime(const MeasuredRow& row) {
  const GpuModel gpu(
      row.cluster.gpu, row.workload.precision, row.framework.launch_s);
  const trials::ParallelConfig& config = row.config;
  const auto sequences = static_cast<double>(config.micro_batch_size);
  const std::vector<trials::OperatorCost> operators =
      trials::ComputeOperatorCosts(
          row.workload, row.framework, gpu, {sequences, config.tp, config.sp});
  const auto found =
      std::find_if(operators.begin(), operators.end(), [&](const auto& one) {
        return one.name == row.part.name;
      });
  if (found == operators.end()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double bytes = gpu.element_bytes() * sequences *
                       row.workload.sequence_length *
                       row.workload.model.hidden_size;
  const double message_s =
      trials::AllReduceTime(LinkOf(row.cluster, config.tp), bytes);
  const double backward_s =
      found->backward_s + (row.part.accumulates ? found->accumulate_s : 0.0);
  return std::max(found->forward_s, found->forward_dispatch_s) +
         std::max(backward_s, found->backward_dispatch_s) +
         (row.part.forward_messages + row.part.backward_messages) * message_s;
}

double CollectiveTime(const MeasuredRow& row) {
  const trials::GroupLink link = LinkOf(row.cluster, row.cluster.gpus());
  const double bytes = row.part.bytes;
  const std::string& name = row.part.name;
  // Copies move bytes, whatever the precision.
  const GpuModel gpu(
      row.cluster.gpu, trials::Precision::kBf16, trials::Framework{}.launch_s);
  const double copies_s =
      row.part.copied_bytes > 0.0 ? gpu.MemoryTime(row.part.copied_bytes) : 0.0;
  const double time_s = name == "all-reduce" ? AllReduceTime(link, bytes)
                        : name == "reduce-scatter"
                            ? ReduceScatterTime(link, bytes)
                        : name == "all-gather" ? AllGatherTime(link, bytes)
                                               : AllToAllTime(link, bytes);
  return time_s + copies_s;
}

}  // namespace

double PartTime(const MeasuredRow& row) {
  return row.part.bytes > 0.0 ? CollectiveTime(row) : OperatorTime(row);
}

bool IsOfBlock(const MeasuredRow& row) {
  const std::string& name = row.part.name;
  return row.part.bytes == 0.0 && name != "embedding" && name != "final-norm" &&
         name != "head";
}

std::string PartGroup(const MeasuredRow& row) {
  return row.part.bytes > 0.0
             ? fmt::format("{} x{}", row.part.name, row.cluster.gpus())
             : row.part.name;
}

}  // namespace harness
