#include "trials/simulator/step_report.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

namespace trials {
namespace {

// One part by name: totals, tables and messages go through these lists.
template <typename Parts>
struct Part {
  std::string_view name;
  double Parts::*value;
  bool optional = false;  // not printed where it is 0
};

constexpr std::array<Part<StepParts>, 12> kStepParts = {{
    {"forward", &StepParts::forward_s},
    {"backward", &StepParts::backward_s},
    {"recomputation", &StepParts::recompute_s},
    {"embedding, head, loss", &StepParts::head_s},
    {"optimizer", &StepParts::optimizer_s},
    {"tensor-parallel communication", &StepParts::tensor_s},
    {"context-parallel ring", &StepParts::context_s, true},
    {"experts' all-to-alls", &StepParts::expert_s, true},
    {"data-parallel communication", &StepParts::data_s},
    {"pipeline transfers", &StepParts::pipeline_s},
    {"pipeline bubble", &StepParts::bubble_s},
    {"launch and bucket overhead", &StepParts::overhead_s},
}};

constexpr std::array<Part<MemoryParts>, 10> kMemoryParts = {{
    {"parameters", &MemoryParts::parameters_bytes},
    {"gradients", &MemoryParts::gradients_bytes},
    {"optimizer", &MemoryParts::optimizer_bytes},
    {"activations", &MemoryParts::activations_bytes},
    {"logits and loss", &MemoryParts::logits_bytes},
    {"temporaries", &MemoryParts::working_bytes},
    {"communication buffers", &MemoryParts::buffers_bytes},
    {"waiting to be freed", &MemoryParts::pending_bytes, true},
    {"allocator", &MemoryParts::allocator_bytes},
    {"CUDA and NCCL context", &MemoryParts::context_bytes},
}};

template <typename Parts, std::size_t N>
double Sum(const Parts& parts, const std::array<Part<Parts>, N>& list) {
  double sum = 0.0;
  for (const Part<Parts>& part : list) {
    sum += parts.*part.value;
  }
  return sum;
}

template <typename Parts, std::size_t N>
std::string Rows(const Parts& parts,
                 const std::array<Part<Parts>, N>& list,
                 double unit,
                 std::string_view unit_name) {
  const double total = Sum(parts, list);
  std::string text;
  for (const Part<Parts>& part : list) {
    if (part.optional && parts.*part.value == 0.0) {
      continue;
    }
    text += fmt::format("  {:<30}{:>12.3f} {}{:>7.1f} %\n",
                        part.name,
                        parts.*part.value / unit,
                        unit_name,
                        100.0 * parts.*part.value / total);
  }
  text +=
      fmt::format("  {:<30}{:>12.3f} {}\n", "total", total / unit, unit_name);
  return text;
}

constexpr double kMilli = 1e-3;
constexpr double kGiga = 1e9;

}  // namespace

double StepParts::Total() const { return Sum(*this, kStepParts); }
void StepParts::Add(double times, const StepParts& other) {
  for (const Part<StepParts>& part : kStepParts) {
    this->*part.value += times * other.*part.value;
  }
}

double MemoryParts::Total() const { return Sum(*this, kMemoryParts); }

std::string LargestPart(const MemoryParts& memory) {
  const auto* largest =
      std::max_element(kMemoryParts.begin(),
                       kMemoryParts.end(),
                       [&](const auto& a, const auto& b) {
                         return memory.*a.value < memory.*b.value;
                       });
  return std::string(largest->name);
}

std::string FormatReport(const ParallelConfig& config,
                         const StepReport& report) {
  std::string text = fmt::format(
      "{}\n\nstep time {:.6g} s, {:.6g} steps/s; critical rank {}\n",
      ToString(config),
      report.step_time_s,
      1.0 / report.step_time_s,
      report.critical_rank);
  text += Rows(report.parts, kStepParts, kMilli, "ms");
  text += fmt::format("\npeak memory {:.2f} GB of {:.2f} GB on rank {}: {}\n",
                      report.peak_memory_bytes / kGiga,
                      report.capacity_bytes / kGiga,
                      report.peak_rank,
                      report.fits
                          ? "fits"
                          : "OUT OF MEMORY, the step time is what it would be");
  text += Rows(report.memory, kMemoryParts, kGiga, "GB");
  return text;
}

}  // namespace trials
