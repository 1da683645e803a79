// A Hugging Face config.json.

#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/json.h"

namespace trials {

// The values of a config.json. A key that is absent or null takes its default,
// as in the library that publishes these files. A file with a `text_config`
// (models of text and images) stands for that part of it.
//
// Errors: throws InputError "file: message" that names the key.
class ConfigFile {
 public:
  explicit ConfigFile(std::filesystem::path path);

  [[noreturn]] void Fail(const std::string& message) const;

  // The value of a key, "vision_config.depth" within an object, "root.KEY"
  // beside a text_config; null pointer if it is absent or null. These keys
  // count as read.
  [[nodiscard]] const common::Json* Find(const std::string& key) const;
  // Whether the file has null for a key of its first level.
  [[nodiscard]] bool IsNull(const std::string& key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_null();
  }
  // The keys, also of the file around a text_config, that Find has not read and
  // whose values are not null, false, 0 or empty.
  [[nodiscard]] std::vector<std::string> UnreadKeys() const;
  // Whether the file switches off a part in the key's name: "use_cla": false
  // for cla_share_factor.
  [[nodiscard]] bool IsSwitchedOff(const std::string& key) const;
  // Whether the value of a key has sizes of its own, as a tower has.
  [[nodiscard]] bool HasBlocks(const std::string& key) const;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  // Of such a key; 0 or more.
  [[nodiscard]] double Number(const std::string& key, double otherwise) const;
  [[nodiscard]] std::string Text(const std::string& key,
                                 const std::string& otherwise) const;

  // The file name config.json is not informative: then the name within, or that
  // of the folder, which is how such files are downloaded.
  [[nodiscard]] std::string Name() const;

 private:
  std::filesystem::path path_;
  common::Json root_;
  common::Json json_;
  mutable std::set<std::string> read_;
};

}  // namespace trials
