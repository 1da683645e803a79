// Tests of the program from the user's perspective.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "common/process.h"
#include "common/text.h"
#include "tests/fakes/experiment_folder.h"

namespace fakes {

// Runs the program in a folder that it may fill, in which manifests find the
// project's models, clusters and rules.
class ProgramTest : public testing::Test {
 protected:
  using Words = std::vector<std::string>;

  // Runs any program to its end. Returns its exit code.
  int Call(const Words& words) {
    common::CommandResult result =
        common::RunCommand(common::InFolder(folder_.path(), words),
                           common::CurrentEnvironment(), 300.0);
    output_ = std::move(result.output);
    errors_ = std::move(result.errors);
    return result.exit_code;
  }
  // Runs `oppa` with these words, or with those between the spaces of a line.
  int Oppa(Words words) {
    words.insert(words.begin(), ProgramFile().string());
    return Call(words);
  }
  int Oppa(std::string_view line) { return Oppa(Split(line)); }

  // What both streams of the last call have.
  [[nodiscard]] std::string Printed() const { return output_ + errors_; }

  [[nodiscard]] static Words Split(std::string_view line) {
    Words words;
    for (const std::string_view word : common::Split(line, ' ')) {
      words.emplace_back(word);
    }
    return words;
  }
  [[nodiscard]] std::filesystem::path Path(std::string_view name) const {
    return folder_.path() / name;
  }
  [[nodiscard]] std::string Content(std::string_view name) const {
    return ReadFile(Path(name));
  }
  // Writes a file that is also executable.
  void Write(std::string_view name, std::string_view text) const {
    WriteFile(Path(name), std::string(text));
    std::filesystem::permissions(Path(name), std::filesystem::perms::owner_all);
  }

  ExperimentFolder folder_;
  std::string output_;  // of the last call
  std::string errors_;
};

}  // namespace fakes
