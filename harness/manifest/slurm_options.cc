#include "harness/manifest/slurm_options.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "common/process.h"
#include "common/toml_table.h"

namespace harness {
namespace {

using common::TomlTable;

constexpr std::size_t kMaxLength = 200;

// Options of sbatch that oppa sets, or with which it could not find its jobs.
constexpr std::array<std::string_view, 24> kOwnOptions = {
    "account",     "array",        "chdir",    "clusters", "comment",
    "constraint",  "dependency",   "deadline", "error",    "export",
    "export-file", "get-user-env", "hold",     "input",    "job-name",
    "no-requeue",  "open-mode",    "output",   "parsable", "partition",
    "qos",         "requeue",      "time",     "wrap"};

bool IsPlain(std::string_view text) {
  return text.size() <= kMaxLength &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 127; });
}

// Reads a value over its default.
void Read(const TomlTable& table, std::string_view key, std::string& value) {
  value = table.GetString(key, value);
  if (!IsPlain(value)) {
    table.Fail(key, fmt::format("{}: at most {} printable ASCII characters",
                                key, kMaxLength));
  }
}
void Read(const TomlTable& table, std::string_view key, int& value) {
  value = table.GetIntIn(key, value, key == "cpus" ? 1 : 0);
}
void Read(const TomlTable& table, std::string_view key, bool& value) {
  value = table.GetBool(key, value);
}
void Read(const TomlTable& table, std::string_view key,
          std::vector<std::string>& values) {
  if (table.Has(key)) {
    values = table.GetStrings(key);
  }
}
void Read(const TomlTable& table, std::string_view key,
          SlurmOptions::Resources& value) {
  const std::string text =
      table.GetString(key, std::string(common::ToString(value)));
  try {
    common::FromText(text, value);
  } catch (const common::InputError& e) {
    table.Fail(key, fmt::format("{}: {}", key, e.what()));
  }
}

// Checks an option of sbatch. sbatch accepts abbreviations, so abbreviations of
// the options that oppa sets are rejected too.
void CheckOption(const TomlTable& table, const std::string& option) {
  const std::string_view text = option;
  const std::string_view name = text.substr(0, text.find('='));
  const bool well_formed =
      IsPlain(option) && name.size() > 2 && name.starts_with("--") &&
      std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
      });
  if (!well_formed) {
    table.Fail("options",
               fmt::format("option '{}': write sbatch options as --name or "
                           "--name=value, one per element",
                           option));
  }
  const bool own =
      std::ranges::any_of(kOwnOptions, [&](std::string_view known) {
        return known.starts_with(name.substr(2));
      });
  if (own) {
    table.Fail("options",
               fmt::format("option '{}' is set by oppa: use the key of [slurm] "
                           "for it, if there is one",
                           option));
  }
}

void CheckVariable(const TomlTable& table, const std::string& variable) {
  const std::string name = variable.substr(0, variable.find('='));
  const bool well_formed =
      !name.empty() && std::ranges::all_of(name, [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               (c >= '0' && c <= '9') || c == '_';
      });
  if (!well_formed || name.starts_with("SLURM_") ||
      name.starts_with("SBATCH_")) {
    table.Fail("environment",
               fmt::format("variable '{}': write NAME or NAME=value; names of "
                           "Slurm's own (SLURM_*, SBATCH_*) cannot be set",
                           variable));
  }
}

}  // namespace

SlurmOptions ReadSlurmOptions(const TomlTable& table,
                              const SlurmOptions& defaults) {
  SlurmOptions options = defaults;
  VisitFields(options, [&table](std::string_view key, auto& value) {
    Read(table, key, value);
  });
  Read(table, "resources", options.resources);
  for (const std::string& option : options.options) {
    CheckOption(table, option);
  }
  for (const std::string& variable : options.environment) {
    CheckVariable(table, variable);
  }
  table.RejectUnknownKeys();
  return options;
}

std::filesystem::path SlurmSiteFile() {
  using common::EnvironmentValue;
  if (auto site = EnvironmentValue("OPPA_SLURM_SITE"); !site.empty()) {
    return site;
  }
  std::filesystem::path folder = EnvironmentValue("XDG_CONFIG_HOME");
  if (folder.empty()) {
    folder = std::filesystem::path(EnvironmentValue("HOME")) / ".config";
  }
  return folder / "oppa" / "slurm.toml";
}

SlurmOptions SlurmOptionsFor(const TomlTable& manifest) {
  SlurmOptions site;
  const std::filesystem::path file = SlurmSiteFile();
  if (std::filesystem::exists(file)) {
    site = ReadSlurmOptions(TomlTable::ParseFile(file), {});
  }
  return ReadSlurmOptions(manifest, site);
}

}  // namespace harness
