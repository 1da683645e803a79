#include "trials/collective_rates.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "common/toml_table.h"
#include "common/units.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

// The keys of CollectiveRates::Kind, in its order.
constexpr std::array<std::string_view, CollectiveRates::kKinds> kKindKeys = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all"};

// A line for each number of ranks, all as long as the first one.
std::vector<std::vector<double>> ReadKind(const common::TomlTable& kind,
                                          const std::vector<double>& ranks) {
  std::vector<std::vector<double>> rates;
  for (const double count : ranks) {
    const std::string key = fmt::format("ranks_{}", count);
    rates.push_back(kind.GetDoubles(key));
    std::vector<double>& line = rates.back();
    if (line.empty() || line.size() != rates.front().size() ||
        std::ranges::min(line) <= 0.0) {
      kind.Fail(key, fmt::format("{} must have as many rates above 0 as the "
                                 "other lines, GB/s of sizes that double",
                                 key));
    }
    for (double& rate : line) {
      rate *= common::kGiga;
    }
  }
  return rates;
}

// Where `x` is among ascending values: an index, and the share of the way to
// the next one.
std::pair<std::size_t, double> PlaceAmong(const std::vector<double>& values,
                                          double x) {
  const auto above = std::ranges::upper_bound(values, x);
  if (above == values.begin() || above == values.end()) {
    return {above == values.begin() ? 0 : values.size() - 1, 0.0};
  }
  const auto below = above - 1;
  return {below - values.begin(),
          std::log2(x / *below) / std::log2(*above / *below)};
}

}  // namespace

double CollectiveRates::BytesPerSecond(Kind kind, int group, double bytes,
                                       double link_bytes_per_s) const {
  const auto& table = bytes_per_s[static_cast<std::size_t>(kind)];
  const std::size_t last = table.front().size() - 1;
  const double size = std::max(1.0, bytes / least_bytes);
  const std::size_t i =
      std::min(last, static_cast<std::size_t>(std::ilogb(size)));
  const double doubled = std::ldexp(1.0, static_cast<int>(i));
  const auto at = [&](const std::vector<double>& line) {
    if (i == last) {
      return line[last];
    }
    // In units of the smallest size over a rate.
    const double time = std::lerp(
        doubled / line[i], 2.0 * doubled / line[i + 1], size / doubled - 1.0);
    return size / time;
  };
  const auto [place, share] = PlaceAmong(ranks, group);
  const double rate =
      share > 0.0 ? std::lerp(at(table[place]), at(table[place + 1]), share)
                  : at(table[place]);
  return rate * std::min(1.0, bytes / least_bytes) * link_bytes_per_s /
         bandwidth_bytes_per_s;
}

CollectiveRates ReadCollectiveRates(const std::filesystem::path& path) {
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  CollectiveRates rates;
  rates.name = path.stem().string();
  rates.bandwidth_bytes_per_s =
      table.RequirePositive("bandwidth_gb_per_s") * common::kGiga;
  rates.least_bytes = table.RequirePositive("least_mib") * common::kMebi;
  rates.ranks = table.GetDoubles("ranks");
  if (rates.ranks.empty() || !std::ranges::is_sorted(rates.ranks) ||
      rates.ranks.front() < 2.0) {
    table.Fail("ranks", "ranks must be an ascending list of 2 or more ranks");
  }
  for (std::size_t i = 0; i < kKindKeys.size(); ++i) {
    rates.bytes_per_s[i] =
        ReadKind(table.RequireTable(kKindKeys[i]), rates.ranks);
  }
  table.RejectUnknownKeys();
  return rates;
}

const CollectiveRates& FindCollectiveRates(std::string_view name) {
  return ReadDataFileOnce("links", name, ReadCollectiveRates);
}

}  // namespace trials
