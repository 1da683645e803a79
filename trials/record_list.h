// The list of what an experiment has on record, the file `.runs` in its folder.
// It shows which records are gone, and which ones another experiment wrote.
//
// A line is the name of a run or of a file that exists, relative to the folder
// ("oppa/1", "finals.json"), or the hash of a content and the name of what may
// have it. A content is listed before it is written, and a name after that.

#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "common/json.h"
#include "trials/record.h"

namespace trials {

class RecordList {
 public:
  RecordList() = default;  // allows everything
  // That of a folder; empty where no experiment has written one.
  explicit RecordList(std::filesystem::path experiment_folder);

  // Adds a line, which is durable then, if it is not there.
  static void Add(const std::filesystem::path& experiment_folder,
                  const std::string& line);
  static std::filesystem::path File(
      const std::filesystem::path& experiment_folder);

  // What exists, in the order of its names.
  [[nodiscard]] const std::set<std::string>& names() const { return names_; }
  // The file that shows whether something on the list exists.
  [[nodiscard]] std::filesystem::path FileOf(const std::string& name) const;

  // Whether this may be the content of a file. Anything may be that of a file
  // without a listed content, which earlier versions wrote.
  [[nodiscard]] bool Allows(const std::string& name,
                            std::string_view text) const;
  // Errors: throws InputError that names the file unless it allows this;
  // `is_listed`: of a version that lists it.
  void Require(const std::string& name, std::string_view text,
               bool is_listed = false) const;
  // The same for a finished run, and for the file with that name.
  void Require(const RunInfo& info) const;
  void RequireFile(const std::string& name) const;

 private:
  std::filesystem::path folder_;
  std::set<std::string> names_;
  std::set<std::string> contents_;  // hash and name
  std::set<std::string> known_;     // names of these contents
};

// The text by which a list knows a finished run.
[[nodiscard]] std::string SealText(const RunInfo& info);
// The line for a content.
[[nodiscard]] std::string ContentLine(const std::string& name,
                                      std::string_view text);

// Replaces a file in the folder of an experiment and lists it.
void WriteListed(const std::filesystem::path& file, std::string_view text,
                 unsigned mode = 0666);
// A sealed JSON file, whose key "record" is its name.
void WriteRecord(const std::filesystem::path& file, common::Json json);
// What that has; null without a file, and for one without a check value, which
// an earlier version wrote.
// Errors: throws InputError for a file that was damaged, or that is not what
// the experiment wrote under this name.
[[nodiscard]] common::Json ReadRecord(const std::filesystem::path& file);

}  // namespace trials
