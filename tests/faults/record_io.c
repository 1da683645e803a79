// Records what a process does to a folder, so that power_loss.py can compute
// what a loss of power would leave. Preloaded before the C library:
//
//   RECORD_PATH=folder  only files below it
//   RECORD_TO=folder    `log` receives one line per operation,
//   `content/<inode>`
//                       what was last synced of each file
//   RECORD_KILL=n       the n-th sync kills the process before it is done

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int Concerns(const char* path) {
  const char* wanted = getenv("RECORD_PATH");
  return wanted != NULL && strncmp(path, wanted, strlen(wanted)) == 0;
}

static int PathOf(int fd, char* path, size_t size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, size - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return Concerns(path);
}

static int OpenRecord(const char* name, int flags) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", getenv("RECORD_TO"), name);
  return REAL(open)(path, flags | O_CREAT | O_CLOEXEC, 0666);
}

static unsigned long InodeOf(const char* path) {
  struct stat info;
  return lstat(path, &info) == 0 ? info.st_ino : 0;
}

static void Log(const char* what, const char* a, const char* b) {
  char line[9000];
  const int length = snprintf(line,
                              sizeof line,
                              "%s\t%lu\t%s\t%s\n",
                              what,
                              InodeOf(b[0] ? b : a),
                              a,
                              b);
  const int fd = OpenRecord("log", O_WRONLY | O_APPEND);
  if (REAL(write)(fd, line, (size_t)length) != length) abort();
  close(fd);
}

// Counts the syncs of all processes.
static long NextSync(void) {
  long count = 0;
  const int fd = OpenRecord("syncs", O_RDWR);
  flock(fd, LOCK_EX);
  if (pread(fd, &count, sizeof count, 0) < 0) abort();
  ++count;
  if (pwrite(fd, &count, sizeof count, 0) < 0) abort();
  close(fd);
  return count;
}

static void KeepContent(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return;
  char name[64];
  snprintf(name, sizeof name, "content-%lu", (unsigned long)info.st_ino);
  const int copy = OpenRecord(name, O_WRONLY | O_TRUNC);
  char self[64];
  snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  const int file = REAL(open)(self, O_RDONLY | O_CLOEXEC);
  off_t at = 0;
  while (sendfile(copy, file, &at, 1 << 20) > 0) {
  }
  close(file);
  close(copy);
}

static void BeforeSync(int fd) {
  char path[4096];
  if (!PathOf(fd, path, sizeof path)) return;
  const char* last = getenv("RECORD_KILL");
  if (last != NULL && NextSync() == atol(last)) {
    Log("kill", path, "");
    kill(getpid(), SIGKILL);
  }
  KeepContent(fd);
  Log("sync", path, "");
}

int fsync(int fd) {
  BeforeSync(fd);
  return REAL(fsync)(fd);
}

int fdatasync(int fd) {
  BeforeSync(fd);
  return REAL(fdatasync)(fd);
}

// The path of a name in an open folder.
static const char* In(int folder, const char* name, char* path, size_t size) {
  if (folder == AT_FDCWD || name[0] == '/') return name;
  PathOf(folder, path, size);
  const size_t length = strlen(path);
  snprintf(path + length, size - length, "/%s", name);
  return path;
}

int mkdirat(int folder, const char* name, mode_t mode) {
  char all[4096] = "";
  const char* path = In(folder, name, all, sizeof all);
  const int result = REAL(mkdirat)(folder, name, mode);
  if (result == 0 && Concerns(path)) Log("make", path, "");
  return result;
}

int renameat(int old, const char* from, int new, const char* to) {
  char one[4096] = "";
  char two[4096] = "";
  const char* a = In(old, from, one, sizeof one);
  const char* b = In(new, to, two, sizeof two);
  const int result = REAL(renameat)(old, from, new, to);
  if (result == 0 && Concerns(b)) Log("rename", a, b);
  return result;
}

int linkat(int old, const char* from, int new, const char* to, int flags) {
  char one[4096] = "";
  char two[4096] = "";
  const char* a = In(old, from, one, sizeof one);
  const char* b = In(new, to, two, sizeof two);
  const int result = REAL(linkat)(old, from, new, to, flags);
  if (result == 0 && Concerns(b)) Log("link", a, b);
  return result;
}

int unlinkat(int folder, const char* name, int flags) {
  char all[4096] = "";
  const char* path = In(folder, name, all, sizeof all);
  const int result = REAL(unlinkat)(folder, name, flags);
  if (result == 0 && Concerns(path)) Log("unlink", path, "");
  return result;
}

static int OpenAndLog(const char* path, int flags, mode_t mode) {
  const int is_new =
      (flags & O_CREAT) != 0 && Concerns(path) && access(path, F_OK) != 0;
  const int fd = REAL(open)(path, flags, mode);
  if (fd >= 0 && is_new) Log("make", path, "");
  return fd;
}

#define OPEN(name)                             \
  int name(const char* path, int flags, ...) { \
    mode_t mode = 0;                           \
    if (flags & O_CREAT) {                     \
      va_list rest;                            \
      va_start(rest, flags);                   \
      mode = va_arg(rest, mode_t);             \
      va_end(rest);                            \
    }                                          \
    return OpenAndLog(path, flags, mode);      \
  }
OPEN(open)
OPEN(open64)

int openat(int folder, const char* name, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  char all[4096] = "";
  const char* path = In(folder, name, all, sizeof all);
  const int is_new =
      (flags & O_CREAT) != 0 && Concerns(path) && access(path, F_OK) != 0;
  const int fd = REAL(openat)(folder, name, flags, mode);
  if (fd >= 0 && is_new) Log("make", path, "");
  return fd;
}
