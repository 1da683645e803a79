// Makes system calls of a process fail, and its clock jump. Preloaded before the
// C library:
//
//   FAULT_PATH=text     only calls for files with this in their path, of the
//                       program oppa
//   FAULT_WRITES=1      only calls that write
//   FAULT_CALL=n        the n-th of them is struck; 0: none
//   FAULT_KIND=error    it fails with FAULT_ERRNO, or
//             =short    it reads or writes half as much, or
//             =kill     the process is killed before it
//   FAULT_FOREVER=1     all later ones fail: the disk is full or broken
//   FAULT_LOG=file      a line per call until then, with its name and path
//   FAULT_CLOCK=s       the wall clock jumps by this many seconds, forth and
//                       back, at every seventh look

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum Strike { kNone, kError, kShort };

static int calls;

static const char* Setting(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? "" : text;
}

static void Log(const char* call, const char* path) {
  char line[4400];
  const int length = snprintf(line, sizeof line, "%s %s\n", call, path);
  const int fd =
      REAL(open)(Setting("FAULT_LOG"), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd >= 0) {
    if (REAL(write)(fd, line, (size_t)length) < 0) abort();
    close(fd);
  }
}

static int Writes(const char* call) {
  static const char* const kNames[] = {
      "write", "pwrite", "fsync", "fdatasync", "renameat"};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; ++i) {
    if (strcmp(call, kNames[i]) == 0) return 1;
  }
  return 0;
}

// Counts a call; `can_be_short`: it transfers bytes.
static enum Strike Next(const char* call, const char* path, int can_be_short) {
  const char* wanted = Setting("FAULT_PATH");
  if (*wanted == '\0' || path == NULL || strstr(path, wanted) == NULL ||
      strcmp(program_invocation_short_name, "oppa") != 0 ||
      (atoi(Setting("FAULT_WRITES")) && !Writes(call))) {
    return kNone;
  }
  const int number = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
  const int last = atoi(Setting("FAULT_CALL"));
  if (last != 0 && number > last) {
    if (!atoi(Setting("FAULT_FOREVER"))) return kNone;
    errno = atoi(Setting("FAULT_ERRNO"));
    return kError;
  }
  Log(call, path);
  if (number != last) return kNone;
  const char* kind = Setting("FAULT_KIND");
  if (strcmp(kind, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(kind, "short") == 0) return can_be_short ? kShort : kNone;
  errno = atoi(Setting("FAULT_ERRNO"));
  return kError;
}

static enum Strike NextFd(const char* call, int fd, int can_be_short) {
  char link[64];
  char path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return kNone;
  path[length] = '\0';
  return Next(call, path, can_be_short);
}

static const char* In(int folder, const char* name, char* path, size_t size) {
  if (folder == AT_FDCWD || name[0] == '/') return name;
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
  const ssize_t length = readlink(link, path, size - 1);
  if (length < 0) return NULL;
  snprintf(path + length, size - (size_t)length, "/%s", name);
  return path;
}

#define ON_PATH(type, failure, name, parameters, arguments, path) \
  type name parameters {                                          \
    if (Next(#name, path, 0) == kError) return failure;           \
    return REAL(name) arguments;                                  \
  }
#define ON_FD(name, parameters, arguments)         \
  int name parameters {                            \
    if (NextFd(#name, fd, 0) == kError) return -1; \
    return REAL(name) arguments;                   \
  }
#define ON_BYTES(name, parameters, arguments) \
  ssize_t name parameters {                   \
    switch (NextFd(#name, fd, 1)) {           \
      case kError:                            \
        return -1;                            \
      case kShort:                            \
        size = size > 1 ? size / 2 : size;    \
        break;                                \
      case kNone:                             \
        break;                                \
    }                                         \
    return REAL(name) arguments;              \
  }

ON_PATH(int, -1, symlink, (const char* a, const char* b), (a, b), b)
ON_PATH(int, -1, remove, (const char* a), (a), a)
ON_PATH(int, -1, rmdir, (const char* a), (a), a)
ON_PATH(int, -1, access, (const char* a, int mode), (a, mode), a)
ON_PATH(int, -1, truncate, (const char* a, off_t size), (a, size), a)
ON_PATH(int, -1, stat, (const char* a, struct stat* info), (a, info), a)
ON_PATH(int, -1, lstat, (const char* a, struct stat* info), (a, info), a)
ON_PATH(DIR*, NULL, opendir, (const char* a), (a), a)
ON_PATH(FILE*, NULL, fopen, (const char* a, const char* mode), (a, mode), a)
ON_PATH(FILE*, NULL, fopen64, (const char* a, const char* mode), (a, mode), a)
#define IN_FOLDER(name, parameters, arguments, path)                 \
  int name parameters {                                              \
    char all[4400];                                                  \
    const char* where = In(folder, path, all, sizeof all);           \
    if (Next(#name, where, 0) == kError) return -1;                  \
    return REAL(name) arguments;                                     \
  }
IN_FOLDER(mkdirat,
          (int folder, const char* a, mode_t mode),
          (folder, a, mode),
          a)
IN_FOLDER(unlinkat, (int folder, const char* a, int flags), (folder, a, flags), a)
IN_FOLDER(renameat,
          (int from, const char* a, int folder, const char* b),
          (from, a, folder, b),
          b)
IN_FOLDER(linkat,
          (int from, const char* a, int folder, const char* b, int flags),
          (from, a, folder, b, flags),
          b)
ON_FD(fsync, (int fd), (fd))
ON_FD(fdatasync, (int fd), (fd))
ON_FD(fstat, (int fd, struct stat* info), (fd, info))
ON_FD(fstat64, (int fd, struct stat64* info), (fd, info))
ON_FD(ftruncate, (int fd, off_t size), (fd, size))
ON_FD(flock, (int fd, int operation), (fd, operation))
ON_BYTES(read, (int fd, void* data, size_t size), (fd, data, size))
ON_BYTES(write, (int fd, const void* data, size_t size), (fd, data, size))
ON_BYTES(pread,
         (int fd, void* data, size_t size, off_t at),
         (fd, data, size, at))
ON_BYTES(pwrite,
         (int fd, const void* data, size_t size, off_t at),
         (fd, data, size, at))

struct dirent* readdir(DIR* folder) {
  if (NextFd("readdir", dirfd(folder), 0) == kError) return NULL;
  return REAL(readdir)(folder);
}

#define OPEN(name)                                 \
  int name(const char* path, int flags, ...) {     \
    mode_t mode = 0;                               \
    if (flags & O_CREAT) {                         \
      va_list rest;                                \
      va_start(rest, flags);                       \
      mode = va_arg(rest, mode_t);                 \
      va_end(rest);                                \
    }                                              \
    if (Next(#name, path, 0) == kError) return -1; \
    return REAL(name)(path, flags, mode);          \
  }
OPEN(open)
OPEN(open64)

int openat(int fd, const char* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  char all[4400];
  const char* where = In(fd, path, all, sizeof all);
  if (Next("openat", where, 0) == kError) return -1;
  return REAL(openat)(fd, path, flags, mode);
}

static time_t Jump(void) {
  static int looks;
  const int look = __atomic_add_fetch(&looks, 1, __ATOMIC_SEQ_CST);
  return look % 14 >= 7 ? atol(Setting("FAULT_CLOCK")) : 0;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = REAL(clock_gettime)(clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec += Jump();
  return result;
}

time_t time(time_t* now) {
  const time_t value = REAL(time)(NULL) + Jump();
  if (now) *now = value;
  return value;
}
