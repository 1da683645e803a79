#include "common/files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <mutex>
#include <random>
#include <set>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"

namespace common {
namespace {

namespace fs = std::filesystem;

// The rest of an open file; errno in `error`, 0 if all of it was read.
std::string ReadAll(int fd, int& error) {
  std::string text;
  std::array<char, 65536> buffer;  // NOLINT: read fills it
  error = 0;
  while (true) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count == 0) {
      return text;
    }
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      error = errno;
      return text;
    }
  }
}

[[noreturn]] void FailToRead(const fs::path& path, const std::string& reason) {
  throw InputError(
      fmt::format("{}: {}", path.empty() ? "''" : path.string(), reason));
}

constexpr int kNewFile = O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
constexpr int kTries = 100;
constexpr std::size_t kUnforeseen = 16;  // digits

using Parts = std::vector<std::string>;  // of an absolute path

struct GuardedFolders {
  std::mutex mutex;
  std::set<Parts> roots;
};

GuardedFolders& Guards() {
  static GuardedFolders folders;
  return folders;
}

// Without "." and the empty part at the end.
Parts PartsOf(const fs::path& path) {
  Parts parts;
  for (const fs::path& part : fs::absolute(path.empty() ? "." : path)) {
    if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
  }
  return parts;
}

// The number of parts that may be links: up to the outermost guarded folder.
std::size_t CountTrusted(const Parts& parts) {
  const std::lock_guard lock(Guards().mutex);
  std::size_t trusted = parts.size();
  for (const Parts& root : Guards().roots) {
    if (root.size() < trusted &&
        std::equal(root.begin(), root.end(), parts.begin())) {
      trusted = root.size();
    }
  }
  return trusted;
}

void Sync(const Descriptor& folder, const fs::path& path) {
  const Descriptor open(
      ::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync folders (EINVAL).
  if (open.ok() && ::fsync(open.get()) != 0 &&
      (errno == EIO || errno == ENOSPC || errno == EDQUOT)) {
    ThrowErrno(path, "write");
  }
}

// Keeps errno for what is none.
void RefuseLink(const fs::path& path) {
  const int error = errno;
  std::error_code none;
  if (fs::is_symlink(fs::symlink_status(path, none))) {
    throw InputError(fmt::format(
        "{} is a symbolic link, which leads out of the results: remove it, or "
        "use another results folder",
        path.string()));
  }
  errno = error;
}

fs::path PathOf(const Parts& parts, std::size_t count) {
  fs::path path;
  for (std::size_t i = 0; i < count; ++i) {
    path /= parts[i];
  }
  return path;
}

// The folder of the first `count` parts, entered from the one above it if it is
// not trusted.
Descriptor Enter(const Parts& parts, std::size_t count, std::size_t trusted,
                 bool creates) {
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  const fs::path path = PathOf(parts, count);
  Descriptor found;
  if (count <= trusted) {
    found = Descriptor(::open(path.c_str(), kFlags));
    if (found.ok() || !creates || errno != ENOENT || count < 2) {
      return found;
    }
  }
  const Descriptor above = Enter(parts, count - 1, trusted, creates);
  const std::string& name = parts[count - 1];
  const auto look = [&] {
    return Descriptor(::openat(above.get(), name.c_str(),
                               kFlags | (count > trusted ? O_NOFOLLOW : 0)));
  };
  if (!above.ok() || (found = look()).ok()) {
    return found;
  }
  if (errno == ENOENT && creates) {
    if (::mkdirat(above.get(), name.c_str(), 0777) != 0 && errno != EEXIST) {
      ThrowErrno(path, "create the folder");
    }
    Sync(above, path.parent_path());
    found = look();
  }
  if (!found.ok() && count > trusted) {
    RefuseLink(path);
  }
  return found;
}

// What has no descriptor has the reason in errno.
Descriptor OpenFolder(const fs::path& folder, bool creates) {
  const Parts parts = PartsOf(folder);
  const std::size_t trusted = CountTrusted(parts);
  if (std::find(parts.begin() + static_cast<std::ptrdiff_t>(trusted),
                parts.end(), "..") != parts.end()) {
    throw InputError(
        fmt::format("{} leads out of the results: '..' cannot be "
                    "in the name of a folder of theirs",
                    folder.string()));
  }
  Descriptor found = Enter(parts, parts.size(), trusted, creates);
  if (!found.ok() && creates) {
    ThrowErrno(folder, "create the folder");
  }
  return found;
}

// Locks what was created; false if RemoveAbandoned was there before the lock.
// A file system without locks keeps all.
bool Keep(const Descriptor& created) {
  struct stat info {};
  return (::flock(created.get(), LOCK_EX | LOCK_NB) == 0 ||
          errno != EWOULDBLOCK) &&
         (::fstat(created.get(), &info) != 0 || info.st_nlink > 0);
}

template <typename Create>
Descriptor CreateUnforeseen(const std::string& beginning, fs::path& path,
                            const Create& create) {
  std::random_device random;
  for (int i = 0; i < kTries; ++i) {
    path = fmt::format("{}.{:08x}{:08x}", beginning, random(), random());
    const Descriptor folder = OpenFolder(path.parent_path(), false);
    Descriptor created(
        folder.ok() ? create(folder.get(), path.filename().c_str()) : -1);
    if (created.ok() && Keep(created)) {
      return created;
    }
    if (!created.ok() && errno != EEXIST) {
      break;
    }
  }
  ThrowErrno(path, "create");
}

// Writes a temporary file, which `move` gives its name in the folder.
template <typename Move>
void Put(const fs::path& path, std::string_view text, unsigned mode,
         const Move& move) {
  const Descriptor folder = OpenFolder(path.parent_path(), true);
  fs::path temporary;
  const Descriptor file =
      CreateTemporary(path.string(), O_WRONLY, temporary, mode);
  try {
    WriteAll(file.get(), temporary, text);
    if (!move(file, folder.get(), temporary.filename().c_str(),
              path.filename().c_str())) {
      ThrowErrno(path, "write");
    }
  } catch (const std::runtime_error&) {
    (void)::unlinkat(folder.get(), temporary.filename().c_str(), 0);
    throw;
  }
}

}  // namespace

