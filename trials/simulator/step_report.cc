#include "trials/simulator/step_report.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/units.h"

namespace trials {
namespace {

// A component by name. Totals, tables and messages go through these lists.
template <typename Breakdown>
struct Component {
  std::string_view name;
  double Breakdown::*value;
  bool optional = false;  // not printed where it is 0
};

constexpr std::array<Component<TimeBreakdown>, 12> kTimeComponents = {{
    {"forward", &TimeBreakdown::forward_s},
    {"backward", &TimeBreakdown::backward_s},
    {"recomputation", &TimeBreakdown::recompute_s},
    {"embedding, head, loss", &TimeBreakdown::head_s},
    {"optimizer", &TimeBreakdown::optimizer_s},
    {"tensor-parallel communication", &TimeBreakdown::tensor_s},
    {"context-parallel ring", &TimeBreakdown::context_s, true},
    {"experts' all-to-alls", &TimeBreakdown::expert_s, true},
    {"data-parallel communication", &TimeBreakdown::data_s},
    {"pipeline transfers", &TimeBreakdown::pipeline_s},
    {"pipeline bubble", &TimeBreakdown::bubble_s},
    {"launch and bucket overhead", &TimeBreakdown::overhead_s},
}};

constexpr std::array<Component<MemoryBreakdown>, 10> kMemoryComponents = {{
    {"parameters", &MemoryBreakdown::parameters_bytes},
    {"gradients", &MemoryBreakdown::gradients_bytes},
    {"optimizer states", &MemoryBreakdown::optimizer_bytes},
    {"activations", &MemoryBreakdown::activations_bytes},
    {"logits and loss", &MemoryBreakdown::logits_bytes},
    {"temporaries", &MemoryBreakdown::working_bytes},
    {"communication buffers", &MemoryBreakdown::buffers_bytes},
    {"waiting to be freed", &MemoryBreakdown::pending_bytes, true},
    {"allocator", &MemoryBreakdown::allocator_bytes},
    {"CUDA and NCCL context", &MemoryBreakdown::context_bytes},
}};

template <typename Breakdown, std::size_t N>
double Sum(const Breakdown& breakdown,
           const std::array<Component<Breakdown>, N>& list) {
  double sum = 0.0;
  for (const Component<Breakdown>& component : list) {
    sum += breakdown.*component.value;
  }
  return sum;
}

template <typename Breakdown, std::size_t N>
Components Named(const Breakdown& breakdown,
                 const std::array<Component<Breakdown>, N>& list) {
  Components named;
  for (const Component<Breakdown>& component : list) {
    named.emplace_back(component.name, breakdown.*component.value);
  }
  return named;
}

template <typename Breakdown, std::size_t N>
std::string TextRows(const Breakdown& breakdown,
                     const std::array<Component<Breakdown>, N>& list,
                     double unit, std::string_view unit_name) {
  const double total = Sum(breakdown, list);
  std::string text;
  for (const Component<Breakdown>& component : list) {
    if (component.optional && breakdown.*component.value == 0.0) {
      continue;
    }
    text += fmt::format("  {:<30}{:>12.3f} {}{:>7.1f} %\n", component.name,
                        breakdown.*component.value / unit, unit_name,
                        100.0 * breakdown.*component.value / total);
  }
  text +=
      fmt::format("  {:<30}{:>12.3f} {}\n", "total", total / unit, unit_name);
  return text;
}

constexpr double kMilli = 1e-3;
using common::kGiga;

}  // namespace

double TimeBreakdown::Total() const { return Sum(*this, kTimeComponents); }
void TimeBreakdown::Add(double times, const TimeBreakdown& other) {
  for (const Component<TimeBreakdown>& component : kTimeComponents) {
    this->*component.value += times * other.*component.value;
  }
}

double MemoryBreakdown::Total() const { return Sum(*this, kMemoryComponents); }

double MemoryBreakdown::Bytes(PeakMemory counted) const {
  switch (counted) {
    case PeakMemory::kComputed:
      return parameters_bytes + gradients_bytes + optimizer_bytes +
             activations_bytes;
    case PeakMemory::kAllocated:
      return Total() - context_bytes - allocator_bytes;
    case PeakMemory::kReserved:
      return Total() - context_bytes;
    case PeakMemory::kDevice:
      break;
  }
  return Total();
}

Components ComponentsOf(const TimeBreakdown& time) {
  return Named(time, kTimeComponents);
}

Components ComponentsOf(const MemoryBreakdown& memory) {
  return Named(memory, kMemoryComponents);
}

std::string LargestComponent(const MemoryBreakdown& memory) {
  const auto* largest =
      std::max_element(kMemoryComponents.begin(), kMemoryComponents.end(),
                       [&](const auto& a, const auto& b) {
                         return memory.*a.value < memory.*b.value;
                       });
  return std::string(largest->name);
}

std::string FormatReport(std::string_view simulated, const StepReport& report) {
  std::string text = fmt::format(
      "{}\n\nstep time {:.6g} s, {:.6g} steps/s; critical rank {}\n", simulated,
      report.step_time_s, 1.0 / report.step_time_s, report.critical_rank);
  text += TextRows(report.time, kTimeComponents, kMilli, "ms");
  text += fmt::format("\npeak memory {:.2f} GB of {:.2f} GB on rank {}: {}\n",
                      report.peak_memory_bytes / kGiga,
                      report.capacity_bytes / kGiga, report.peak_rank,
                      report.fits
                          ? "fits"
                          : "OUT OF MEMORY, the step time is what it would be");
  text += TextRows(report.memory, kMemoryComponents, kGiga, "GB");
  return text;
}

}  // namespace trials
