#include "trials/simulator/pipeline.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace trials::pipeline_test {

constexpr double kForward_s = 1.0;
constexpr double kBackward_s = 2.0;

// All virtual stages alike, transfers of `send_s`.
PipelineTimes Uniform(const PipelineShape& shape, double send_s = 0.0) {
  PipelineTimes times;
  times.forward_s.assign(shape.stages * shape.chunks, kForward_s);
  times.backward_s.assign(times.forward_s.size(), kBackward_s);
  times.send_forward_s.assign(shape.stages, send_s);
  times.send_backward_s = times.send_forward_s;
  return times;
}

double End(const std::vector<StageTimeline>& stages) {
  double end_s = 0.0;
  for (const StageTimeline& stage : stages) {
    end_s = std::max(end_s, stage.end_s);
  }
  return end_s;
}

// Runs every action of every stage, one after the other. A stage that waits for
// its input is in a bubble until the input is sent.
std::vector<StageTimeline> RunAllActions(const PipelineShape& shape,
                                         const PipelineTimes& times) {
  const int all = shape.stages * shape.chunks;
  const auto index = [&](int v, int m) {
    return static_cast<std::size_t>(v * shape.microbatches + m);
  };
  std::vector<double> hidden(all * shape.microbatches, -1.0);
  std::vector<double> gradient = hidden;
  for (int m = 0; m < shape.microbatches; ++m) {
    hidden[index(0, m)] = 0.0;
  }
  std::vector<StageTimeline> timelines(shape.stages);
  std::vector<std::size_t> next(timelines.size(), 0);
  std::vector<std::vector<Action>> lists;
  for (int s = 0; s < shape.stages; ++s) {
    lists.push_back(StageActions(shape, s));
  }
  for (bool progress = true; progress;) {
    progress = false;
    for (int s = 0; s < shape.stages; ++s) {
      const auto stage = static_cast<std::size_t>(s);
      while (next[stage] < lists[stage].size()) {
        const Action& action = lists[stage][next[stage]];
        const int v = action.chunk * shape.stages + s;
        const double arrival_s =
            (action.forward ? hidden : gradient)[index(v, action.microbatch)];
        if (arrival_s < 0.0) {
          break;
        }
        // From the stage before (behind), unless the input is data or a loss.
        const auto incoming_s = [&](bool forward, int to) {
          if (to == (forward ? 0 : all - 1)) {
            return 0.0;
          }
          const int last = shape.stages - 1;
          const int stage_of = to % shape.stages;
          return forward
                     ? times.send_forward_s[stage_of == 0 ? last : stage_of - 1]
                     : times.send_backward_s[stage_of];
        };
        StageTimeline& own = timelines[stage];
        const double arrives_in_s = incoming_s(action.forward, v);
        const double wait_s = std::max(0.0, arrival_s - own.end_s);
        own.transfer_s += std::min(wait_s, arrives_in_s);
        own.bubble_s += std::max(0.0, wait_s - arrives_in_s);
        own.end_s += wait_s;
        if (next[stage] == 0) {
          own.begin_s = own.end_s;
        }
        const double duration_s =
            (action.forward ? times.forward_s : times.backward_s)[v];
        own.busy_s += duration_s;
        own.end_s += duration_s;
        const int to = action.forward ? v + 1 : v - 1;
        if (action.forward && to == all) {
          gradient[index(v, action.microbatch)] = own.end_s;
        } else if (to >= 0) {
          const double send_s = incoming_s(action.forward, to);
          (action.forward ? hidden : gradient)[index(to, action.microbatch)] =
              own.end_s + send_s;
          own.transfer_s += times.overlap ? 0.0 : send_s;
          own.end_s += times.overlap ? 0.0 : send_s;
        }
        ++next[stage];
        progress = true;
      }
    }
  }
  return timelines;
}

