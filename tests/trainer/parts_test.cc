// The communicator of threads, schedules and operators of the CPU.

#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trials/trainer/communicator_threads.h"
#include "trials/trainer/device_cpu.h"
#include "trials/trainer/gemm_cpu.h"
#include "trials/trainer/schedule.h"

namespace trials::trainer {
namespace {

// Runs `work` on each of n ranks in a group.
template <typename Work>
void OnRanks(int n, bool own_stream, Work work) {
  ThreadFabric fabric(n, 10.0);
  std::vector<int> members(n);
  std::iota(members.begin(), members.end(), 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      const auto device = MakeCpuDevice(CpuPrecision::kDouble);
      const auto group =
          fabric.Group(rank, "all", members, own_stream, *device);
      work(rank, *group);
      double nothing = 0.0;
      if (!own_stream) {
        group->SumOnHost({&nothing, 1});
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

Tensor View(std::vector<double>& numbers) {
  return {reinterpret_cast<std::byte*>(numbers.data()),
          static_cast<std::int64_t>(numbers.size()),
          sizeof(double)};
}

TEST(ThreadCommunicator, CollectivesGiveWhatTheirNamesSay) {
  for (const bool own_stream : {false, true}) {
    OnRanks(3, own_stream, [](int rank, Communicator& group) {
      std::vector<double> sum = {1.0 + rank, 10.0, -rank * 1.0};
      Wait(group.AllReduce(View(sum), Reduction::kSum));
      EXPECT_EQ(sum, (std::vector<double>{6.0, 30.0, -3.0}));
      std::vector<double> max = {1.0 * rank};
      Wait(group.AllReduce(View(max), Reduction::kMax));
      EXPECT_EQ(max[0], 2.0);
      std::vector<double> full = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0};
      std::vector<double> part(2);
      Wait(group.ReduceScatter(View(full), View(part)));
      EXPECT_EQ(part, (std::vector<double>{6.0 * rank + 3, 6.0 * rank + 6}));
      Wait(group.AllGather(View(part), View(full)));
      EXPECT_EQ(full, (std::vector<double>{3, 6, 9, 12, 15, 18}));
      std::vector<double> data = {7.0 + rank};
      Wait(group.Broadcast(View(data), 1));
      EXPECT_EQ(data[0], 8.0);
      // Rank r sends i + 1 copies of 10 r + i to rank i.
      std::vector<double> from;
      for (int i = 0; i < 3; ++i) {
        from.insert(from.end(), i + 1, 10.0 * rank + i);
      }
      std::vector<double> to(3 * (rank + 1));
      const std::vector<std::int64_t> sent = {1, 2, 3};
      const std::vector<std::int64_t> received(3, rank + 1);
      Wait(group.AllToAll(View(from), sent, View(to), received));
      EXPECT_EQ(to.front(), rank);
      EXPECT_EQ(to.back(), 20.0 + rank);
    });
  }
}

TEST(ThreadCommunicator, SendsDoNotWaitForReceives) {
  OnRanks(2, false, [](int rank, Communicator& group) {
    std::vector<double> out = {1.0 * rank};
    std::vector<double> in = {-1.0};
    const EventPtr sent = group.Send(View(out), 1 - rank);  // both send first
    Wait(group.Receive(View(in), 1 - rank));
    Wait(sent);
    EXPECT_EQ(in[0], 1.0 - rank);
  });
}

TEST(ThreadCommunicator, AWaitEndsWhenTheTrialIsAborted) {
  ThreadFabric fabric(2, 60.0);
  const auto device = MakeCpuDevice(CpuPrecision::kDouble);
  const auto group = fabric.Group(0, "all", {0, 1}, false, *device);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fabric.Abort(EndReason::kFailed, "first");
    fabric.Abort(EndReason::kOutOfMemory, "second");
    fabric.Abort(EndReason::kStopped, "third");
  });
  std::vector<double> data = {1.0};
  EXPECT_THROW(Wait(group->AllReduce(View(data), Reduction::kSum)), Aborted);
  other.join();
  EXPECT_EQ(fabric.end_reason(), EndReason::kOutOfMemory);
}

// Runs all stages: an action starts when what it needs is done.
bool Completes(int stages, int microbatches, int chunks) {
  std::vector<std::vector<Action>> schedules;
  for (int stage = 0; stage < stages; ++stage) {
    schedules.push_back(Schedule(stages, stage, microbatches, chunks));
  }
  std::set<std::tuple<bool, int, int>> done;  // forward, microbatch, part
  std::vector<std::size_t> next(stages, 0);
  bool moved = true;
  while (moved) {
    moved = false;
    for (int stage = 0; stage < stages; ++stage) {
      if (next[stage] == schedules[stage].size()) {
        continue;
      }
      const Action& a = schedules[stage][next[stage]];
      const int part = a.chunk * stages + stage;
      const int last = stages * chunks - 1;
      const bool ready =
          a.forward ? part == 0 || done.contains({true, a.microbatch, part - 1})
          : part == last ? done.contains({true, a.microbatch, part})
                         : done.contains({false, a.microbatch, part + 1}) &&
                               done.contains({true, a.microbatch, part});
      if (ready) {
        done.insert({a.forward, a.microbatch, part});
        ++next[stage];
        moved = true;
      }
    }
  }
  return done.size() ==
         static_cast<std::size_t>(2 * microbatches * stages * chunks);
}

TEST(Schedule, CompletesEveryMicrobatchOnce) {
  for (const int stages : {1, 2, 3, 4, 8}) {
    for (const int microbatches : {1, 2, 8, 11}) {
      EXPECT_TRUE(Completes(stages, microbatches, 1))
          << stages << " " << microbatches;
    }
    for (const int chunks : {2, 3, 4}) {
      EXPECT_TRUE(Completes(stages, 2 * stages, chunks))
          << stages << " " << chunks;
    }
  }
}

TEST(Schedule, RejectsInterleavingWithUnevenMicrobatches) {
  EXPECT_THROW((void)Schedule(4, 0, 6, 2), std::invalid_argument);
}

// The product of both libraries and of the loop against its definition.
template <typename T, typename Gemm>
void ExpectProduct(const GemmShape& s, Gemm gemm, double tolerance) {
  std::vector<T> a(s.m * s.k);
  std::vector<T> b(s.k * s.n);
  std::vector<T> c(s.m * s.n);
  for (auto* numbers : {&a, &b, &c}) {
    for (std::size_t i = 0; i < numbers->size(); ++i) {
      (*numbers)[i] = static_cast<T>(std::sin(1.7 * static_cast<double>(i)));
    }
  }
  std::vector<T> product = c;
  gemm(s, a.data(), b.data(), product.data());
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = 0.0;
      for (std::int64_t p = 0; p < s.k; ++p) {
        sum += static_cast<double>(s.transpose_a ? a[p * s.lda + i]
                                                 : a[i * s.lda + p]) *
               static_cast<double>(s.transpose_b ? b[j * s.ldb + p]
                                                 : b[p * s.ldb + j]);
      }
      const double expected =
          s.alpha * sum + s.beta * static_cast<double>(c[i * s.ldc + j]);
      ASSERT_NEAR(
          static_cast<double>(product[i * s.ldc + j]), expected, tolerance);
    }
  }
}

TEST(Gemm, LibrariesAndLoopComputeTheProduct) {
  UseOneThread();
  for (const int transposed : {0, 1, 2, 3}) {
    for (const double beta : {0.0, 1.0, 0.5}) {
      GemmShape s{.transpose_a = (transposed & 1) != 0,
                  .transpose_b = (transposed & 2) != 0,
                  .m = 7,
                  .n = 530,
                  .k = 19,
                  .alpha = 0.25,
                  .beta = beta};
      s.lda = s.transpose_a ? s.m : s.k;
      s.ldb = s.transpose_b ? s.k : s.n;
      s.ldc = s.n;
      const auto library = [](const auto&... of) { CpuGemm(of...); };
      const auto loop = [](const auto&... of) { LoopGemm(of...); };
      ExpectProduct<float>(s, library, 1e-5);
      ExpectProduct<double>(s, library, 1e-13);
      ExpectProduct<float>(s, loop, 1e-5);
      ExpectProduct<double>(s, loop, 1e-13);
    }
  }
}

}  // namespace
}  // namespace trials::trainer
