#include "harness/names.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>

#include <fmt/format.h>

#include "common/ranges.h"
#include "common/toml_table.h"
#include "trials/record.h"

namespace harness {
namespace {

constexpr std::size_t kMaxNameLength = 64;

// Files and folders next to the folders of problems and methods.
constexpr std::array<std::string_view, 9> kReserved = {
    trials::kFigureFolder, "page.html",       "best.sh",
    "summary.csv",         "comparison.csv",  "pareto.csv",
    "summary.md",          "experiment.json", "problem.json"};

bool IsReserved(std::string_view name) {
  return common::Contains(kReserved, name);
}

bool IsSafe(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

bool IsSafeInName(char c) {
  return IsSafe(c) || c == ' ' || (c >= 'A' && c <= 'Z');
}

}  // namespace

bool IsSafeName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength &&
         std::ranges::all_of(name, IsSafeInName) && name[0] != '.' &&
         name[0] != '_' && name[0] != '-' && name[0] != ' ' &&
         name.back() != ' ' && !IsReserved(name);
}

void CheckName(const common::TomlTable& table, std::string_view key,
               std::string_view what, const std::string& name) {
  if (IsReserved(name)) {
    table.Fail(
        key, fmt::format("{} '{}' cannot be a folder name: oppa writes a file "
                         "or folder of that name; use another one",
                         what, name));
  }
  if (!IsSafeName(name)) {
    table.Fail(key,
               fmt::format("{} '{}' cannot be a folder name: use 1 to {} of "
                           "letters, digits, '.', '_', '-' and inner spaces, "
                           "a letter or digit first",
                           what, name, kMaxNameLength));
  }
}

std::string NamePart(const std::string& value) {
  const bool is_path = value.find('/') != std::string::npos ||
                       value.ends_with(".json") || value.ends_with(".toml");
  std::string part =
      is_path ? std::filesystem::path(value).stem().string() : value;
  for (char& c : part) {
    if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    }
    if (!IsSafe(c)) {
      c = '-';
    }
  }
  return part;
}

}  // namespace harness
