// Makes one allocation of a process fail, counted from the begin of main.
// Preloaded before the C library:
//
//   FAULT_ALLOCATION=n  the n-th allocation of the program oppa; 0: none
//   FAULT_BEFORE_MAIN=1 counts from the begin of the process
//   FAULT_FOREVER=1     all later ones fail, too
//   FAULT_LOG=file      receives the number of allocations at the exit

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* block, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);

static int in_main;
static long allocations;
static long struck;
static int forever;

static int IsStruck(void) {
  const char* number = getenv("FAULT_ALLOCATION");
  if (number == NULL || strcmp(program_invocation_short_name, "oppa") != 0) {
    return 0;
  }
  struck = atol(number);
  forever = getenv("FAULT_FOREVER") != NULL;
  return 1;
}

static int Fails(void) {
  if (!in_main && __environ != NULL && getenv("FAULT_BEFORE_MAIN") != NULL) {
    in_main = IsStruck();
  }
  if (!in_main) return 0;
  const long number = __atomic_add_fetch(&allocations, 1, __ATOMIC_SEQ_CST);
  if (struck == 0 || number < struck || (number > struck && !forever)) return 0;
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t size) { return Fails() ? NULL : __libc_malloc(size); }

void* calloc(size_t count, size_t size) {
  return Fails() ? NULL : __libc_calloc(count, size);
}

void* realloc(void* block, size_t size) {
  return Fails() ? NULL : __libc_realloc(block, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  return Fails() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void** block, size_t alignment, size_t size) {
  *block = Fails() ? NULL : __libc_memalign(alignment, size);
  return *block == NULL ? ENOMEM : 0;
}

static void Report(void) {
  char text[32];
  const int length = snprintf(text, sizeof text, "%ld\n", allocations);
  const char* log = getenv("FAULT_LOG");
  const int fd = log ? open(log, O_WRONLY | O_TRUNC | O_CLOEXEC) : -1;
  if (fd >= 0) {
    if (write(fd, text, (size_t)length) < 0) abort();
    close(fd);
  }
}

static int (*real_main)(int, char**, char**);

static int Main(int count, char** words, char** environment) {
  if (!in_main && IsStruck()) {
    if (struck == 0) atexit(Report);
    in_main = 1;
  }
  return real_main(count, words, environment);
}

int __libc_start_main(int (*main)(int, char**, char**),
                      int count,
                      char** words,
                      void (*init)(void),
                      void (*fini)(void),
                      void (*linker_fini)(void),
                      void* stack_end) {
  real_main = main;
  const __typeof__(&__libc_start_main) start =
      (__typeof__(&__libc_start_main))dlsym(RTLD_NEXT, "__libc_start_main");
  return start(Main, count, words, init, fini, linker_fini, stack_end);
}
