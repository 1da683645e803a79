// Measured rates of collectives within a host.

#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trials {

// Rates by kind, ranks and size of the message, as nccl-tests measures them
// within a host (experiments/links/<name>.toml). Between two sizes the time is
// linear in bytes, between numbers of ranks the rate in their logarithm. A
// smaller message takes as long as the smallest one of the table, a larger one
// has the rate of the largest one; fewer and more ranks have the rates of the
// nearest number.
//
// Units: bytes of the whole buffer on one rank (all-gather: of the gathered
// buffer); a rate is the bus bandwidth, what a rank of D sends over the time:
// 2 (D - 1) / D of an all-reduce, half of it otherwise.
struct CollectiveRates {
  enum class Kind { kAllReduce, kAllGather, kReduceScatter, kAllToAll };
  static constexpr std::size_t kKinds = 4;

  std::string name;
  // A link of this bandwidth has these rates; another one a multiple of them.
  double bandwidth_bytes_per_s = 0.0;
  double least_bytes = 0.0;   // the sizes double from here
  std::vector<double> ranks;  // ascending
  std::array<std::vector<std::vector<double>>, kKinds>
      bytes_per_s;  // [ranks][sizes]

  // The rate on a link of this bandwidth.
  [[nodiscard]] double BytesPerSecond(Kind kind, int ranks, double bytes,
                                      double link_bytes_per_s) const;
};

// Errors: throws InputError with file:line:column.
[[nodiscard]] CollectiveRates ReadCollectiveRates(
    const std::filesystem::path& path);

// The rates with that name; read once and cached.
// Errors: throws InputError for an unknown name, listing the known ones.
[[nodiscard]] const CollectiveRates& FindCollectiveRates(std::string_view name);

}  // namespace trials
