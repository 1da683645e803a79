#include "trials/gpu_architecture.h"

#include <map>
#include <mutex>

#include <fmt/format.h>

#include "common/toml_table.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

double Positive(const common::TomlTable& table, std::string_view key,
                double most) {
  const double value = table.RequireDouble(key);
  if (!(value > 0.0) || value > most) {
    table.Fail(key, fmt::format("{} is {}: must be above 0 and at most {}", key,
                                value, most));
  }
  return value;
}

double OptionalShare(const common::TomlTable& table, std::string_view key,
                     double fallback, double most) {
  return table.Has(key) ? Positive(table, key, most) : fallback;
}

}  // namespace

GpuArchitecture ReadGpuArchitecture(const std::filesystem::path& path) {
  constexpr double kMostOverhead = 4096.0;
  constexpr double kMostFlash = 2.0;
  constexpr double kMostTail = 10.0;
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  GpuArchitecture architecture;
  architecture.name = path.stem().string();
  architecture.tensor_fraction = Positive(table, "tensor_fraction", 1.0);
  architecture.single_fraction = Positive(table, "single_fraction", 1.0);
  architecture.memory_fraction = Positive(table, "memory_fraction", 1.0);
  architecture.fp8_fraction = OptionalShare(table, "fp8_fraction", 0.0, 1.0);
  architecture.flash_fraction = Positive(table, "flash_fraction", kMostFlash);
  architecture.flash_backward_fraction =
      Positive(table, "flash_backward_fraction", kMostFlash);
  architecture.flash_tail = OptionalShare(table, "flash_tail", 0.0, kMostTail);
  architecture.flash_backward_tail =
      OptionalShare(table, "flash_backward_tail", 0.0, kMostTail);
  architecture.softmax_columns =
      OptionalShare(table, "softmax_columns", 0.0, kMostOverhead);
  architecture.tile_overhead = Positive(table, "tile_overhead", kMostOverhead);
  architecture.epilogue_share =
      OptionalShare(table, "epilogue_share", 0.0, 1.0);
  architecture.wave_overlap = OptionalShare(table, "wave_overlap", 0.0, 1.0);
  architecture.unaligned_fraction = Positive(table, "unaligned_fraction", 1.0);
  architecture.validated = table.GetString("validated", "");
  table.RejectUnknownKeys();
  return architecture;
}

const GpuArchitecture& FindGpuArchitecture(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, GpuArchitecture, std::less<>> known;
  const std::lock_guard<std::mutex> lock(mutex);
  auto found = known.find(name);
  if (found == known.end()) {
    const std::string key(name);
    found =
        known.emplace(key, ReadGpuArchitecture(FindDataFile("hardware", key)))
            .first;
  }
  return found->second;
}

}  // namespace trials
