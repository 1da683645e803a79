#include "trials/simulator/pipeline.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace trials {
namespace {

constexpr double kNotYet = -1.0;

// The state of a run: when each input arrives, where each stage stands.
class Run {
 public:
  Run(const PipelineShape& shape, const PipelineTimes& times)
      : shape_(shape), times_(times), virtual_(shape.stages * shape.chunks) {
    const auto inputs = static_cast<std::size_t>(virtual_) * shape.microbatches;
    hidden_arrival_s_.assign(inputs, kNotYet);
    gradient_arrival_s_.assign(inputs, kNotYet);
    for (int m = 0; m < shape.microbatches; ++m) {
      hidden_arrival_s_[Index(0, m)] = 0.0;  // the data is there
    }
    stages_.resize(static_cast<std::size_t>(shape.stages));
    for (int s = 0; s < shape.stages; ++s) {
      stages_[static_cast<std::size_t>(s)].actions = StageActions(shape, s);
    }
  }

  std::vector<StageTimeline> Execute() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (int s = 0; s < shape_.stages; ++s) {
        progress |= Advance(s);
      }
    }
    std::vector<StageTimeline> timelines;
    for (const Stage& stage : stages_) {
      if (stage.next < stage.actions.size()) {
        throw std::logic_error("the pipeline schedule deadlocks");
      }
      timelines.push_back(stage.timeline);
    }
    return timelines;
  }

 private:
  struct Stage {
    std::vector<Action> actions;
    std::size_t next = 0;
    StageTimeline timeline;  // its end_s is when the stage is free
  };

  [[nodiscard]] std::size_t Index(int virtual_stage, int microbatch) const {
    return static_cast<std::size_t>(virtual_stage) * shape_.microbatches +
           microbatch;
  }

  // Runs the actions of a stage as far as their inputs are known.
  bool Advance(int s) {
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    bool progress = false;
    while (stage.next < stage.actions.size()) {
      const Action& action = stage.actions[stage.next];
      const int v = action.chunk * shape_.stages + s;
      const double arrival_s =
          (action.forward ? hidden_arrival_s_
                          : gradient_arrival_s_)[Index(v, action.microbatch)];
      if (arrival_s == kNotYet) {
        return progress;
      }
      Wait(stage.timeline, arrival_s, IncomingTime(action.forward, v));
      if (stage.next == 0) {
        stage.timeline.begin_s = stage.timeline.end_s;
      }
      Execute(action, v, stage.timeline);
      ++stage.next;
      progress = true;
    }
    return progress;
  }

  // The transfer that brought the input of virtual stage v.
  [[nodiscard]] double IncomingTime(bool forward, int v) const {
    const std::size_t from =
        static_cast<std::size_t>((v - 1 + shape_.stages) % shape_.stages);
    const std::size_t here = static_cast<std::size_t>(v % shape_.stages);
    if (forward) {
      return v == 0 ? 0.0 : times_.send_forward_s[from];
    }
    return v == virtual_ - 1 ? 0.0 : times_.send_backward_s[here];
  }

  static void Wait(StageTimeline& timeline,
                   double arrival_s,
                   double incoming_s) {
    const double wait_s = arrival_s - timeline.end_s;
    if (wait_s <= 0.0) {
      return;
    }
    const double transfer_s = std::min(wait_s, incoming_s);
    timeline.transfer_s += transfer_s;
    timeline.bubble_s += wait_s - transfer_s;
    timeline.end_s = arrival_s;
  }

  void Execute(const Action& action, int v, StageTimeline& timeline) {
    const double duration_s =
        (action.forward ? times_.forward_s
                        : times_.backward_s)[static_cast<std::size_t>(v)];
    timeline.busy_s += duration_s;
    timeline.end_s += duration_s;
    const int to = action.forward ? v + 1 : v - 1;
    if (action.forward && to == virtual_) {
      // The loss: its gradient needs no transfer.
      gradient_arrival_s_[Index(v, action.microbatch)] = timeline.end_s;
      return;
    }
    if (to < 0) {
      return;
    }
    const double send_s = IncomingTime(action.forward, to);
    const double arrival_s = timeline.end_s + send_s;
    (action.forward ? hidden_arrival_s_
                    : gradient_arrival_s_)[Index(to, action.microbatch)] =
        arrival_s;
    if (!times_.overlap) {
      timeline.transfer_s += send_s;
      timeline.end_s = arrival_s;
    }
  }

  const PipelineShape& shape_;
  const PipelineTimes& times_;
  int virtual_;
  std::vector<double> hidden_arrival_s_;    // [virtual stage, microbatch]
  std::vector<double> gradient_arrival_s_;  // [virtual stage, microbatch]
  std::vector<Stage> stages_;
};

}  // namespace

std::vector<StageTimeline> RunPipeline(const PipelineShape& shape,
                                       const PipelineTimes& times) {
  return Run(shape, times).Execute();
}

double PeakActivationBytes(const PipelineShape& shape,
                           int stage,
                           const std::vector<double>& saved_bytes_per_chunk) {
  double bytes = 0.0;
  double peak_bytes = 0.0;
  for (const Action& action : StageActions(shape, stage)) {
    const double saved =
        saved_bytes_per_chunk[static_cast<std::size_t>(action.chunk)];
    bytes += action.forward ? saved : -saved;
    peak_bytes = std::max(peak_bytes, bytes);
  }
  return peak_bytes;
}

}  // namespace trials
