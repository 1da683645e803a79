#include "studies/validation/prediction.h"

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "trials/predictions.h"
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

double BytesOf(const trials::MemoryBreakdown& memory, PeakMemory kind) {
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

}  // namespace

std::string Prediction::Status() const {
  if (!left_out.empty()) {
    return "left_out";
  }
  return fits ? "ok" : "oom";
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
      const trials::StepReport report = simulators.Of(row).Simulate(row.config);
      prediction.step_time_s = report.step_time_s;
      prediction.peak_memory_bytes =
          BytesOf(MemoryOf(report, row.peak_rank), row.peak_memory);
      prediction.fits = report.fits;
      prediction.fit_probability = trials::FitProbability(
          report.peak_memory_bytes, report.capacity_bytes,
          row.framework.allocator.memory_log_stddev);
    } catch (const trials::InvalidPlan& e) {
      prediction.refused = e.reason();
    } catch (const std::invalid_argument& e) {  // by its framework
      prediction.refused = e.what();
    }
  }
  return predictions;
}

}  // namespace studies
