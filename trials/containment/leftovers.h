// Finds and ends processes of a trial whose supervisor was killed.

#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include <sys/types.h>

#include "common/files.h"

namespace trials {

// Identifies the processes of one contained program in two ways, each of which
// covers a gap of the other:
// - a variable in the environment of every descendant, which a program can
//   clear (env -i, sudo);
// - the descendants of the supervisor that were seen (Track), with the times of
//   their starts, and everything in their sessions.
// With a path, the record survives this process, for EndLeftovers.
class ProcessRecord {
 public:
  // An empty path keeps the record in memory.
  explicit ProcessRecord(std::filesystem::path path);

  // "OPPA_PROCESS=...", for the environment of the program.
  [[nodiscard]] const std::string& mark() const { return mark_; }

  // Adds the present descendants of the supervisor.
  void Track(pid_t supervisor);

  // Kills what is left; returns after all of it has ended or after about 10 s.
  void Kill();

  // Removes the file.
  void Remove();

 private:
  friend void EndLeftovers(const std::filesystem::path& folder);
  ProcessRecord() = default;

  // The record in a file; nothing unless it is of this host since its boot, its
  // runner has ended, and no other user can have written it. Of the processes
  // it has those that started after the file was created.
  [[nodiscard]] static std::optional<ProcessRecord> Read(
      const std::filesystem::path& path);

  // Sends SIGKILL to what is alive; false if nothing is.
  [[nodiscard]] bool KillOnce() const;
  void Append(const std::string& text);

  std::filesystem::path path_;
  common::Descriptor file_;
  std::string mark_;
  std::map<pid_t, std::string> seen_;  // the start of each process
};

// The extension of the file of a record.
inline constexpr const char* kProcessRecordExtension = ".processes";

// Kills what earlier trials with a record in the folder left on this host, and
// every process of this user on this host that carries the mark of a runner
// that no longer exists. Waits for their end. Call it only while no other
// process runs trials with records in this folder.
void EndLeftovers(const std::filesystem::path& folder);

}  // namespace trials