void ExpectSame(const std::vector<StageTimeline>& actual,
                const std::vector<StageTimeline>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  const double tolerance_s = 1e-9 * End(expected);
  for (std::size_t s = 0; s < expected.size(); ++s) {
    EXPECT_NEAR(actual[s].begin_s, expected[s].begin_s, tolerance_s) << s;
    EXPECT_NEAR(actual[s].end_s, expected[s].end_s, tolerance_s) << s;
    EXPECT_NEAR(actual[s].busy_s, expected[s].busy_s, tolerance_s) << s;
    EXPECT_NEAR(actual[s].transfer_s, expected[s].transfer_s, tolerance_s) << s;
    EXPECT_NEAR(actual[s].bubble_s, expected[s].bubble_s, tolerance_s) << s;
    EXPECT_NEAR(actual[s].end_s,
                actual[s].busy_s + actual[s].transfer_s + actual[s].bubble_s,
                tolerance_s);
  }
}

TEST(Pipeline, EndsAsIfEveryActionHadRun) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> time_s(0.5, 1.0);
  for (const int stages : {1, 2, 3, 4, 8}) {
    for (const int chunks : {1, 2, 3}) {
      for (const int microbatches :
           {1, 2, 7, stages, 5 * stages, 40 * stages, 80 * stages}) {
        if (chunks > 1 && microbatches % stages != 0) {
          continue;
        }
        for (const bool overlap : {false, true}) {
          for (const bool unequal : {false, true}) {
            const PipelineShape shape{stages, microbatches, chunks};
            PipelineTimes times = Uniform(shape, 0.05);
            times.overlap = overlap;
            if (unequal) {
              for (auto* each : {&times.forward_s, &times.backward_s}) {
                for (double& time : *each) {
                  time = time_s(random);
                }
              }
              for (auto* each :
                   {&times.send_forward_s, &times.send_backward_s}) {
                for (double& time : *each) {
                  time = 0.1 * time_s(random);
                }
              }
            }
            SCOPED_TRACE(testing::Message()
                         << stages << " stages, " << microbatches
                         << " microbatches, " << chunks << " chunks");
            ExpectSame(RunPipeline(shape, times), RunAllActions(shape, times));
          }
        }
      }
    }
  }
}

TEST(RecordedPipeline, HasEveryActionAndTheWaitingOfTheRun) {
  for (const PipelineShape& shape :
       {PipelineShape{1, 3, 1}, PipelineShape{4, 50, 1}, PipelineShape{3, 6, 2},
        PipelineShape{4, 9, 1, true}}) {
    for (const bool overlap : {false, true}) {
      PipelineTimes times = Uniform(shape, 0.3);
      times.overlap = overlap;
      times.forward_s.back() *= 1.2;
      times.weights_s.assign(shape.stages, 0.7);
      const auto expected = RunPipeline(shape, times);
      const PipelineRecord record = RecordPipeline(shape, times);
      for (int s = 0; s < shape.stages; ++s) {
        std::vector<Action> actions;
        StageTimeline own;
        double free_s = 0.0;
        for (const ActionRecord& one : record[s]) {
          actions.push_back(one.action);
          own.busy_s += one.end_s - one.begin_s;
          own.transfer_s += one.received_s + one.free_s - one.end_s;
          own.bubble_s += one.begin_s - free_s - one.received_s;
          free_s = one.free_s;
        }
        EXPECT_EQ(actions, StageActions(shape, s));
        EXPECT_NEAR(free_s, expected[s].end_s, 1e-9);
        EXPECT_NEAR(own.busy_s, expected[s].busy_s, 1e-9);
        EXPECT_NEAR(own.transfer_s, expected[s].transfer_s, 1e-9);
        EXPECT_NEAR(own.bubble_s, expected[s].bubble_s, 1e-9);
      }
    }
  }
}

