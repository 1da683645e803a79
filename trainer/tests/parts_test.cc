// The communicator of threads, and matrix products of the CPU.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "trainer/communicator_threads.h"
#include "trainer/device_cpu.h"
#include "trainer/gemm_cpu.h"

namespace trainer::parts_test {

// Runs `work` on each of n ranks in a group.
template <typename Work>
void OnRanks(int n, bool own_stream, Work work) {
  ThreadFabric fabric(10.0);
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
          static_cast<std::int64_t>(numbers.size()), sizeof(double)};
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
      // Of 6 numbers that are sent, and 3, 6 and 9 that are received.
      const Traffic& exchanged = group.traffic().at("all-to-all");
      EXPECT_EQ(exchanged.calls, 1);
      EXPECT_EQ(exchanged.bytes, 8 * std::max(6, 3 * (rank + 1)));
      EXPECT_EQ(group.traffic().at("all-reduce").calls, 2);
      EXPECT_EQ(group.traffic().at("all-reduce").bytes, 8 * (3 + 1));
      EXPECT_EQ(group.traffic().at("reduce-scatter").bytes, 8 * 6);
      EXPECT_EQ(group.traffic().at("all-gather").bytes, 8 * 6);
    });
  }
}

// In the order of the calls, whichever side is first.
TEST(ThreadCommunicator, MessagesOfAPairArriveInOrder) {
  OnRanks(2, false, [](int rank, Communicator& group) {
    for (const int sender : {0, 1}) {
      std::vector<std::vector<double>> data = {{1.0}, {2.0}, {3.0}};
      std::vector<EventPtr> events;
      for (std::vector<double>& message : data) {
        if (rank == sender) {
          events.push_back(group.Send(View(message), 1 - rank));
        } else {
          message[0] = 0.0;
          events.push_back(group.Receive(View(message), 1 - rank));
        }
      }
      for (const EventPtr& event : events) {
        Wait(event);
      }
      EXPECT_EQ(data, (std::vector<std::vector<double>>{{1.0}, {2.0}, {3.0}}));
    }
    EXPECT_EQ(group.traffic().at("send").bytes, 3 * 8);
    EXPECT_EQ(group.traffic().at("receive").calls, 3);
  });
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
  ThreadFabric fabric(60.0);
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

TEST(ThreadFabric, TheFirstReasonCountsButOutOfMemoryExplainsAFailure) {
  using Reasons = std::vector<EndReason>;
  constexpr EndReason kStopped = EndReason::kStopped;
  constexpr EndReason kFailed = EndReason::kFailed;
  constexpr EndReason kOutOfMemory = EndReason::kOutOfMemory;
  const auto end = [](const Reasons& reasons) {
    ThreadFabric fabric(1.0);
    for (const EndReason reason : reasons) {
      fabric.Abort(reason, reason == reasons.front() ? "first" : "later");
    }
    return std::pair(fabric.end_reason(), fabric.end_message());
  };
  EXPECT_EQ(end({}), std::pair(EndReason::kNone, std::string()));
  EXPECT_EQ(end({kStopped, kOutOfMemory}),
            std::pair(kStopped, std::string("first")));
  EXPECT_EQ(end({kFailed, kStopped}), std::pair(kFailed, std::string("first")));
  EXPECT_EQ(end({kOutOfMemory, kFailed}),
            std::pair(kOutOfMemory, std::string("first")));
  EXPECT_EQ(end({kFailed, kOutOfMemory}),
            std::pair(kOutOfMemory, std::string("later")));
}

// The first one has arrived when it is aborted, and must not count for the
// second one.
TEST(ThreadCommunicator, QueuedOperationsEndWithTheTrial) {
  ThreadFabric fabric(60.0);
  const auto device = MakeCpuDevice(CpuPrecision::kDouble);
  auto group = fabric.Group(0, "all", {0, 1}, true, *device);
  std::vector<double> first = {1.0, 1.0};
  std::vector<double> second = {2.0, 2.0};
  const EventPtr events[] = {group->AllReduce(View(first), Reduction::kSum),
                             group->AllReduce(View(second), Reduction::kSum)};
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  fabric.Abort(EndReason::kFailed, "by the test");
  for (const EventPtr& event : events) {
    EXPECT_THROW(Wait(event), Aborted);
  }
  group.reset();  // waits for its thread
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
      ASSERT_NEAR(static_cast<double>(product[i * s.ldc + j]), expected,
                  tolerance);
    }
  }
}

// Ranks are threads, and each has a core.
TEST(Gemm, LibrariesUseOneThread) {
  UseOneThread();
  for (const char* name : {"openblas_get_num_threads", "omp_get_max_threads"}) {
    const auto threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, name));
    if (threads != nullptr) {  // the library is in use
      EXPECT_EQ(threads(), 1) << name;
    }
  }
}

TEST(Gemm, LibrariesAndLoopComputeTheProduct) {
  UseOneThread();
  for (const int transposed : {0, 1, 2, 3}) {
    for (const double beta : {0.0, 1.0, 0.5, 0.1, 1.1, 2.0}) {
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

}  // namespace trainer::parts_test
