#include "trials/simulator/pipeline.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace trials {
namespace {

constexpr double kNotYet = -1.0;

// The end of an action, and the time its stage had spent on transfers by then.
struct Mark {
  double end_s;
  double transfer_s;
};

// An action that may wait for its input.
struct Pending {
  int index = -1;
  Action action;
};

// The state of a run: arrival of each input, next action of each stage.
class Run {
 public:
  Run(const PipelineShape& shape, const PipelineTimes& times)
      : shape_(shape),
        times_(times),
        virtual_(shape.stages * shape.chunks),
        actions_(ActionCount(shape)) {
    hidden_arrival_s_.assign(Index(virtual_, 0), kNotYet);
    gradient_arrival_s_ = hidden_arrival_s_;
    for (int m = 0; m < shape.microbatches; ++m) {
      hidden_arrival_s_[Index(0, m)] = 0.0;  // the data is there
    }
    next_.assign(shape.stages, 0);
    pending_.resize(next_.size());
    timelines_.resize(next_.size());
    marks_.assign(next_.size(), std::vector<Mark>(actions_));
  }

  void Execute() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (int s = 0; s < shape_.stages; ++s) {
        progress |= Advance(s);
      }
    }
    for (const int next : next_) {
      if (next < actions_) {
        throw std::logic_error("the pipeline schedule deadlocks");
      }
    }
  }

  [[nodiscard]] std::vector<StageTimeline>& timelines() { return timelines_; }

  // Action i of a stage; the last one before only backwards remain.
  [[nodiscard]] const Mark& At(int s, int i) const { return marks_[s][i]; }
  [[nodiscard]] int LastAlternating(int s) const {
    return actions_ - WarmupActions(shape_, s) - 1;
  }

 private:
  [[nodiscard]] std::size_t Index(int virtual_stage, int microbatch) const {
    return static_cast<std::size_t>(virtual_stage) * shape_.microbatches +
           microbatch;
  }

  // Runs the actions of a stage whose inputs have arrived.
  bool Advance(int s) {
    StageTimeline& timeline = timelines_[s];
    bool progress = false;
    for (int& i = next_[s]; i < actions_; ++i) {
      if (i != pending_[s].index) {
        pending_[s] = {i, ActionAt(shape_, s, i)};
      }
      const Action action = pending_[s].action;
      const int v = action.chunk * shape_.stages + s;
      if (action.weights) {  // its inputs are there
        const double duration_s = times_.weights_s[s];
        timeline.busy_s += duration_s;
        timeline.end_s += duration_s;
        marks_[s][i] = {timeline.end_s, timeline.transfer_s};
        progress = true;
        continue;
      }
      const double arrival_s =
          (action.forward ? hidden_arrival_s_
                          : gradient_arrival_s_)[Index(v, action.microbatch)];
      if (arrival_s == kNotYet) {
        return progress;
      }
      Wait(timeline, arrival_s, IncomingTime(action.forward, v));
      if (i == 0) {
        timeline.begin_s = timeline.end_s;
      }
      Execute(action, v, timeline);
      marks_[s][i] = {timeline.end_s, timeline.transfer_s};
      progress = true;
    }
    return progress;
  }

  // The transfer of the input of virtual stage v.
  [[nodiscard]] double IncomingTime(bool forward, int v) const {
    if (v == (forward ? 0 : virtual_ - 1)) {
      return 0.0;  // the data, or the loss
    }
    return forward ? times_.send_forward_s[(v - 1) % shape_.stages]
                   : times_.send_backward_s[v % shape_.stages];
  }

  void Wait(StageTimeline& timeline, double arrival_s,
            double incoming_s) const {
    const double wait_s = std::max(arrival_s - timeline.end_s, 0.0);
    const double transfer_s = std::min(wait_s, incoming_s);
    timeline.transfer_s += transfer_s;
    timeline.bubble_s += wait_s - transfer_s;
    timeline.end_s += wait_s;
  }

  void Execute(const Action& action, int v, StageTimeline& timeline) {
    const double duration_s =
        (action.forward ? times_.forward_s : times_.backward_s)[v];
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
  int actions_;                             // of each stage
  std::vector<double> hidden_arrival_s_;    // [virtual stage, microbatch]
  std::vector<double> gradient_arrival_s_;  // [virtual stage, microbatch]
  std::vector<int> next_;                   // action of each stage
  std::vector<Pending> pending_;            // the action that next_ counts
  std::vector<StageTimeline> timelines_;    // end_s is when the stage is free
  std::vector<std::vector<Mark>> marks_;    // [stage, action]
};