void Descriptor::Close() {
  if (ok()) {
    ::close(std::exchange(fd_, -1));
  }
}

std::optional<std::string> ReadFileIfExists(const fs::path& path,
                                            std::size_t most_bytes) {
  // Not blocking: opening a FIFO must not wait for a writer.
  const Descriptor file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.ok()) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return std::nullopt;
    }
    FailToRead(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    FailToRead(path, S_ISDIR(info.st_mode) ? "is a directory, not a file"
                                           : "is not a regular file");
  }
  if (std::cmp_greater(info.st_size, most_bytes)) {
    FailToRead(path, fmt::format("has {} bytes, and at most {} are read",
                                 info.st_size, most_bytes));
  }
  int error = 0;
  std::string text = ReadAll(file.get(), error);
  if (error != 0) {
    FailToRead(path, fmt::format("cannot be read: {}", std::strerror(error)));
  }
  return text;
}

std::string ReadFile(const fs::path& path, std::size_t most_bytes) {
  std::optional<std::string> text = ReadFileIfExists(path, most_bytes);
  if (!text) {
    FailToRead(path, "no such file");
  }
  return *std::move(text);
}

bool IsFile(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) {
    FailToRead(path, fmt::format("cannot be read: {}", error.message()));
  }
  return fs::is_regular_file(status);
}

bool EntryExists(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::none) {
    FailToRead(path, fmt::format("cannot be read: {}", error.message()));
  }
  return fs::exists(status);
}

std::vector<fs::path> ListFolder(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    paths.push_back(entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    FailToRead(folder, fmt::format("cannot be listed: {}", error.message()));
  }
  std::ranges::sort(paths);
  return paths;
}

std::string ReadProcFile(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  int error = 0;
  return file.ok() ? ReadAll(file.get(), error) : "";
}

void GuardFolder(const fs::path& root) {
  const std::lock_guard lock(Guards().mutex);
  Guards().roots.insert(PartsOf(root));
}

void CreateFolders(const fs::path& folder) { (void)OpenFolder(folder, true); }

Descriptor OpenFile(const fs::path& path, int flags) {
  const Descriptor folder = OpenFolder(path.parent_path(), false);
  Descriptor file(
      folder.ok() ? ::openat(folder.get(), path.filename().c_str(),
                             flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666)
                  : -1);
  struct stat info {};
  if (file.ok() && (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
                    info.st_nlink != 1)) {
    file.Close();
    errno = EMLINK;
  }
  return file;
}