TEST(RecordedPipeline, TheCriticalPathHasNoOtherGapsThanTransfers) {
  for (const PipelineShape& shape :
       {PipelineShape{1, 3, 1}, PipelineShape{4, 50, 1}, PipelineShape{3, 6, 2},
        PipelineShape{4, 9, 1, true}}) {
    constexpr double kSend_s = 0.3;
    PipelineTimes times = Uniform(shape, kSend_s);
    times.forward_s.back() *= 1.2;
    times.weights_s.assign(shape.stages, 0.7);
    PipelineRecord record = RecordPipeline(shape, times);
    MarkCriticalPath(shape, 0, record);
    std::vector<ActionRecord> path;
    for (const auto& stage : record) {
      std::ranges::copy_if(stage, std::back_inserter(path),
                           &ActionRecord::critical);
    }
    std::ranges::sort(path, {}, &ActionRecord::begin_s);
    EXPECT_EQ(path.front().begin_s, 0.0);
    for (std::size_t i = 1; i < path.size(); ++i) {
      const double gap_s = path[i].begin_s - path[i - 1].end_s;
      EXPECT_GE(gap_s, -1e-9);
      EXPECT_LE(gap_s, kSend_s + 1e-9);
    }
    EXPECT_NEAR(path.back().free_s, record.front().back().free_s, 1e-9);
  }
}

// The arrays of a run of all actions would need 512 GB. Whole rounds are added
// up in any unit of time, and for any number of microbatches of one chunk.
TEST(Pipeline, ABillionMicrobatchesAreNotRunOneByOne) {
  constexpr int kMicrobatches = 1'000'000'000;
  constexpr int kStages = 64;
  for (const int chunks : {1, 2}) {
    const PipelineShape shape{
        kStages, chunks == 1 ? kMicrobatches + 1 : kMicrobatches, chunks};
    EXPECT_EQ(End(RunPipeline(shape, Uniform(shape))),
              (1.0 * shape.microbatches * chunks + kStages - 1) *
                  (kForward_s + kBackward_s));
    for (const double unit : {1.0, 1e-6 / 3.0, 1e6 / 3.0}) {
      const auto end = [&](PipelineTimes times) {
        for (auto* each : {&times.forward_s, &times.backward_s}) {
          for (double& time_s : *each) {
            time_s *= unit;
          }
        }
        return End(RunPipeline(shape, times)) / unit;
      };
      // A slow stage delays each microbatch by 1 s and 2 s.
      PipelineTimes times = Uniform(shape);
      times.forward_s[5] += 1.0;
      times.backward_s[5] += 2.0;
      EXPECT_NEAR(end(times) / (kMicrobatches * (3.0 * chunks + 3.0)), 1.0,
                  1e-6);
      // A stage that is only 1% slower sets the pace later.
      times.forward_s[5] = 1.03 * kForward_s;
      times.backward_s[5] = kBackward_s;
      EXPECT_NEAR(end(times) / (kMicrobatches * (3.0 * chunks + 0.03)), 1.0,
                  1e-6);
    }
    // Nor are those of a pipeline that takes no time.
    PipelineTimes nothing = Uniform(shape);
    nothing.forward_s.assign(nothing.forward_s.size(), 0.0);
    nothing.backward_s = nothing.forward_s;
    EXPECT_EQ(End(RunPipeline(shape, nothing)), 0.0);
  }
}

// Two stages, two microbatches, computed manually, forward 1, backward 2,
// sending 1/2: stage 0: F0 0-1, S-1.5, F1 -2.5, S-3, B0 at 5 -7, B1 at 8 -10;
// stage 1: F0 1.5-2.5, B0 -4.5, S-5, F1 5-6, B1 -8, S-8.5. So B1 of stage 0
// waits for 8.5.
TEST(Pipeline, FollowsAScheduleWorkedOutByHand) {
  const PipelineShape shape{2, 2, 1};
  const std::vector<StageTimeline> stages =
      RunPipeline(shape, Uniform(shape, 0.5));
  EXPECT_DOUBLE_EQ(stages[0].begin_s, 0.0);
  EXPECT_DOUBLE_EQ(stages[0].end_s, 10.5);
  EXPECT_DOUBLE_EQ(stages[0].transfer_s, 2.0);
  EXPECT_DOUBLE_EQ(stages[0].bubble_s, 2.5);
  EXPECT_DOUBLE_EQ(stages[1].begin_s, 1.5);
  EXPECT_DOUBLE_EQ(stages[1].end_s, 8.5);
}

