#include "jobs/plan/step_trace.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "trials/simulator/simulated_step.h"

namespace jobs {
namespace {

using common::Json;
using trials::ActionRecord;
using trials::SimulatedStage;
using trials::SimulatedStep;
using trials::TimeBreakdown;

enum Thread { kSchedule = 1, kComputation, kCommunication, kLaunches };
constexpr std::array<std::pair<Thread, const char*>, 4> kThreads = {
    {{kSchedule, "schedule"},
     {kComputation, "computation"},
     {kCommunication, "exposed communication and waiting"},
     {kLaunches, "launches"}}};

// Microseconds with three decimals, which is what readers keep.
double Rounded(double micros) { return std::round(1e3 * micros) / 1e3; }

// What a part of an action is called, by its stream. The name of a collective
// contains that of the library, as in a profile, and its group is an argument.
struct TracedPart {
  double TimeBreakdown::*time;
  Thread thread;
  const char* name;
  const char* group = "";
};
constexpr std::array<TracedPart, 11> kParts = {{
    {&TimeBreakdown::recompute_s, kComputation, "recomputation"},
    {&TimeBreakdown::forward_s, kComputation, "forward"},
    {&TimeBreakdown::head_s, kComputation, "embedding, head, loss"},
    {&TimeBreakdown::backward_s, kComputation, "backward"},
    {&TimeBreakdown::tensor_s, kCommunication, "nccl collectives", "tensor"},
    {&TimeBreakdown::context_s, kCommunication, "nccl ring", "context"},
    {&TimeBreakdown::expert_s, kCommunication, "nccl all-to-all", "expert"},
    {&TimeBreakdown::data_s, kCommunication, "nccl gather, scatter", "data"},
    {&TimeBreakdown::pipeline_s, kCommunication, "nccl receive", "pipeline"},
    {&TimeBreakdown::optimizer_s, kComputation, "optimizer"},
    {&TimeBreakdown::overhead_s, kLaunches, "launches"},
}};

// Writes the events of one stage, one after the other.
class StageEvents {
 public:
  // `scale`: microseconds of a simulated second.
  StageEvents(int stage, double scale, Json& events)
      : stage_(stage), scale_(scale), events_(events) {}

  void Describe(const SimulatedStage& stage, int stages) {
    Metadata("process_name", kSchedule, "name",
             fmt::format("stage {} of {}", stage_ + 1, stages));
    Metadata("process_sort_index", kSchedule, "sort_index", stage_);
    for (const auto& [thread, name] : kThreads) {
      Metadata("thread_name", thread, "name", name);
      Metadata("thread_sort_index", thread, "sort_index",
               static_cast<int>(thread));
    }
    for (const ActionRecord& one : stage.actions) {
      AddAction(stage, one);
    }
    const trials::AfterPipeline& after = stage.after;
    Kernel(kCommunication, "nccl receive (waiting)", "pipeline", after.wait_s);
    Kernel(kCommunication, "nccl reduction of gradients", "data",
           after.reduce_s);
    Kernel(kComputation, "optimizer", "", after.optimizer_s);
    Kernel(kCommunication, "nccl gather of parameters", "data", after.gather_s);
    Kernel(kLaunches, "launches", "", after.overhead_s);
    Event(kSchedule, "user_annotation", "ProfilerStep#1", 0.0, now_s_,
          Json::object());
  }

 private:
  void AddAction(const SimulatedStage& stage, const ActionRecord& one) {
    const trials::Action& action = one.action;
    Kernel(kCommunication, "nccl receive (waiting)", "pipeline",
           one.begin_s - one.received_s - now_s_);
    Kernel(kCommunication, "nccl receive", "pipeline", one.received_s);
    const char* name = action.weights   ? "weights"
                       : action.forward ? "forward"
                                        : "backward";
    const double length_s = one.end_s - one.begin_s;
    Event(kSchedule, "user_annotation",
          fmt::format("{} {}", name, action.microbatch), one.begin_s, length_s,
          {{"microbatch", action.microbatch},
           {"chunk", action.chunk},
           {"on the critical path", one.critical}});
    if (action.weights) {
      Kernel(kComputation, "backward of weights", "", length_s);
    } else {
      const TimeBreakdown& parts =
          (action.forward ? stage.forward : stage.backward)[action.chunk];
      // A split backward pass computes the gradients of weights later.
      const double later_s = parts.Total() - length_s;
      for (const TracedPart& part : kParts) {
        const bool split = part.time == &TimeBreakdown::backward_s;
        Kernel(part.thread, part.name, part.group,
               parts.*part.time - (split ? later_s : 0.0));
      }
    }
    now_s_ = one.end_s;
    Kernel(kCommunication, "nccl send", "pipeline", one.free_s - one.end_s);
  }

  // The next thing that the GPU does. Launches are no kernels: the GPU has
  // nothing to do.
  void Kernel(Thread thread, const char* name, const char* group,
              double length_s) {
    constexpr double kRounding = 1e-9;
    if (length_s > kRounding * now_s_) {
      Json args = Json::object();
      if (*group != '\0') {
        args["Process Group Description"] = group;
      }
      Event(thread, thread == kLaunches ? "cpu_op" : "kernel", name, now_s_,
            length_s, args);
      now_s_ += length_s;
    }
  }

  void Event(Thread thread, const char* kind, const std::string& name,
             double begin_s, double length_s, const Json& args) {
    const double begin = Rounded(scale_ * begin_s);
    Json event = {{"ph", "X"},
                  {"cat", kind},
                  {"name", name},
                  {"pid", stage_},
                  {"tid", static_cast<int>(thread)},
                  {"ts", begin},
                  {"dur", Rounded(scale_ * (begin_s + length_s) - begin)}};
    if (!args.empty()) {
      event["args"] = args;
    }
    events_.push_back(std::move(event));
  }

  void Metadata(const char* what, Thread thread, const char* key,
                const Json& value) {
    events_.push_back({{"ph", "M"},
                       {"name", what},
                       {"pid", stage_},
                       {"tid", static_cast<int>(thread)},
                       {"args", {{key, value}}}});
  }

  int stage_;
  double scale_;
  Json& events_;
  double now_s_ = 0.0;
};

}  // namespace

Json StepTrace(const Forecaster& forecaster, const Prediction& one, int most) {
  constexpr double kMicrosecond = 1e-6;
  const SimulatedStep step = forecaster.Record(one.config);
  const double scale = one.step_time_s / step.report.step_time_s / kMicrosecond;
  const int stages = step.shape.stages;
  const int every = (stages * ActionCount(step.shape) - 1) / most + 1;
  Json events = Json::array();
  for (int s = 0; s < stages; ++s) {
    if (s % every == 0 || s == stages - 1 || s == step.critical_stage) {
      StageEvents(s, scale, events).Describe(step.stages[s], stages);
    }
  }
  return {
      {"displayTimeUnit", "ms"},
      {"otherData",
       {{"framework", forecaster.job().framework.name},
        {"model", forecaster.job().workload.name},
        {"config", ToString(one.config)},
        {"step_time_s", one.step_time_s},
        {"stages",
         every == 1 ? "all"
                    : fmt::format("one of {}, and those that end it", every)}}},
      {"traceEvents", std::move(events)}};
}

}  // namespace jobs
