#include "studies/validation/part_time.h"

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

namespace studies {
namespace {

using trials::GpuModel;

// The ring through the first `ranks` GPUs.
trials::GroupLink LinkOf(const trials::Cluster& cluster, int ranks) {
  trials::Group group(static_cast<std::size_t>(ranks));
  std::iota(group.begin(), group.end(), 0);
  return trials::RingLink(cluster, std::vector<trials::Group>{group});
}

// What copying queries, keys and values adds to an operator, each way: they
// become three tensors, their gradients one.
void AddCopies(const MeasuredRow& row,
               const GpuModel& gpu,
               trials::OperatorCost& cost) {
  const trials::Model& model = row.workload.model;
  const double heads = model.attention_heads + 2.0 * model.kv_heads;
  const double elements = static_cast<double>(row.config.micro_batch_size) *
                          row.workload.sequence_length * heads *
                          model.head_size / row.config.tp;
  const double bytes = 2.0 * gpu.element_bytes() * elements;  // read and write
  constexpr int kTensors = 3;
  cost.forward_s += gpu.MemoryTime(bytes, kTensors);
  cost.backward_s += gpu.MemoryTime(bytes);
  cost.forward_dispatch_s += kTensors * row.framework.dispatch_s;
  cost.backward_dispatch_s += row.framework.dispatch_backward_s;
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
  trials::OperatorCost cost = *found;
  if (row.part.copies_heads) {
    AddCopies(row, gpu, cost);
  }
  const double bytes = gpu.element_bytes() * sequences *
                       row.workload.sequence_length *
                       row.workload.model.hidden_size;
  const double message_s =
      trials::AllReduceTime(LinkOf(row.cluster, config.tp), bytes);
  const double issue_s = config.tp > 1 ? row.framework.message_dispatch_s : 0.0;
  const auto time_s = [&](double gpu_s, double dispatch_s, int messages) {
    return std::max(gpu_s + messages * message_s,
                    dispatch_s + messages * issue_s);
  };
  const double accumulate_s = row.part.accumulates ? cost.accumulate_s : 0.0;
  return time_s(cost.forward_s,
                cost.forward_dispatch_s,
                row.part.forward_messages) +
         time_s(cost.backward_s + accumulate_s,
                cost.backward_dispatch_s,
                row.part.backward_messages);
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

}  // namespace studies