// Over all actions. With a split backward pass, only the gradients of weights
// free what a microbatch keeps.
double PeakOfAllActions(const PipelineShape& shape, int stage,
                        const std::vector<double>& saved_bytes) {
  double bytes = 0.0;
  double peak_bytes = 0.0;
  for (const Action& action : StageActions(shape, stage)) {
    const double saved = saved_bytes[action.chunk];
    if (action.forward) {
      bytes += saved;
      peak_bytes = std::max(peak_bytes, bytes);
    } else if (action.weights || !shape.zero_bubble) {
      bytes -= saved;
    }
  }
  EXPECT_EQ(bytes, 0.0);
  return peak_bytes;
}

TEST(Pipeline, ThePeakOfActivationsIsThatOfAllActions) {
  const std::vector<double> saved_bytes = {3.0, 1.0, 5.0, 2.0};
  for (const int stages : {1, 2, 3, 4, 8}) {
    for (const int microbatches : {1, 2, 3, 5, 8, 24, 48}) {
      for (const int chunks : {1, 2, 3, 4}) {
        for (const bool zero_bubble : {false, true}) {
          if (chunks > 1 && (zero_bubble || microbatches % stages != 0)) {
            continue;
          }
          const PipelineShape shape{stages, microbatches, chunks, zero_bubble};
          for (int s = 0; s < stages; ++s) {
            EXPECT_EQ(PeakActivationBytes(shape, s, saved_bytes),
                      PeakOfAllActions(shape, s, saved_bytes))
                << stages << " stages, " << microbatches << " microbatches, "
                << chunks << " chunks, stage " << s;
          }
        }
      }
    }
  }
}

// Qi et al. (2024), Sec. 2: the bubble of ZB-H1 is (p - 1) (tF + tB - tW),
// where tB is the time of the gradients of inputs.
TEST(Pipeline, ZeroBubbleLeavesTheBubbleOfItsPaper) {
  for (const int stages : {2, 4, 8}) {
    for (const int microbatches : {stages, 2 * stages, 4 * stages}) {
      for (const double weights_s : {0.5, 0.8, 1.0}) {
        const PipelineShape shape{stages, microbatches, 1, true};
        PipelineTimes times = Uniform(shape);
        times.backward_s.assign(times.backward_s.size(), 1.2);
        times.weights_s.assign(times.backward_s.size(), weights_s);
        EXPECT_NEAR(End(RunPipeline(shape, times)) -
                        microbatches * (kForward_s + 1.2 + weights_s),
                    (stages - 1) * (kForward_s + 1.2 - weights_s), 1e-9);
      }
    }
  }
}

TEST(Pipeline, ZeroBubbleIsNeverSlowerThanOneForwardOneBackward) {
  std::mt19937 engine(3);
  std::uniform_real_distribution<double> draw(0.5, 1.5);
  for (int i = 0; i < 200; ++i) {
    const int stages = 2 + i % 7;
    const PipelineShape plain{stages, stages * (1 + i % 4), 1};
    PipelineTimes whole = Uniform(plain, 0.1 * (i % 3));
    PipelineTimes split = whole;
    for (std::size_t s = 0; s < whole.forward_s.size(); ++s) {
      whole.forward_s[s] = split.forward_s[s] = draw(engine);
      split.backward_s[s] = draw(engine);
      split.weights_s.push_back(draw(engine));
      whole.backward_s[s] = split.backward_s[s] + split.weights_s[s];
    }
    PipelineShape shape = plain;
    shape.zero_bubble = true;
    EXPECT_LE(End(RunPipeline(shape, split)),
              End(RunPipeline(plain, whole)) + 1e-9)
        << stages << " stages, " << plain.microbatches << " microbatches";
  }
}

}  // namespace trials::pipeline_test
