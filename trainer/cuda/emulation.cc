#include "trainer/cuda/emulation.h"

#include <array>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
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

// Where a thread continues, for the compiler's jumps: those of the C library
// are intercepted by the sanitizers, which expect one stack per thread.
using Place = std::array<void*, 5>;

// One thread of the running block, and after it of the next one. Only its first
// start is a system call: a switch between threads is a jump.
struct Fiber {
  Place place{};
  std::unique_ptr<unsigned char[]> stack;
  bool started = false;
  bool done = false;
};

// Memory whose end is next to a page that cannot be accessed.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes, std::size_t alignment = 16)
      : pages_((bytes + kPage - 1) / kPage * kPage) {
    void* memory = mmap(nullptr, pages_ + kPage, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::bad_alloc();
    }
    base_ = static_cast<unsigned char*>(memory);
    mprotect(base_ + pages_, kPage, PROT_NONE);
    data_ = base_ + pages_ - (bytes + alignment - 1) / alignment * alignment;
  }
  ~Guarded() { munmap(base_, pages_ + kPage); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  [[nodiscard]] unsigned char* data() const { return data_; }

 private:
  static constexpr std::size_t kPage = 4096;
  std::size_t pages_;
  unsigned char* base_ = nullptr;
  unsigned char* data_ = nullptr;
};

struct BlockState {
  const std::function<void()>* body = nullptr;
  Place scheduler{};
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier barrier;
  std::unique_ptr<Guarded> shared;
  unsigned running = 0;
};
thread_local BlockState state;

void Yield() {
  Fiber& self = state.fibers[state.running];
  if (__builtin_setjmp(self.place.data()) == 0) {
    __builtin_longjmp(state.scheduler.data(), 1);
  }
}

void RunBodies() {
  while (true) {
    (*state.body)();
    state.fibers[state.running].done = true;
    Yield();
  }
}

[[noreturn]] void Enter(Fiber& fiber) {
  if (!fiber.started) {
    fiber.started = true;
    ucontext_t context;
    ::getcontext(&context);
    context.uc_stack.ss_sp = fiber.stack.get();
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    ::makecontext(&context, RunBodies, 0);
    ::setcontext(&context);
  }
  __builtin_longjmp(fiber.place.data(), 1);
}

// Runs a thread until it waits or ends.
void Resume(unsigned thread) {
  state.running = thread;
  threadIdx = {thread, 0, 0};
  if (__builtin_setjmp(state.scheduler.data()) == 0) {
    Enter(state.fibers[thread]);
  }
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
    state.fibers[t].done = false;
  }
  // Any order is right. Each step is odd, so that all threads have their turn.
  const char* order = std::getenv("OPPA_EMULATION_ORDER");
  const unsigned step = order == nullptr                ? 1
                        : std::string(order) == "mixed" ? 7
                                                        : threads - 1;
  for (bool any = true; any;) {
    any = false;
    for (unsigned i = 0; i < threads; ++i) {
      const unsigned t = i * step % threads;
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
  if (shared_bytes > 0) {
    state.shared = std::make_unique<Guarded>(shared_bytes);
    std::memset(state.shared->data(), 0xff, shared_bytes);  // not a number
  }
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

unsigned char* DynamicShared() { return state.shared->data(); }

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

struct Allocation {
  std::size_t bytes;
  std::unique_ptr<Guarded> memory;
};
std::mutex allocations_mutex;
std::map<const unsigned char*, Allocation> allocations;  // by begin

bool Allocated(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(allocations_mutex);
  const auto* begin = static_cast<const unsigned char*>(memory);
  const auto next = allocations.upper_bound(begin);
  return next != allocations.begin() &&
         begin + bytes <=
             std::prev(next)->first + std::prev(next)->second.bytes;
}

}  // namespace

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  auto guarded = std::make_unique<Guarded>(bytes, 256);
  *memory = guarded->data();
  const std::lock_guard lock(allocations_mutex);
  allocations[static_cast<unsigned char*>(*memory)] = {bytes,
                                                       std::move(guarded)};
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  const std::lock_guard lock(allocations_mutex);
  allocations.erase(static_cast<const unsigned char*>(memory));
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
