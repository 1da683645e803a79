#include "trials/config_file.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "common/ranges.h"
#include "common/text.h"

namespace trials {

using common::Json;

namespace {

// Python's json writes NaN and Infinity, which JSON does not have: null
// instead, with the columns of the rest as they are where that is shorter.
std::string WithoutNonFinite(std::string_view text) {
  constexpr std::string_view kNull = "null";
  std::string plain;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escapes = quoted && text[i] == '\\' && i + 1 < text.size();
    quoted = quoted != (text[i] == '"');
    std::string_view found;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (!quoted && found.empty() && text.substr(i).starts_with(word)) {
        found = word;
      }
    }
    if (!found.empty()) {
      plain += kNull;
      plain.append(std::max(found.size(), kNull.size()) - kNull.size(), ' ');
      i += found.size() - 1;
    } else {
      plain += text[i];
      if (escapes) {
        plain += text[++i];
      }
    }
  }
  return plain;
}

}  // namespace

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
  constexpr std::size_t kMostBytes = 16U << 20U;  // far more than any has
  root_ = common::ParseJson(
      WithoutNonFinite(common::ReadFile(path_, kMostBytes)), path_.string());
  json_ = root_;
  if (!json_.is_object()) {
    Fail("a JSON object is needed, as in a Hugging Face config.json");
  }
  if (Json text = json_.value("text_config", Json()); text.is_object()) {
    for (const char* key : {"_name_or_path", "model_type"}) {
      if (!text.contains(key) && root_.contains(key)) {
        text[key] = root_.at(key);
      }
    }
    json_ = std::move(text);
  }
}

void ConfigFile::Fail(const std::string& message) const {
  throw common::InputError(fmt::format("{}: {}", path_.string(), message));
}

const Json* ConfigFile::Find(const std::string& key) const {
  constexpr std::string_view kRoot = "root.";
  const bool outside = key.starts_with(kRoot);
  const Json* value = outside ? &root_ : &json_;
  const std::string path = outside ? key.substr(kRoot.size()) : key;
  for (const std::string_view name : common::Split(path, '.')) {
    if (value == &root_ || value == &json_) {
      read_.emplace(name);
    }
    const auto found = value->find(name);
    if (found == value->end() || found->is_null()) {
      return nullptr;
    }
    value = &*found;
  }
  return value;
}

std::vector<std::string> ConfigFile::UnreadKeys() const {
  std::vector<std::string> unread;
  for (const Json* json : {&root_, &json_}) {
    for (const auto& [key, value] : json->items()) {
      const bool nothing = value.is_null() || value == Json(false) ||
                           value == Json(0) || value == Json("") ||
                           (value.is_structured() && value.empty());
      if (!nothing && !read_.contains(key) && !common::Contains(unread, key)) {
        unread.push_back(key);
      }
    }
  }
  return unread;
}

bool ConfigFile::IsSwitchedOff(const std::string& key) const {
  constexpr std::string_view kSwitch = "use_";
  for (const auto& [name, value] : json_.items()) {
    if (value == Json(false) && name.starts_with(kSwitch) &&
        key.find(name.substr(kSwitch.size())) != std::string::npos) {
      return true;
    }
  }
  return false;
}

bool ConfigFile::HasBlocks(const std::string& key) const {
  const auto found = json_.find(key);
  if (found == json_.end() || !found->is_object()) {
    return false;
  }
  return std::ranges::any_of(found->items(), [](const auto& item) {
    const std::string name = common::Lower(item.key());
    return item.value().is_number() &&
           (name.find("layers") != std::string::npos ||
            name.ends_with("width") || name == "hidden_size");
  });
}

double ConfigFile::Number(const std::string& key, double otherwise) const {
  const Json* const value = Find(key);
  if (value == nullptr) {
    return otherwise;
  }
  if (!value->is_number() || value->get<double>() < 0.0) {
    Fail(fmt::format("{} must be a number, 0 or more, not {}", key,
                     common::ToText(*value)));
  }
  return value->get<double>();
}

std::string ConfigFile::Text(const std::string& key,
                             const std::string& otherwise) const {
  const Json* const value = Find(key);
  if (value != nullptr && !value->is_string()) {
    Fail(fmt::format("{} must be text, not {}", key, common::ToText(*value)));
  }
  return value == nullptr ? otherwise : value->get<std::string>();
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
