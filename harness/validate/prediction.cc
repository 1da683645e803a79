#include "harness/validate/prediction.h"

#include <cstddef>
#include <map>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/validate/part_time.h"
#include "trials/simulator/simulator.h"

namespace harness {
namespace {

// What rows have in common when one simulator can serve them all.
std::string ProblemKey(const MeasuredRow& row) {
  const trials::Model& model = row.workload.model;
  const trials::Cluster& cluster = row.cluster;
  const std::vector<int> sizes = {model.layers,
                                  model.hidden_size,
                                  model.attention_heads,
                                  model.kv_heads,
                                  model.head_size,
                                  model.ffn_size,
                                  model.vocab_size,
                                  model.gated_ffn ? 1 : 0,
                                  model.tied_embeddings ? 1 : 0,
                                  model.dropout ? 1 : 0,
                                  model.experts,
                                  model.experts_per_token};
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}",
                     row.framework_name,
                     cluster.name,
                     cluster.nodes,
                     cluster.gpus_per_node,
                     cluster.inter.bandwidth_bytes_per_s,
                     row.workload.batch_size,
                     row.workload.sequence_length,
                     static_cast<int>(row.workload.precision),
                     model.type,
                     fmt::join(sizes, "|"));
}

const trials::MemoryParts& MemoryOf(const trials::StepReport& report,
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

double BytesOf(const trials::MemoryParts& memory, PeakMemory kind) {
  if (kind == PeakMemory::kComputed) {
    return memory.parameters_bytes + memory.gradients_bytes +
           memory.optimizer_bytes + memory.activations_bytes;
  }
  double bytes = memory.Total();
  if (kind != PeakMemory::kDevice) {
    bytes -= memory.context_bytes;
  }
  if (kind == PeakMemory::kAllocated) {
    bytes -= memory.allocator_bytes;
  }
  return bytes;
}

// "dp=1,...: the rule" without the configuration.
std::string ReasonIn(const std::string& message) {
  const std::size_t colon = message.find(": ");
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

}  // namespace

std::string Prediction::Status() const {
  if (!left_out.empty()) {
    return "left_out";
  }
  return fits ? "ok" : "oom";
}

std::vector<Prediction> Predict(const MeasuredTable& table) {
  std::map<std::string, std::unique_ptr<trials::Simulator>> simulators;
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
    std::unique_ptr<trials::Simulator>& simulator = simulators[ProblemKey(row)];
    if (!simulator) {
      simulator = std::make_unique<trials::Simulator>(
          row.workload,
          row.cluster,
          trials::Simulator::Options{.framework = row.framework});
    }
    try {
      const trials::StepReport report = simulator->Simulate(row.config);
      prediction.step_time_s = report.step_time_s;
      prediction.peak_memory_bytes =
          BytesOf(MemoryOf(report, row.peak_rank), row.peak_memory);
      prediction.fits = report.fits;
    } catch (const std::invalid_argument& e) {
      prediction.refused = ReasonIn(e.what());
    }
  }
  return predictions;
}

}  // namespace harness
