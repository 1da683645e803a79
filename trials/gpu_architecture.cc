#include "trials/gpu_architecture.h"

#include <map>
#include <mutex>

#include <fmt/format.h>

#include "common/toml_table.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

double Positive(const common::TomlTable& table,
                std::string_view key,
                double most) {
  const double value = table.RequireDouble(key);
  if (!(value > 0.0) || value > most) {
    table.Fail(
        key,
        fmt::format(
            "{} is {}: must be above 0 and at most {}", key, value, most));
  }
  return value;
}

}  // namespace

GpuArchitecture ReadGpuArchitecture(const std::filesystem::path& path) {
  constexpr double kMostOverhead = 4096.0;
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  GpuArchitecture architecture;
  architecture.name = path.stem().string();
  architecture.tensor_fraction = Positive(table, "tensor_fraction", 1.0);
  architecture.single_fraction = Positive(table, "single_fraction", 1.0);
  architecture.memory_fraction = Positive(table, "memory_fraction", 1.0);
  architecture.flash_fraction = Positive(table, "flash_fraction", 1.0);
  architecture.flash_backward_fraction =
      Positive(table, "flash_backward_fraction", 1.0);
  architecture.tile_overhead = Positive(table, "tile_overhead", kMostOverhead);
  architecture.unaligned_fraction = Positive(table, "unaligned_fraction", 1.0);
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
