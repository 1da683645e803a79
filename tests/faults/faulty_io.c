// A disk that fills up or breaks, and a clock that jumps, for one process.
// Preloaded before the C library:
//
//   FAULTY_PATH=text    only files with this in their path
//   FAULTY_CALL=n       the n-th call that writes to one of them fails, and
//                       every later one
//   FAULTY_ERRNO=n      with this error
//   FAULTY_SHORT=1      the first one that fails writes half before
//   FAULTY_CLOCK=s      the wall clock jumps by this many seconds, forth and
//                       back, at every seventh look

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int calls;

static long Number(const char* name) {
  const char* text = getenv(name);
  return text ? atol(text) : 0;
}

static int Concerns(const char* path) {
  const char* wanted = getenv("FAULTY_PATH");
  return wanted && Number("FAULTY_CALL") > 0 && strstr(path, wanted) != NULL;
}

static int ConcernsFd(int fd) {
  char link[64];
  char path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return Concerns(path);
}

// 0: goes through; 1: fails; 2: is the first that fails.
static int Fails(void) {
  int call = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
  long first = Number("FAULTY_CALL");
  if (call < first) return 0;
  return call == first ? 2 : 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void* data, size_t size) {
  if (ConcernsFd(fd)) {
    int fails = Fails();
    if (fails == 2 && Number("FAULTY_SHORT") && size > 1) {
      return REAL(write)(fd, data, size / 2);
    }
    if (fails) {
      errno = (int)Number("FAULTY_ERRNO");
      return -1;
    }
  }
  return REAL(write)(fd, data, size);
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (ConcernsFd(fd) && Fails()) {
    errno = (int)Number("FAULTY_ERRNO");
    return -1;
  }
  return REAL(writev)(fd, parts, count);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  if (ConcernsFd(fd) && Fails()) {
    errno = (int)Number("FAULTY_ERRNO");
    return -1;
  }
  return REAL(pwrite)(fd, data, size, at);
}

int fsync(int fd) {
  if (ConcernsFd(fd) && Fails()) {
    errno = (int)Number("FAULTY_ERRNO");
    return -1;
  }
  return REAL(fsync)(fd);
}

int fdatasync(int fd) {
  if (ConcernsFd(fd) && Fails()) {
    errno = (int)Number("FAULTY_ERRNO");
    return -1;
  }
  return REAL(fdatasync)(fd);
}

int rename(const char* from, const char* to) {
  if (Concerns(to) && Fails()) {
    errno = (int)Number("FAULTY_ERRNO");
    return -1;
  }
  return REAL(rename)(from, to);
}

static time_t Jump(void) {
  static int looks;
  int look = __atomic_add_fetch(&looks, 1, __ATOMIC_SEQ_CST);
  return look % 14 >= 7 ? Number("FAULTY_CLOCK") : 0;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  int result = REAL(clock_gettime)(clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec += Jump();
  return result;
}

time_t time(time_t* now) {
  time_t value = REAL(time)(NULL) + Jump();
  if (now) *now = value;
  return value;
}
