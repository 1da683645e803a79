// What libstdc++ of GCC 12 and the headers of its system take from versions of
// glibc that are newer than the one that a portable program is linked to.

#include <ctime>

#include <pthread.h>
#include <sys/random.h>

extern "C" {

// The linker reserves room in the program for variables of glibc. Zig's glibc
// has one address per name, so it does not see that these are one variable.
extern char** __environ;
char** __environ = nullptr;
extern char** environ __attribute__((alias("__environ")));
extern char** _environ __attribute__((alias("__environ")));

// glibc 2.32. False: reference counts are atomic.
extern char __libc_single_threaded;
char __libc_single_threaded = 0;

// glibc 2.36, for std::random_device.
unsigned int arc4random() {
  unsigned int value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

// glibc 2.38, to which its headers redirect these functions. Only "0b" differs.
// No header declares them here, so that the calls are not redirected.
#define FORWARD(type, name)                                      \
  type name(const char* text, char** end, int base);             \
  type __isoc23_##name(const char* text, char** end, int base) { \
    return name(text, end, base);                                \
  }
FORWARD(long, strtol)
FORWARD(long long, strtoll)
FORWARD(unsigned long, strtoul)
FORWARD(unsigned long long, strtoull)

// glibc 2.30, for std::condition_variable. The wait ends too early or too late
// if the system's time is set meanwhile.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           clockid_t clock, const timespec* until) {
  constexpr long kSecond = 1'000'000'000;  // in nanoseconds
  timespec now{};
  timespec end{};
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &end);
  const long nanoseconds = end.tv_nsec + until->tv_nsec - now.tv_nsec + kSecond;
  end.tv_sec += until->tv_sec - now.tv_sec + nanoseconds / kSecond - 1;
  end.tv_nsec = nanoseconds % kSecond;
  return pthread_cond_timedwait(condition, mutex, &end);
}

}  // extern "C"
