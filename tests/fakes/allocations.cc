#include "tests/fakes/allocations.h"

#include <atomic>
#include <cstddef>

#include "tests/fakes/sanitizers.h"

#if defined(__GLIBC__) && !OPPA_SANITIZED
#define OPPA_COUNTS_ALLOCATIONS 1
#else
#define OPPA_COUNTS_ALLOCATIONS 0
#endif

namespace {
std::atomic<int> allocations = 0;
}  // namespace

#if OPPA_COUNTS_ALLOCATIONS
// Replaces the function of the C library in the programs that link it.
extern "C" void* __libc_malloc(std::size_t size);  // NOLINT
extern "C" void* malloc(std::size_t size) {        // NOLINT
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
#endif

namespace fakes {

int AllocationCount() { return allocations; }

bool CountsAllocations() { return OPPA_COUNTS_ALLOCATIONS != 0; }

}  // namespace fakes
