// Reads whole files, and is the one way to write: new files, atomic
// replacement, folders, below a results folder through no link.

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
// Errors: InputError naming the path if that cannot be found out.
[[nodiscard]] bool EntryExists(const std::filesystem::path& path);

// The paths in a folder, sorted; none if there is no such folder.
// Errors: InputError naming the folder if it cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> ListFolder(
    const std::filesystem::path& folder);

// A file of /proc: its content, or "" when the process has exited or belongs to
// another user.
[[nodiscard]] std::string ReadProcFile(const std::filesystem::path& path);

// Below `root`, a results folder, the functions that follow write and remove
// nothing through a symbolic link: they go down from its descriptor. Others may
// have put links there; `root` itself may be a link of the user's. Elsewhere
// paths mean what they mean to the kernel.
void GuardFolder(const std::filesystem::path& root);

// Creates a folder and its parents, whose names are durable when the call
// returns.
// Errors: throws std::runtime_error naming the folder; as all functions below,
// InputError if a folder below a guarded one is a link.
void CreateFolders(const std::filesystem::path& folder);

// A new file, opened with `flags` (of open(2)), in place of what has that name:
// not what a link, hard or symbolic, leads to. Creates its folder.
// Errors: throws std::runtime_error naming the file.
[[nodiscard]] Descriptor CreateFile(const std::filesystem::path& path,
                                    int flags);

// As open(2), but of no link, hard or symbolic, and of regular files only.
[[nodiscard]] Descriptor OpenFile(const std::filesystem::path& path, int flags);

// A new file whose name begins so and goes on in a way that nobody foresees.
// `path` becomes that name. While the descriptor is open, RemoveAbandoned
// leaves the file.
// Errors: throws std::runtime_error naming the file.
[[nodiscard]] Descriptor CreateTemporary(const std::string& beginning,
                                         int flags, std::filesystem::path& path,
                                         unsigned mode = 0666);
// The same for a folder.
[[nodiscard]] Descriptor CreateTemporaryFolder(const std::string& beginning,
                                               std::filesystem::path& path);
// Removes the temporary files and folders in `folder` whose process is gone.
void RemoveAbandoned(const std::filesystem::path& folder);

// As rename(2) and unlink(2): false, and errno, if they fail.
bool Rename(const std::filesystem::path& from, const std::filesystem::path& to);
bool Remove(const std::filesystem::path& path) noexcept;

// Replaces the content of `path` by `text` atomically: a crash leaves the old
// content or the new.
void ReplaceFile(const std::filesystem::path& path, std::string_view text,
                 unsigned mode = 0666);

// As ReplaceFile, and the new content is durable when the call returns.
void StoreFile(const std::filesystem::path& path, std::string_view text,
               unsigned mode = 0666);

// As StoreFile, but keeps a file that is there.
void StoreFirst(const std::filesystem::path& path, std::string_view text);

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
