#include "trials/gpu_architecture.h"

#include <array>

#include <fmt/format.h>

#include "common/toml_table.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

// A number of the file, above 0 and at most `most`.
struct RateKey {
  std::string_view key;
  double GpuArchitecture::*value;
  double most = 1.0;
  bool required = true;  // otherwise it may be 0, without a key
};
constexpr double kMostFlash = 2.0;
constexpr double kMostTail = 10.0;
constexpr double kMostColumns = 4096.0;
constexpr std::array<RateKey, 15> kRates = {{
    {"tensor_fraction", &GpuArchitecture::tensor_fraction},
    {"single_fraction", &GpuArchitecture::single_fraction},
    {"memory_fraction", &GpuArchitecture::memory_fraction},
    {"fp8_fraction", &GpuArchitecture::fp8_fraction, 1.0, false},
    {"flash_fraction", &GpuArchitecture::flash_fraction, kMostFlash},
    {"flash_backward_fraction", &GpuArchitecture::flash_backward_fraction,
     kMostFlash},
    {"cudnn_fraction", &GpuArchitecture::cudnn_fraction, kMostFlash, false},
    {"cudnn_backward_fraction", &GpuArchitecture::cudnn_backward_fraction,
     kMostFlash, false},
    {"flash_tail", &GpuArchitecture::flash_tail, kMostTail, false},
    {"flash_backward_tail", &GpuArchitecture::flash_backward_tail, kMostTail,
     false},
    {"softmax_columns", &GpuArchitecture::softmax_columns, kMostColumns, false},
    {"tile_overhead", &GpuArchitecture::tile_overhead, kMostColumns},
    {"epilogue_share", &GpuArchitecture::epilogue_share, 1.0, false},
    {"wave_overlap", &GpuArchitecture::wave_overlap, 1.0, false},
    {"unaligned_fraction", &GpuArchitecture::unaligned_fraction},
}};

}  // namespace

GpuArchitecture ReadGpuArchitecture(const std::filesystem::path& path) {
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  GpuArchitecture architecture;
  architecture.name = path.stem().string();
  for (const RateKey& rate : kRates) {
    if (!rate.required && !table.Has(rate.key)) {
      continue;
    }
    const double value = table.RequireDouble(rate.key);
    if (!(value > 0.0) || value > rate.most) {
      table.Fail(rate.key, fmt::format("{} is {}: must be above 0 and at most "
                                       "{}",
                                       rate.key, value, rate.most));
    }
    architecture.*(rate.value) = value;
  }
  architecture.validated = table.GetString("validated", "");
  table.RejectUnknownKeys();
  return architecture;
}

const GpuArchitecture& FindGpuArchitecture(std::string_view name) {
  return ReadDataFileOnce("hardware", name, ReadGpuArchitecture);
}

}  // namespace trials
