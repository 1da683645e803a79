// Reads whole files, and replaces files atomically.

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace common {

// Owns a file descriptor; negative: there is none, and errno has the reason.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { Close(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool ok() const { return fd_ >= 0; }
  void Close();

 private:
  int fd_;
};

// The content of a regular file.
// Errors: throws InputError "path: reason" when it is missing, is not a regular
// file, cannot be read, or has more bytes than `most_bytes`.
[[nodiscard]] std::string ReadFile(const std::filesystem::path& path,
                                   std::size_t most_bytes = std::string::npos);

// As ReadFile, but nothing if there is no file with that name.
[[nodiscard]] std::optional<std::string> ReadFileIfExists(
    const std::filesystem::path& path,
    std::size_t most_bytes = std::string::npos);

// Whether there is a file with that name.
// Errors: InputError naming the path if that cannot be found out: what cannot
// be read is not missing.
[[nodiscard]] bool IsFile(const std::filesystem::path& path);

// Whether the folder has an entry of that name, also if it is a link to
// nothing: such a file is lost, not missing.
// Errors: std::filesystem::filesystem_error if that cannot be found out.
[[nodiscard]] bool EntryExists(const std::filesystem::path& path);

// The paths in a folder, sorted; none if there is no such folder.
// Errors: InputError naming the folder if it cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> ListFolder(
    const std::filesystem::path& folder);

// A file of /proc: its content, or "" when the process has exited or belongs to
// another user.
[[nodiscard]] std::string ReadProcFile(const std::filesystem::path& path);

// Creates a folder and its parents, whose names are durable when the call
// returns.
// Errors: throws std::runtime_error naming the folder.
void CreateFolders(const std::filesystem::path& folder);

// The same for a folder below `root`, in which others may have put links.
// Errors: throws InputError too, if a folder between the two is a symbolic
// link.
void CreateFoldersBelow(const std::filesystem::path& root,
                        const std::filesystem::path& folder);

// A new file, opened with `flags` (of open(2)), whose name begins so and goes
// on in a way that nobody foresees. `path` becomes that name. Errors: throws
// std::runtime_error naming the file.
[[nodiscard]] Descriptor CreateTemporary(const std::string& beginning,
                                         int flags,
                                         std::filesystem::path& path);

// Writes `text` to a new file of this process next to `path`, to be renamed or
// linked to `path`. Creates the folder.
// Errors: throws std::runtime_error naming the file.
[[nodiscard]] std::filesystem::path WriteTemporaryFile(
    const std::filesystem::path& path, std::string_view text);

// Replaces the content of `path` by `text` atomically: a crash leaves the old
// content or the new.
void ReplaceFile(const std::filesystem::path& path, std::string_view text);

// As ReplaceFile, and the new content is durable when the call returns.
void StoreFile(const std::filesystem::path& path, std::string_view text);

// Writes all of `text` to a descriptor of the file `path`.
// Errors: throws std::runtime_error naming the file.
void WriteAll(int fd, const std::filesystem::path& path, std::string_view text);

// Makes the names in a folder durable, as far as the file system can.
// Errors: throws std::runtime_error when the disk is full or fails.
void SyncFolder(const std::filesystem::path& folder);

// Throws std::runtime_error "path: cannot <verb>: <errno's text>".
[[noreturn]] void ThrowErrno(const std::filesystem::path& path,
                             std::string_view verb);

}  // namespace common
