// A Hugging Face config.json.

#pragma once

#include <filesystem>
#include <string>

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

  [[nodiscard]] bool Has(const std::string& key) const;
  // An integer from 1; without a default it must be there.
  [[nodiscard]] int Size(const std::string& key) const;
  [[nodiscard]] int Size(const std::string& key, int otherwise) const;
  [[nodiscard]] bool Flag(const std::string& key, bool otherwise) const;
  [[nodiscard]] double Number(const std::string& key, double otherwise) const;
  // The number of an object in the file, as rope_parameters.
  [[nodiscard]] double NumberIn(const std::string& object,
                                const std::string& key, double otherwise) const;
  [[nodiscard]] std::string Text(const std::string& key,
                                 const std::string& otherwise) const;
  // The number of elements of a list that are this text; 0 without the list.
  [[nodiscard]] int Count(const std::string& key,
                          const std::string& value) const;

  // The file name config.json is not informative: then the name within, or that
  // of the folder, which is how such files are downloaded.
  [[nodiscard]] std::string Name() const;

 private:
  // The value of a key in `object`, which `is` must accept; `what` it must be.
  template <typename T>
  [[nodiscard]] T ValueOf(const common::Json& object, const std::string& key,
                          T otherwise, bool (*is)(const common::Json&),
                          const char* what) const;

  std::filesystem::path path_;
  common::Json json_;
};

}  // namespace trials