// Microbatches after which a filled pipeline repeats itself, and a stage's
// actions in that time.
int RoundMicrobatches(const PipelineShape& shape) {
  return shape.chunks > 1 ? shape.stages : 1;
}
int RoundActions(const PipelineShape& shape) {
  return 2 * shape.chunks * RoundMicrobatches(shape);
}

// Time of one more round if the run has become periodic: every action of the
// last rounds before the stages empty, enough of them to determine all later
// ones, ended the same time after its counterpart a round earlier. Otherwise
// < 0.
// Precondition: at least 6 stages + 2 microbatches, which are more rounds.
double RoundTime(const PipelineShape& shape, const Run& run) {
  constexpr double kRounding = 1e-12;
  const int round = RoundActions(shape);
  // An action depends on at most the microbatches in flight.
  const int window = 2 * (2 + shape.chunks) * shape.stages + round;
  const int last = run.LastAlternating(0);
  const double round_s = run.At(0, last).end_s - run.At(0, last - round).end_s;
  for (int stage = 0; stage < shape.stages; ++stage) {
    const int stage_last = run.LastAlternating(stage);
    for (int i = stage_last; i > stage_last - window; --i) {
      const double end_s = run.At(stage, i).end_s;
      const double step_s = end_s - run.At(stage, i - round).end_s;
      if (std::abs(step_s - round_s) > kRounding * end_s) {
        return -1.0;
      }
    }
  }
  return round_s;
}

// Adds `rounds` rounds of `round_s` to every stage.
void AddRounds(const PipelineShape& shape, const PipelineTimes& times,
               int rounds, double round_s, Run& run) {
  for (int s = 0; s < shape.stages; ++s) {
    StageTimeline& timeline = run.timelines()[s];
    double busy_s = 0.0;  // of one microbatch
    for (int v = s; v < shape.chunks * shape.stages; v += shape.stages) {
      busy_s += times.forward_s[v] + times.backward_s[v];
    }
    const int last = run.LastAlternating(s);
    const double transfer_s = run.At(s, last).transfer_s -
                              run.At(s, last - RoundActions(shape)).transfer_s;
    timeline.end_s += rounds * round_s;
    timeline.busy_s += rounds * RoundMicrobatches(shape) * busy_s;
    timeline.transfer_s += rounds * transfer_s;
    timeline.bubble_s =
        std::max(0.0, timeline.end_s - timeline.busy_s - timeline.transfer_s);
  }
}

}  // namespace

std::vector<StageTimeline> RunPipeline(const PipelineShape& shape,
                                       const PipelineTimes& times) {
  CheckShape(shape);
  // A run that fills all stages for a while; a longer one if they have not
  // settled. A split backward pass is run whole.
  const int round = RoundMicrobatches(shape);
  PipelineShape shorter = shape;
  shorter.microbatches = 6 * shape.stages + 2;
  for (int attempt = 0; attempt < 2 && !shape.zero_bubble; ++attempt) {
    shorter.microbatches = (shorter.microbatches + round - 1) / round * round;
    if (2 * shorter.microbatches > shape.microbatches) {
      break;
    }
    const int left = shape.microbatches - shorter.microbatches;
    if (left % round == 0) {
      Run run(shorter, times);
      run.Execute();
      const double round_s = RoundTime(shorter, run);
      if (round_s >= 0.0) {
        AddRounds(shorter, times, left / round, round_s, run);
        return std::move(run.timelines());
      }
    }
    shorter.microbatches *= 3;
  }
  Run run(shape, times);
  run.Execute();
  return std::move(run.timelines());
}

