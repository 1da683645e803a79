#include "common/files.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <random>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
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
  return fs::exists(fs::symlink_status(path));
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

void CreateFolders(const fs::path& folder) {
  std::error_code none;
  if (folder.empty() || fs::is_directory(folder, none)) {
    return;
  }
  const fs::path parent = folder.parent_path();
  if (parent == folder) {
    return;
  }
  CreateFolders(parent);
  if (::mkdir(folder.c_str(), 0777) != 0 && !fs::is_directory(folder, none)) {
    ThrowErrno(folder, "create the folder");
  }
  SyncFolder(parent.empty() ? "." : parent);
}

void CreateFoldersBelow(const fs::path& root, const fs::path& folder) {
  const fs::path below = folder.lexically_relative(root);
  assert(!below.empty() && *below.begin() != "..");
  fs::path path = root;
  for (const fs::path& part : below) {
    path /= part;
    std::error_code none;
    if (fs::is_symlink(fs::symlink_status(path, none))) {
      throw InputError(fmt::format(
          "{} is a symbolic link, which leads out of {}: remove it, or use "
          "another results folder",
          path.string(), root.string()));
    }
  }
  CreateFolders(folder);
}

Descriptor CreateTemporary(const std::string& beginning, int flags,
                           fs::path& path) {
  std::random_device random;
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    path = fmt::format("{}.{:08x}{:08x}", beginning, random(), random());
    Descriptor file(::open(
        path.c_str(), flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (file.ok()) {
      return file;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  ThrowErrno(path, "create");
}

fs::path WriteTemporaryFile(const fs::path& path, std::string_view text) {
  CreateFolders(path.parent_path());
  fs::path temporary;
  const Descriptor file = CreateTemporary(path.string(), O_WRONLY, temporary);
  try {
    WriteAll(file.get(), temporary, text);
  } catch (const std::runtime_error&) {
    std::error_code none;
    fs::remove(temporary, none);
    throw;
  }
  return temporary;
}

void ReplaceFile(const fs::path& path, std::string_view text) {
  std::error_code none;
  const fs::file_status status = fs::status(path, none);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw std::runtime_error(
        fmt::format("{}: it is not a regular file", path.string()));
  }
  fs::rename(WriteTemporaryFile(path, text), path);
}

void StoreFile(const fs::path& path, std::string_view text) {
  const fs::path temporary = WriteTemporaryFile(path, text);
  const Descriptor file(::open(temporary.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok() || ::fsync(file.get()) != 0 ||
      ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::error_code none;
    fs::remove(temporary, none);
    errno = error;
    ThrowErrno(path, "write");
  }
  SyncFolder(path.has_parent_path() ? path.parent_path() : ".");
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
  const Descriptor open(
      ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync folders (EINVAL).
  if (open.ok() && ::fsync(open.get()) != 0 &&
      (errno == EIO || errno == ENOSPC || errno == EDQUOT)) {
    ThrowErrno(folder, "write");
  }
}

void ThrowErrno(const fs::path& path, std::string_view verb) {
  const int error = errno;  // formatting may change it
  throw std::runtime_error(fmt::format("{}: cannot {}: {}", path.string(), verb,
                                       std::strerror(error)));
}

}  // namespace common
