#include "trials/config_file.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"

namespace trials {

using common::Json;

ConfigFile::ConfigFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  if (std::filesystem::is_directory(path_, error)) {
    Fail(std::filesystem::exists(path_ / "config.json", error)
             ? "this is a folder: name the config.json in it"
             : "this is a folder, without a config.json: name a Hugging Face "
               "config.json");
  }
  if (!common::IsFile(path_)) {
    Fail(std::filesystem::exists(path_, error)
             ? "this is not a regular file: name a Hugging Face config.json"
             : "no such file (a Hugging Face config.json is needed)");
  }
  json_ = common::ReadJson(path_);
  if (!json_.is_object()) {
    Fail("a JSON object is needed, as in a Hugging Face config.json");
  }
  if (Has("text_config") && json_.at("text_config").is_object()) {
    Json text = json_.at("text_config");
    for (const char* key : {"_name_or_path", "model_type"}) {
      if (!text.contains(key) && Has(key)) {
        text[key] = json_.at(key);
      }
    }
    json_ = std::move(text);
  }
}

void ConfigFile::Fail(const std::string& message) const {
  throw common::InputError(fmt::format("{}: {}", path_.string(), message));
}

bool ConfigFile::Has(const std::string& key) const {
  const auto found = json_.find(key);
  return found != json_.end() && !found->is_null();
}

template <typename T>
T ConfigFile::ValueOf(const Json& object, const std::string& key, T otherwise,
                      bool (*is)(const Json&), const char* what) const {
  const auto value = object.find(key);
  if (value == object.end() || value->is_null()) {
    return otherwise;
  }
  if (!is(*value)) {
    Fail(fmt::format("{} must be {}, not {}", key, what,
                     common::ToText(*value)));
  }
  return value->template get<T>();
}

int ConfigFile::Size(const std::string& key) const {
  if (!Has(key)) {
    Fail(fmt::format("the key '{}' is missing: an integer is needed", key));
  }
  return Size(key, 0);
}

int ConfigFile::Size(const std::string& key, int otherwise) const {
  const auto is_size = [](const Json& value) {
    return value.is_number_integer() && value.get<std::int64_t>() >= 1 &&
           value.get<std::int64_t>() <= std::numeric_limits<int>::max();
  };
  return ValueOf(json_, key, otherwise, is_size, "an integer from 1");
}

bool ConfigFile::Flag(const std::string& key, bool otherwise) const {
  return ValueOf(
      json_, key, otherwise,
      [](const Json& value) { return value.is_boolean(); }, "true or false");
}

double ConfigFile::NumberIn(const std::string& object, const std::string& key,
                            double otherwise) const {
  const auto is_number = [](const Json& value) {
    return value.is_number() && value.get<double>() >= 0.0;
  };
  const Json from = object.empty() ? json_ : json_.value(object, Json());
  return from.is_object()
             ? ValueOf(from, key, otherwise, is_number, "a number, 0 or more")
             : otherwise;
}

double ConfigFile::Number(const std::string& key, double otherwise) const {
  return NumberIn("", key, otherwise);
}

std::string ConfigFile::Text(const std::string& key,
                             const std::string& otherwise) const {
  return ValueOf(
      json_, key, otherwise,
      [](const Json& value) { return value.is_string(); }, "text");
}

int ConfigFile::Count(const std::string& key, const std::string& value) const {
  if (!Has(key) || !json_.at(key).is_array()) {
    return 0;
  }
  const Json& list = json_.at(key);
  return static_cast<int>(std::count(list.begin(), list.end(), Json(value)));
}

std::string ConfigFile::Name() const {
  const std::string stem = path_.stem().string();
  if (stem != "config") {
    return stem;
  }
  const std::string folder = std::filesystem::absolute(path_)
                                 .lexically_normal()
                                 .parent_path()
                                 .filename()
                                 .string();
  return Text("_name_or_path", folder);
}

}  // namespace trials
