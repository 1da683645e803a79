#include "common/json.h"

#include <algorithm>

#include "common/hash.h"
#include "common/text.h"

namespace common {
namespace {

constexpr const char* kCheck = "check";

// "line:column", counted from 1, of a byte that is counted from 1.
std::string LineAndColumn(std::string_view text, std::size_t byte) {
  const std::string_view before =
      text.substr(0, std::min(byte == 0 ? 0 : byte - 1, text.size()));
  const std::size_t newline = before.rfind('\n');
  const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  return fmt::format("{}:{}", std::ranges::count(before, '\n') + 1,
                     before.size() - begin + 1);
}

std::string CheckOf(const Json& json) {
  return fmt::format("{:016x}", Hash(ToText(json)));
}

}  // namespace

Json ParseJson(std::string_view text, const std::string& source) {
  if (IsTooDeep(text)) {
    throw InputError(fmt::format("{}: nested deeper than {} levels", source,
                                 kDeepestNesting));
  }
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    throw InputError(fmt::format("{}:{}: this is not valid JSON", source,
                                 LineAndColumn(text, e.byte)));
  } catch (const Json::exception& e) {  // a number that no double holds
    FailToConvert(source, e);
  }
}

Json ParseObject(std::string_view text, const std::string& source) {
  Json json = ParseJson(text, source);
  if (!json.is_object()) {
    throw InputError(
        fmt::format("{}: must be an object, not {}", source, json.type_name()));
  }
  return json;
}

std::string JsonProblem(const std::string& source,
                        const std::exception& error) {
  std::string_view reason = error.what();
  if (reason.starts_with("[json.exception.")) {
    reason.remove_prefix(std::min(reason.find("] ") + 2, reason.size()));
  }
  return fmt::format("{}: {}", source, reason);
}

void FailToConvert(const std::string& source, const std::exception& error) {
  throw InputError(JsonProblem(source, error));
}

Json ReadJson(const std::filesystem::path& path) {
  return ParseJson(ReadFile(path), path.string());
}

std::string ToText(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string SealedText(Json json) {
  json[kCheck] = CheckOf(json);
  return ToText(json, 2) + "\n";
}

bool Unseal(Json& json, const std::string& source) {
  if (!json.is_object() || !json.contains(kCheck)) {
    return false;
  }
  const Json check = json[kCheck];
  json.erase(kCheck);
  if (check != CheckOf(json)) {
    throw InputError(fmt::format(
        "{}: it does not match its check value: it was damaged or edited; "
        "restore it, or move it away",
        source));
  }
  return true;
}

}  // namespace common
