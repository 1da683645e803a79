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
    Fail("no such file (a Hugging Face config.json is needed)");
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

int ConfigFile::Size(const std::string& key) const {
  if (!Has(key)) {
    Fail(fmt::format("the key '{}' is missing: an integer is needed", key));
  }
  const Json& value = json_.at(key);
  if (!value.is_number_integer() || value.get<std::int64_t>() < 1 ||
      value.get<std::int64_t>() > std::numeric_limits<int>::max()) {
    Fail(fmt::format("{} must be an integer from 1, not {}", key,
                     common::ToText(value)));
  }
  return value.get<int>();
}

int ConfigFile::Size(const std::string& key, int otherwise) const {
  return Has(key) ? Size(key) : otherwise;
}

bool ConfigFile::Flag(const std::string& key, bool otherwise) const {
  if (!Has(key)) {
    return otherwise;
  }
  const Json& value = json_.at(key);
  if (!value.is_boolean()) {
    Fail(fmt::format("{} must be true or false, not {}", key,
                     common::ToText(value)));
  }
  return value.get<bool>();
}

double ConfigFile::NumberOf(const common::Json& object, const std::string& key,
                            double otherwise) const {
  const auto value = object.find(key);
  if (value == object.end() || value->is_null()) {
    return otherwise;
  }
  if (!value->is_number() || !(value->get<double>() >= 0.0)) {
    Fail(fmt::format("{} must be a number from 0, not {}", key,
                     common::ToText(*value)));
  }
  return value->get<double>();
}

double ConfigFile::Number(const std::string& key, double otherwise) const {
  return NumberOf(json_, key, otherwise);
}

double ConfigFile::NumberIn(const std::string& object, const std::string& key,
                            double otherwise) const {
  return Has(object) && json_.at(object).is_object()
             ? NumberOf(json_.at(object), key, otherwise)
             : otherwise;
}

std::string ConfigFile::Text(const std::string& key,
                             const std::string& otherwise) const {
  if (!Has(key)) {
    return otherwise;
  }
  const Json& value = json_.at(key);
  if (!value.is_string()) {
    Fail(fmt::format("{} must be text, not {}", key, common::ToText(value)));
  }
  return value.get<std::string>();
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
