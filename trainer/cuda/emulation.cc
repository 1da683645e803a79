#include "trainer/cuda/emulation.h"

#include <array>
#include <csetjmp>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include <ucontext.h>

namespace trainer::cuda {
namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;
constexpr unsigned kWarp = 32;

struct Barrier {
  unsigned arrived = 0;
  unsigned size = 0;
  unsigned generation = 0;
};

struct Warp {
  Barrier barrier;
  std::array<std::uint32_t, kWarp> values{};
};

// One thread of the running block. Only its start is a system call: a switch
// between threads is a jump.
struct Fiber {
  ucontext_t context{};
  std::jmp_buf place{};
  std::unique_ptr<unsigned char[]> stack;
  bool started = false;
  bool done = false;
};

struct BlockState {
  const std::function<void()>* body = nullptr;
  std::jmp_buf scheduler{};
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier barrier;
  std::vector<unsigned char> shared;
  unsigned running = 0;
};
thread_local BlockState state;

void RunBody() {
  (*state.body)();
  state.fibers[state.running].done = true;
  _longjmp(state.scheduler, 1);
}

void Yield() {
  Fiber& self = state.fibers[state.running];
  if (_setjmp(self.place) == 0) {
    _longjmp(state.scheduler, 1);
  }
}

// Runs a thread until it waits or ends.
void Resume(unsigned thread) {
  Fiber& fiber = state.fibers[thread];
  state.running = thread;
  threadIdx = {thread, 0, 0};
  if (_setjmp(state.scheduler) != 0) {
    return;
  }
  if (fiber.started) {
    _longjmp(fiber.place, 1);
  }
  fiber.started = true;
  ::setcontext(&fiber.context);
}

void Wait(Barrier& barrier) {
  const unsigned generation = barrier.generation;
  if (++barrier.arrived == barrier.size) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  while (barrier.generation == generation) {
    Yield();
  }
}

void RunBlock(unsigned threads) {
  state.warps.resize((threads + kWarp - 1) / kWarp);
  for (Warp& warp : state.warps) {
    warp.barrier = {0, kWarp, 0};
  }
  state.barrier = {0, threads, 0};
  for (unsigned t = 0; t < threads; ++t) {
    Fiber& fiber = state.fibers[t];
    fiber.started = fiber.done = false;
    ::getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    ::makecontext(&fiber.context, RunBody, 0);
  }
  for (bool any = true; any;) {
    any = false;
    for (unsigned t = 0; t < threads; ++t) {
      if (!state.fibers[t].done) {
        any = true;
        Resume(t);
      }
    }
  }
}

}  // namespace

namespace emulation {

void RunBlocks(unsigned x, unsigned y, unsigned z, unsigned threads,
               std::size_t shared_bytes, const std::function<void()>& body) {
  if (threads == 0 || threads % kWarp != 0 || threads > 1024) {
    throw std::invalid_argument("emulation: a block has whole warps");
  }
  while (state.fibers.size() < threads) {
    state.fibers.emplace_back().stack =
        std::make_unique<unsigned char[]>(kStackBytes);
  }
  state.body = &body;
  state.shared.assign(shared_bytes + 16, 0xff);
  gridDim = {x, y, z};
  blockDim = {threads, 1, 1};
  for (unsigned k = 0; k < z; ++k) {
    for (unsigned j = 0; j < y; ++j) {
      for (unsigned i = 0; i < x; ++i) {
        blockIdx = {i, j, k};
        RunBlock(threads);
      }
    }
  }
}

void RunThread(const std::function<void()>& body) {
  gridDim = blockDim = {1, 1, 1};
  blockIdx = threadIdx = {0, 0, 0};
  body();
}

unsigned char* DynamicShared() {
  const auto address = reinterpret_cast<std::uintptr_t>(state.shared.data());
  return state.shared.data() + (16 - address % 16) % 16;
}

void SyncBlock() { Wait(state.barrier); }

void SyncWarp() { Wait(state.warps[state.running / kWarp].barrier); }

std::uint32_t Exchange(std::uint32_t value, unsigned lane) {
  std::array<std::uint32_t, kWarp>& values =
      state.warps[state.running / kWarp].values;
  values[state.running % kWarp] = value;
  SyncWarp();
  const std::uint32_t result = values[lane];
  SyncWarp();
  return result;
}

}  // namespace emulation

namespace {

std::mutex allocations_mutex;
std::map<const std::byte*, std::size_t> allocations;  // bytes by begin

bool Allocated(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(allocations_mutex);
  const auto* begin = static_cast<const std::byte*>(memory);
  const auto next = allocations.upper_bound(begin);
  return next != allocations.begin() &&
         begin + bytes <= std::prev(next)->first + std::prev(next)->second;
}

}  // namespace

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*memory == nullptr) {
    throw std::bad_alloc();
  }
  const std::lock_guard lock(allocations_mutex);
  allocations[static_cast<const std::byte*>(*memory)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  const std::lock_guard lock(allocations_mutex);
  allocations.erase(static_cast<const std::byte*>(memory));
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind /*kind*/, cudaStream_t /*stream*/) {
  if (!Allocated(to, bytes) || !Allocated(from, bytes)) {
    return cudaErrorInvalidValue;
  }
  std::memmove(to, from, bytes);
  return cudaSuccess;
}

}  // namespace trainer::cuda
