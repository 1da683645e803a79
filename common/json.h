// JSON files. Parsing and printing are compiled once, here.

#pragma once

#include <cmath>
#include <concepts>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/fields.h"
#include "common/files.h"

namespace common {

// Keeps the order in which keys were written.
using Json = nlohmann::ordered_json;

// Errors: throws InputError "source:line:column: ..." for text that is not
// JSON.
[[nodiscard]] Json ParseJson(std::string_view text, const std::string& source);

// Errors: those of ReadFile and ParseJson.
[[nodiscard]] Json ReadJson(const std::filesystem::path& path);

// As text without a newline at its end; `indent` < 0: in one line. Bytes that
// are not UTF-8 are replaced by U+FFFD.
[[nodiscard]] std::string ToText(const Json& json, int indent = -1);

// The content of a file with this object and a last key "check": a hash of the
// rest, by which Unseal finds damage.
[[nodiscard]] std::string SealedText(Json json);

// Removes that key. Returns whether there was one: files of earlier versions
// have none.
// Errors: throws InputError if the rest is not what was sealed.
bool Unseal(Json& json, const std::string& source);

// A list of structs with fields, of enumerations with names, or of numbers that
// may be NaN or infinite.
template <typename T>
concept IsListOfFields = requires(T& list) {
  list.begin();
  list.emplace_back();
}
&&(HasFields<const typename T::value_type> ||
   std::is_enum_v<typename T::value_type> ||
   std::is_floating_point_v<typename T::value_type>);

// The integer that a JSON number is; 3.0 is one, 3.5 and true are none.
// Errors: throws std::invalid_argument for another value and for a number that
// T does not hold.
template <std::integral T>
[[nodiscard]] T ToInteger(const Json& json) {
  constexpr T kLeast = std::numeric_limits<T>::min();
  constexpr T kMost = std::numeric_limits<T>::max();
  bool fits = false;
  if (json.is_number_unsigned()) {
    fits = std::in_range<T>(json.template get<std::uint64_t>());
  } else if (json.is_number_integer()) {
    fits = std::in_range<T>(json.template get<std::int64_t>());
  } else if (json.is_number_float()) {
    const auto value = json.template get<double>();
    // kMost + 1 is a power of two, thus exact.
    fits = value == std::trunc(value) && value >= static_cast<double>(kLeast) &&
           value < std::ldexp(1.0, std::numeric_limits<T>::digits);
  }
  if (!fits) {
    throw std::invalid_argument(
        fmt::format("it must be an integer from {} to {}, not {}", kLeast,
                    kMost, ToText(json)));
  }
  return json.template get<T>();
}

// A value as JSON: structs with fields, lists and optional values of them,
// types with a text form, paths and the types that nlohmann::json supports.
// JSON has no NaN and no infinity: they are null, "inf" and "-inf". FromJson is
// the inverse; an optional field may be missing.
// Errors: FromJson throws Json::exception for a missing key and
// std::invalid_argument for a text or a number that is no T. A wrong type is
// one of the two.
template <typename T>
[[nodiscard]] Json ToJson(const T& value) {
  if constexpr (HasFields<const T>) {
    Json json = Json::object();
    VisitFields(value, [&json](const char* name, const auto& field) {
      json[name] = ToJson(field);
    });
    return json;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isinf(value)) {
      return value > 0.0 ? "inf" : "-inf";
    }
    return std::isnan(value) ? Json(nullptr) : Json(value);
  } else if constexpr (requires { value.has_value(); }) {
    return value.has_value() ? ToJson(*value) : Json(nullptr);
  } else if constexpr (HasText<T>) {
    return std::string(ToString(value));
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    return value.string();
  } else if constexpr (IsListOfFields<T>) {
    Json json = Json::array();
    for (const auto& item : value) {
      json.push_back(ToJson(item));
    }
    return json;
  } else {
    return value;
  }
}

template <typename T>
void FromJson(const Json& json, T& value);

