// Host time of the calls of a communicator, in a process per rank:
//   nccl_calls MODULE RANKS
// MODULE is libtrainer_cuda.so, or libtrainer_emulated.so with its stand-in for
// NCCL. With one rank, nothing is transferred.

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include <dlfcn.h>
#include <unistd.h>

#include "trainer/module.h"

int main(int argc, char** argv) {
  const int ranks = argc == 3 ? std::atoi(argv[2]) : 0;
  const std::string rendezvous = fmt::format("/tmp/nccl-calls-{}", ::getpid());
  int rank = 0;
  while (rank < ranks - 1 && ::fork() == 0) {
    ++rank;
  }
  void* module = ranks < 1 ? nullptr : ::dlopen(argv[1], RTLD_NOW);
  const char* error =
      ranks < 1 ? "usage: nccl_calls MODULE RANKS" : ::dlerror();
  trainer::Backend* backend = nullptr;
  if (module != nullptr) {
    backend = reinterpret_cast<trainer::ModuleEntry>(
        ::dlsym(module, trainer::kModuleEntry))(
        {ranks, rank, 1, "nccl", rendezvous}, &error);
  }
  if (backend == nullptr) {
    fmt::print(stderr, "{}\n", error);
    return 2;
  }
  const auto device = backend->MakeDevice(rank);
  std::vector<int> members(ranks);
  std::iota(members.begin(), members.end(), 0);
  trainer::Fabric& fabric = backend->fabric();
  const auto group = fabric.Group(rank, "all", members, false, *device);
  const auto pipeline = fabric.Pipeline(rank, "pipeline", members, *device);
  const trainer::Tensor all{device->Reserve(8192L * ranks), 128 * ranks, 4};
  const auto part = all.Slice(0, 64), full = all.Slice(0, 64 * ranks);
  const auto other = all.From(64 * ranks);
  const std::vector<std::int64_t> counts(ranks, 64);
  std::vector<std::int64_t> received(ranks);
  std::vector<double> sums(1);
  const auto time = [&](const char* name, const auto& call) {
    constexpr int kCalls = 500;
    group->SumOnHost(sums);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) {
      call();
    }
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - begin;
    device->Synchronize();
    if (rank == 0) {
      fmt::print("{:20} {:8.1f} us\n", name, taken.count() / kCalls);
    }
  };
  time("all-reduce", [&] { group->AllReduce(part, trainer::Reduction::kSum); });
  time("reduce-scatter", [&] { group->ReduceScatter(full, part); });
  time("all-gather", [&] { group->AllGather(part, full); });
  time("all-to-all", [&] { group->AllToAll(full, counts, other, counts); });
  time("sum on the host", [&] { group->SumOnHost(sums); });
  time("exchange on the host",
       [&] { group->ExchangeOnHost(counts, received); });
  if (ranks > 1) {  // to the next rank, and from the one before
    time("send and receive", [&] {
      const auto sends = pipeline->Send(part, (rank + 1) % ranks);
      Wait(pipeline->Receive(other.Slice(0, 64), (rank + ranks - 1) % ranks));
      Wait(sends);
    });
  }
  std::fflush(stdout);
  std::_Exit(0);  // threads of the module do not end
}
