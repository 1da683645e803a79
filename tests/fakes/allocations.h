// Counts the memory allocations of a piece of code.

#pragma once

#include <gtest/gtest.h>

namespace fakes {

// Calls of malloc so far, in which Eigen and operator new both end; those of
// all threads. Absent from programs that do not link `allocations`.
[[nodiscard]] int AllocationCount();

// False where malloc cannot be counted: without glibc, under a sanitizer.
[[nodiscard]] bool CountsAllocations();

// Tests that count; skipped where nothing can be counted.
class AllocationTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CountsAllocations()) {
      GTEST_SKIP() << "needs glibc's malloc and no sanitizer";
    }
  }

  template <typename Work>
  static int Allocations(const Work& work) {
    const int before = AllocationCount();
    work();
    return AllocationCount() - before;
  }
};

}  // namespace fakes
