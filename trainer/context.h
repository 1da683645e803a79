// What the parts of a model need of their rank.

#pragma once

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "trainer/arena.h"
#include "trainer/communicator.h"
#include "trainer/device.h"
#include "trainer/job.h"
#include "trainer/mesh.h"
#include "trials/model.h"
#include "trials/parallel_config.h"

namespace trainer {

// The data of a microbatch on this rank: int32 tokens and labels [tokens], or
// patches [tokens, patch_size] and a label per token (-1: none).
struct Batch {
  Array tokens, labels, patches;
};

// When something began and ended, in seconds since the trial began.
struct Span {
  const char* what = "";  // forward, backward, update, wait for receive, ...
  int step = 0, microbatch = -1, chunk = -1;
  double begin_s = 0.0, end_s = 0.0;
};

class Timeline {
 public:
  // Records the time that work() takes.
  template <typename Work>
  void Time(const char* what, int microbatch, int chunk, Work work) {
    Span span{what, step, microbatch, chunk, Now(), 0.0};
    work();
    span.end_s = Now();
    if (enabled) {
      spans.push_back(span);
    }
  }
  void TimeWait(const char* what, const EventPtr& event) {
    if (event != nullptr) {
      Time(what, -1, -1, [&event] { event->Wait(); });
    }
  }
  [[nodiscard]] double Now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         origin)
        .count();
  }

  bool enabled = false;
  int step = 0;
  std::chrono::steady_clock::time_point origin =
      std::chrono::steady_clock::now();
  std::vector<Span> spans;
};

// Shapes: a microbatch has `sequences`; the rank has `length` tokens of each,
// from position `offset`: tokens = sequences * length. Where norms and
// residuals split a sequence over the tp ranks (sp > 1), the rank's shard of a
// microbatch is rows shard_begin .. shard_begin + shard_tokens of these.
struct Context {
  Device& device;
  Arena& arena;
  Mesh mesh;
  trials::Model model;
  ModelConstants constants;
  trials::ParallelConfig config;
  std::int64_t bucket_unit_bytes = 1 << 20;
  // Null for a group of one rank.
  Communicator* tp = nullptr;
  Communicator* cp = nullptr;
  Communicator* ep = nullptr;

  std::int64_t sequences = 0, length = 0, offset = 0, tokens = 0;
  std::int64_t shard_tokens = 0, shard_begin = 0;
  double loss_scale = 1.0;  // 1 / number of labels of a step
  Tensor loss;              // wide [1]: sum over the labels of this rank
  Tensor rotary;            // wide [positions, head_size], see Device::Rotate
  Timeline timeline = {};

  [[nodiscard]] bool splits_sequence() const { return config.sp > 1; }
  [[nodiscard]] Array New(std::int64_t size,
                          Region region = Region::kActivations) const {
    return {arena, region, size, device.width()};
  }
  [[nodiscard]] Array NewWide(std::int64_t size,
                              Region region = Region::kActivations) const {
    return {arena, region, size, device.wide_width()};
  }
  [[nodiscard]] Array NewIndices(std::int64_t size,
                                 Region region = Region::kActivations) const {
    return {arena, region, size, sizeof(std::int32_t)};
  }

  // y [rows, outputs] = x [rows, inputs] weight^T + bias (or empty).
  void Linear(std::int64_t rows, std::int64_t inputs, std::int64_t outputs,
              Tensor x, Tensor weight, Tensor y, Tensor bias = {}) const {
    device.Gemm({.transpose_b = true,
                 .m = rows,
                 .n = outputs,
                 .k = inputs,
                 .lda = inputs,
                 .ldb = inputs,
                 .ldc = outputs},
                x, weight, y, bias);
  }
  // dweight += dy^T x, dx = dy weight + beta dx.
  void LinearBackward(std::int64_t rows, std::int64_t inputs,
                      std::int64_t outputs, Tensor dy, Tensor x, Tensor weight,
                      Tensor dweight, Tensor dx, double beta = 0.0) const {
    device.Gemm({.transpose_a = true,
                 .m = outputs,
                 .n = inputs,
                 .k = rows,
                 .lda = outputs,
                 .ldb = inputs,
                 .ldc = inputs,
                 .beta = 1.0},
                dy, x, dweight, {});
    device.Gemm({.m = rows,
                 .n = inputs,
                 .k = outputs,
                 .lda = outputs,
                 .ldb = inputs,
                 .ldc = inputs,
                 .beta = beta},
                dy, weight, dx, {});
  }

  // All tokens from the rank's shard; empty where they are the same, so that
  // callers use All(gathered, x).
  [[nodiscard]] Array GatherTokens(Tensor x) const {
    if (!splits_sequence()) {
      return {};
    }
    Array all = New(x.size * config.tp, Region::kWorkspace);
    Wait(tp->AllGather(x, all.get()));
    return all;
  }
  [[nodiscard]] static Tensor All(const Array& gathered, Tensor x) {
    return gathered.empty() ? x : gathered.get();
  }
  // The sum over the tp ranks of x [tokens, ...]; the rank's shard of it where
  // sequences are split.
  [[nodiscard]] Array ReduceTokens(Array x) const {
    if (tp == nullptr) {
      return x;
    }
    if (!splits_sequence()) {
      Wait(tp->AllReduce(x.get(), Reduction::kSum));
      return x;
    }
    Array part = New(x.get().size / config.tp);
    Wait(tp->ReduceScatter(x.get(), part.get()));
    return part;
  }
};

}  // namespace trainer