PipelineRecord RecordPipeline(const PipelineShape& shape,
                              const PipelineTimes& times) {
  CheckShape(shape);
  Run run(shape, times);
  run.Execute();
  PipelineRecord record(shape.stages);
  const int last = shape.stages * shape.chunks - 1;
  for (int s = 0; s < shape.stages; ++s) {
    Mark before{0.0, 0.0};
    for (int i = 0; i < ActionCount(shape); ++i) {
      const Action action = ActionAt(shape, s, i);
      const int v = action.chunk * shape.stages + s;
      const Mark& mark = run.At(s, i);
      const bool sends =
          !times.overlap && !action.weights && v != (action.forward ? last : 0);
      const double send_s = !sends ? 0.0
                            : action.forward
                                ? times.send_forward_s[s]
                                : times.send_backward_s[(v - 1) % shape.stages];
      const double duration_s = action.weights   ? times.weights_s[s]
                                : action.forward ? times.forward_s[v]
                                                 : times.backward_s[v];
      const double end_s = mark.end_s - send_s;
      record[s].push_back(
          {action, std::max(before.end_s, end_s - duration_s), end_s,
           std::max(0.0, mark.transfer_s - before.transfer_s - send_s),
           mark.end_s});
      before = mark;
    }
  }
  return record;
}

void MarkCriticalPath(const PipelineShape& shape, int stage,
                      PipelineRecord& record) {
  constexpr double kRounding = 1e-9;
  std::map<std::tuple<bool, int, int>, int> places;  // of actions with inputs
  for (int s = 0; s < shape.stages; ++s) {
    for (int i = 0; i < ActionCount(shape); ++i) {
      const Action& action = record[s][i].action;
      if (!action.weights) {
        places[{action.forward, action.chunk * shape.stages + s,
                action.microbatch}] = i;
      }
    }
  }
  int i = ActionCount(shape) - 1;
  while (i >= 0) {
    ActionRecord& one = record[stage][i];
    one.critical = true;
    const double ready_s = i > 0 ? record[stage][i - 1].free_s : 0.0;
    if (one.begin_s - ready_s <= kRounding * one.end_s) {
      --i;
      continue;
    }
    const Action& action = one.action;
    const int v =
        action.chunk * shape.stages + stage + (action.forward ? -1 : 1);
    stage = v % shape.stages;
    i = places.at({action.forward, v, action.microbatch});
  }
}

double PeakActivationBytes(const PipelineShape& shape, int stage,
                           const std::vector<double>& saved_bytes_per_chunk) {
  CheckShape(shape);
  if (shape.chunks == 1) {  // those of its warm-up, one, and delayed weights
    return saved_bytes_per_chunk.front() *
           std::min(shape.microbatches,
                    shape.stages - (shape.zero_bubble ? 0 : stage));
  }
  // The k-th forward of StageActions, and after the warm-up a backward. What is
  // saved repeats with every round of the alternation.
  const int round = shape.stages * shape.chunks;
  const int warmup = WarmupActions(shape, stage);
  const int forwards =
      std::min(shape.microbatches * shape.chunks, warmup + round);
  double bytes = 0.0;
  double peak_bytes = 0.0;
  for (int k = 0; k < forwards; ++k) {
    bytes += saved_bytes_per_chunk[k % round / shape.stages];
    peak_bytes = std::max(peak_bytes, bytes);
    if (k >= warmup) {
      const int chunk = (k - warmup) % round / shape.stages;
      bytes -= saved_bytes_per_chunk[shape.chunks - 1 - chunk];
    }
  }
  return peak_bytes;
}

}  // namespace trials