// What JSON lacks, without what the library that found it puts before it.
[[nodiscard]] std::string JsonProblem(const std::string& source,
                                      const std::exception& error);

// A field of an object; std::invalid_argument names it.
template <typename T>
void FromField(const Json& json, const char* name, T& field) {
  try {
    if constexpr (requires { field.has_value(); }) {
      FromJson(json.value(name, Json()), field);
    } else {
      FromJson(json.at(name), field);
    }
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(fmt::format("{}: {}", name, e.what()));
  } catch (const Json::type_error& e) {
    throw std::invalid_argument(JsonProblem(name, e));
  }
}

template <typename T>
void FromJson(const Json& json, T& value) {
  if constexpr (HasFields<T>) {
    VisitFields(value, [&json](const char* name, auto& field) {
      FromField(json, name, field);
    });
  } else if constexpr (std::integral<T> && !std::is_same_v<T, bool>) {
    value = ToInteger<T>(json);
  } else if constexpr (std::is_floating_point_v<T>) {
    constexpr T kUnbounded = std::numeric_limits<T>::infinity();
    value = json.is_null()   ? std::numeric_limits<T>::quiet_NaN()
            : json == "inf"  ? kUnbounded
            : json == "-inf" ? -kUnbounded
                             : json.get<T>();
  } else if constexpr (requires { value.has_value(); }) {
    value.reset();
    if (!json.is_null()) {
      FromJson(json, value.emplace());
    }
  } else if constexpr (HasText<T>) {
    FromText(json.get<std::string>(), value);
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    value = json.get<std::string>();
  } else if constexpr (IsListOfFields<T>) {
    if (!json.is_array()) {
      throw std::invalid_argument(
          fmt::format("it must be an array, not {}", json.type_name()));
    }
    value.clear();
    for (const Json& item : json) {
      FromJson(item, value.emplace_back());
    }
  } else {
    json.get_to(value);
  }
}

// Errors: those of ParseJson; throws InputError for a value that is not an
// object.
[[nodiscard]] Json ParseObject(std::string_view text,
                               const std::string& source);

// Throws InputError that names the source of JSON without an expected value.
[[noreturn]] void FailToConvert(const std::string& source,
                                const std::exception& error);

// A struct with fields from JSON, a text or a file.
// Errors: throw InputError that names the source for text that is not JSON, a
// missing key or a value of another type.
template <HasFields T>
[[nodiscard]] T JsonAs(const Json& json, const std::string& source) {
  try {
    T value;
    FromJson(json, value);
    return value;
  } catch (const Json::exception& e) {
    FailToConvert(source, e);
  } catch (const std::invalid_argument& e) {  // of FromText and ToInteger
    FailToConvert(source, e);
  }
}
template <HasFields T>
[[nodiscard]] T ParseJsonAs(std::string_view text, const std::string& source) {
  return JsonAs<T>(ParseObject(text, source), source);
}
template <HasFields T>
[[nodiscard]] T ReadJsonAs(const std::filesystem::path& path) {
  return ParseJsonAs<T>(ReadFile(path), path.string());
}
// Nothing if there is no such file.
template <HasFields T>
[[nodiscard]] std::optional<T> ReadJsonIfExists(
    const std::filesystem::path& path) {
  const std::optional<std::string> text = ReadFileIfExists(path);
  return text ? std::optional(ParseJsonAs<T>(*text, path.string()))
              : std::nullopt;
}

// The struct in a file of SealedText, or of an earlier version.
// Errors: as ReadJsonAs and Unseal.
template <HasFields T>
[[nodiscard]] T ReadSealedAs(const std::filesystem::path& path) {
  Json json = ParseObject(ReadFile(path), path.string());
  (void)Unseal(json, path.string());
  return JsonAs<T>(json, path.string());
}

// The inverse: the content of a file.
template <HasFields T>
[[nodiscard]] std::string JsonFileText(const T& value, int indent = 1) {
  return ToText(ToJson(value), indent) + "\n";
}

}  // namespace common