Descriptor CreateFile(const fs::path& path, int flags) {
  CreateFolders(path.parent_path());
  // Again if another process creates it, too.
  for (int i = 0; i < kTries; ++i) {
    std::error_code none;
    if (!fs::is_character_file(fs::symlink_status(path, none))) {
      Remove(path);
    }
    Descriptor file = OpenFile(path, flags | O_CREAT | O_EXCL);
    if (file.ok()) {
      return file;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  ThrowErrno(path, "create");
}

Descriptor CreateTemporary(const std::string& beginning, int flags,
                           fs::path& path, unsigned mode) {
  return CreateUnforeseen(
      beginning, path, [flags, mode](int folder, const char* name) {
        return ::openat(folder, name, flags | kNewFile, mode);
      });
}

Descriptor CreateTemporaryFolder(const std::string& beginning, fs::path& path) {
  return CreateUnforeseen(beginning, path, [](int folder, const char* name) {
    return ::mkdirat(folder, name, 0777) == 0
               ? ::openat(folder, name,
                          O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
               : -1;
  });
}

void RemoveAbandoned(const fs::path& folder) {
  const Descriptor in = OpenFolder(folder, false);
  for (const fs::path& path : ListFolder(folder)) {
    const std::string end = path.extension();
    if (end.size() != kUnforeseen + 1 ||
        end.find_first_not_of("0123456789abcdef", 1) != std::string::npos) {
      continue;
    }
    const std::string name = path.filename();
    const Descriptor file(
        ::openat(in.get(), name.c_str(),
                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.ok() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
        ::unlinkat(in.get(), name.c_str(), 0) != 0) {
      std::error_code none;
      fs::remove_all(path, none);
    }
  }
}

bool Rename(const fs::path& from, const fs::path& to) {
  const Descriptor before = OpenFolder(from.parent_path(), false);
  const Descriptor after = OpenFolder(to.parent_path(), false);
  return before.ok() && after.ok() &&
         ::renameat(before.get(), from.filename().c_str(), after.get(),
                    to.filename().c_str()) == 0;
}

bool Remove(const fs::path& path) noexcept {
  try {
    const Descriptor folder = OpenFolder(path.parent_path(), false);
    return folder.ok() &&
           ::unlinkat(folder.get(), path.filename().c_str(), 0) == 0;
  } catch (const std::exception&) {
    errno = ELOOP;
    return false;
  }
}

void ReplaceFile(const fs::path& path, std::string_view text, unsigned mode) {
  std::error_code none;
  const fs::file_status status = fs::status(path, none);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw std::runtime_error(
        fmt::format("{}: it is not a regular file", path.string()));
  }
  Put(path, text, mode,
      [](const Descriptor&, int folder, const char* from, const char* to) {
        return ::renameat(folder, from, folder, to) == 0;
      });
}

void StoreFile(const fs::path& path, std::string_view text, unsigned mode) {
  Put(path, text, mode,
      [](const Descriptor& file, int folder, const char* from, const char* to) {
        return ::fsync(file.get()) == 0 &&
               ::renameat(folder, from, folder, to) == 0;
      });
  SyncFolder(path.parent_path());
}

void StoreFirst(const fs::path& path, std::string_view text) {
  Put(path, text, 0666,
      [](const Descriptor& file, int folder, const char* from, const char* to) {
        return ::fsync(file.get()) == 0 &&
               (::linkat(folder, from, folder, to, 0) == 0 ||
                errno == EEXIST) &&
               ::unlinkat(folder, from, 0) == 0;
      });
  SyncFolder(path.parent_path());
}

void WriteAll(int fd, const fs::path& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      ThrowErrno(path, "write");
    }
  }
}

void SyncFolder(const fs::path& folder) {
  const Descriptor found = OpenFolder(folder, false);
  if (found.ok()) {
    Sync(found, folder);
  }
}

void ThrowErrno(const fs::path& path, std::string_view verb) {
  const int error = errno;  // formatting may change it
  throw std::runtime_error(fmt::format("{}: cannot {}: {}", path.string(), verb,
                                       std::strerror(error)));
}

}  // namespace common
