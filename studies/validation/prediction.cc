#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "studies/validation/comparison.h"
#include "trials/predictions.h"
#include "trials/simulator/action_time.h"
#include "trials/simulator/collectives.h"
#include "trials/simulator/simulator.h"

namespace studies {
namespace {

// The simulators of a table's problems, one for all rows of a problem.
class Simulators {
 public:
  const trials::Simulator& Of(const MeasuredRow& row) {
    for (const auto& [first, simulator] : made_) {
      if (first->workload == row.workload && first->cluster == row.cluster &&
          first->framework == row.framework) {
        return *simulator;
      }
    }
    return *made_
                .emplace_back(
                    &row,
                    std::make_unique<trials::Simulator>(
                        row.workload, row.cluster,
                        trials::Simulator::Options{.framework = row.framework}))
                .second;
  }

 private:
  // Each with the first row of its problem.
  std::vector<std::pair<const MeasuredRow*, std::unique_ptr<trials::Simulator>>>
      made_;
};

trials::StepReport Simulate(const trials::Simulator& simulator,
                            const MeasuredRow& row) {
  if (row.stage_blocks.empty()) {
    return simulator.Simulate(row.config);
  }
  trials::Plan plan = simulator.PlanOf(row.config);
  plan.layers = row.stage_blocks;
  return simulator.Simulate(plan);
}

const trials::MemoryBreakdown& MemoryOf(const trials::StepReport& report,
                                        PeakRank rank) {
  switch (rank) {
    case PeakRank::kFirst:
      return report.first_stage_memory;
    case PeakRank::kLast:
      return report.last_stage_memory;
    case PeakRank::kFullest:
      break;
  }
  return report.memory;
}

using trials::GpuModel;

// The link of one tensor-parallel group.
trials::GroupLink TensorLink(const trials::Cluster& cluster, int tp) {
  return trials::PlaceGrid(std::span(&cluster, 1), {.tp = tp})
      .stages.front()
      .tp;
}

// The link of an all-to-all over all GPUs.
trials::GroupLink ExchangeLink(const trials::Cluster& cluster) {
  const int gpus = cluster.gpus();
  return trials::PlaceGrid(std::span(&cluster, 1), {.dp = gpus, .ep = gpus})
      .stages.front()
      .ep;
}

// Adds copies of queries, keys and values to an operator: forward copies them
// into three tensors, backward their gradients into one.
void AddCopies(const MeasuredRow& row, const GpuModel& gpu,
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
  cost.forward_dispatch_s += kTensors * row.framework.dispatch.dispatch_s;
  cost.backward_dispatch_s += row.framework.dispatch.dispatch_backward_s;
}

double OperatorTime(const MeasuredRow& row) {
  const trials::Framework& framework = row.framework;
  const GpuModel gpu(row.cluster.gpu, row.workload.precision,
                     framework.kernels.launch_s);
  const int tp = row.config.tp;
  const trials::Shard shard{static_cast<double>(row.config.micro_batch_size),
                            tp, row.config.sp > 1};
  const std::vector<trials::OperatorCost> operators =
      trials::ComputeOperatorCosts(row.workload, framework, gpu, shard);
  const auto found = std::ranges::find_if(
      operators, [&](const auto& one) { return one.name == row.part.name; });
  if (found == operators.end()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  trials::OperatorCost cost = *found;
  if (row.part.copies_heads) {
    AddCopies(row, gpu, cost);
  }
  const double bytes =
      trials::ComputeLayerCosts(row.workload, framework, gpu, shard)
          .block.collective_bytes;
  const trials::GroupLink link = TensorLink(row.cluster, tp);
  // As in an action of the simulator (trials/simulator/action_time.h).
  const auto time_s = [&](double kernels_s, double dispatch_s, int reduces) {
    const trials::Collectives collectives{tp > 1 ? reduces : 0.0};
    const double gpu_s =
        kernels_s + trials::CollectiveTime(framework, link, bytes, collectives);
    return gpu_s + trials::DispatchOverhead(
                       framework, gpu_s,
                       dispatch_s + trials::IssueTime(framework, link,
                                                      collectives, false));
  };
  const double accumulate_s = row.part.accumulates ? cost.accumulate_s : 0.0;
  return time_s(cost.forward_s, cost.forward_dispatch_s,
                row.part.forward_all_reduces) +
         time_s(cost.backward_s + accumulate_s, cost.backward_dispatch_s,
                row.part.backward_all_reduces);
}

double CollectiveTime(const MeasuredRow& row) {
  const trials::GroupLink link = TensorLink(row.cluster, row.cluster.gpus());
  const double bytes = row.part.bytes;
  const std::string& name = row.part.name;
  // Copies move bytes in any precision; every GPU has this one.
  const GpuModel gpu(row.cluster.gpu, trials::Precision::kFp16,
                     trials::Framework{}.kernels.launch_s);
  const double copies_s =
      row.part.copied_bytes > 0.0 ? gpu.MemoryTime(row.part.copied_bytes) : 0.0;
  const double time_s =
      name == "all-reduce"       ? AllReduceTime(link, bytes)
      : name == "reduce-scatter" ? ReduceScatterTime(link, bytes)
      : name == "all-gather"     ? AllGatherTime(link, bytes)
                             : AllToAllTime(ExchangeLink(row.cluster), bytes);
  return time_s + copies_s;
}

// One call, as a benchmark repeats it. Grouped products are as many calls of a
// BLAS library; the CPU issues them one after another, without Python.
double CallTime(const MeasuredRow& row) {
  const TimedPart& part = row.part;
  const trials::Framework framework;
  const GpuModel gpu(row.cluster.gpu,
                     part.gemm && part.gemm->fp8 ? trials::Precision::kFp8
                                                 : trials::Precision::kFp16,
                     framework.kernels.launch_s);
  if (part.attention) {
    return gpu.FlashTime(*part.attention, part.backward);
  }
  return std::max(gpu.GemmTime(*part.gemm),
                  part.gemm->batch * framework.dispatch.dispatch_backward_s);
}

}  // namespace

double PartTime(const MeasuredRow& row) {
  if (row.part.IsCall()) {
    return CallTime(row);
  }
  return row.part.bytes > 0.0 ? CollectiveTime(row) : OperatorTime(row);
}

bool IsOfBlock(const MeasuredRow& row) {
  const std::string& name = row.part.name;
  return row.part.bytes == 0.0 && !row.part.IsCall() && name != "embedding" &&
         name != "final-norm" && name != "head";
}

std::string PartGroup(const MeasuredRow& row) {
  return row.part.bytes > 0.0
             ? fmt::format("{} x{}", row.part.name, row.cluster.gpus())
             : row.part.name;
}

std::string Prediction::Status() const {
  if (!left_out.empty()) {
    return "left_out";
  }
  return !refused.empty() ? "refused" : fits ? "ok" : "oom";
}

std::vector<Prediction> Predict(const MeasuredTable& table) {
  Simulators simulators;
  std::vector<Prediction> predictions;
  for (const MeasuredRow& row : table.rows) {
    Prediction& prediction = predictions.emplace_back();
    prediction.left_out = row.left_out;
    if (!row.left_out.empty()) {
      continue;
    }
    if (!row.part.name.empty()) {
      prediction.step_time_s = PartTime(row);
      prediction.fits = true;
      continue;
    }
    try {
      const trials::StepReport report = Simulate(simulators.Of(row), row);
      prediction.step_time_s = report.step_time_s;
      prediction.peak_memory_bytes =
          MemoryOf(report, row.peak_rank).Bytes(row.peak_memory);
      prediction.fits = report.fits;
      prediction.fit_probability = trials::FitProbability(
          report.peak_memory_bytes, report.capacity_bytes,
          row.framework.allocator.memory_log_stddev);
    } catch (const trials::InvalidPlan& e) {
      prediction.refused = e.reason();
    } catch (const common::InputError& e) {  // a GPU without fp8
      prediction.left_out = e.what();
    } catch (const std::invalid_argument& e) {  // by its framework
      prediction.refused = e.what();
    }
  }
  return predictions;
}

}  // namespace studies
