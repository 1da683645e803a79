#include "planners/operators/link_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "common/error.h"
#include "common/files.h"
#include "common/text.h"

namespace planners {
namespace {

constexpr double kMbPerUs = 1e-3;  // of 1 GB/s, with Aceso's megabytes

std::vector<double> Numbers(const std::vector<std::string_view>& cells,
                            const std::string& place) {
  std::vector<double> numbers;
  for (std::size_t i = 1; i < cells.size(); ++i) {
    const double number = common::NumberOrNan(cells[i]);
    if (!(number >= 0.0)) {
      throw common::InputError(fmt::format(
          "{}: '{}': must be a number, at least 0", place, cells[i]));
    }
    numbers.push_back(number);
  }
  return numbers;
}

// The ranks in "2gpus", "4gpus", ...; 0 for other text.
int RanksIn(std::string_view text) {
  int ranks = 0;
  std::size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    ranks = 10 * ranks + (text[i] - '0');
  }
  return text.substr(i) == "gpus" ? ranks : 0;
}

}  // namespace

LinkTable LinkTable::Read(const std::filesystem::path& path,
                          std::string_view model) {
  LinkTable table;
  const std::string text = common::ReadFile(path);
  const std::array<std::string, 2> links = {"p2p_intra_node", "p2p_inter_node"};
  const std::array<std::pair<std::string, Collective>, 2> kinds = {
      {{fmt::format("prim_{}_all_gather_", model), Collective::kAllGather},
       {fmt::format("prim_{}_all_to_all_", model), Collective::kAllToAll}}};
  int line = 0;
  for (std::string_view row : common::Split(text, '\n')) {
    ++line;
    row = common::Trim(row);
    const auto cells = common::Split(row, ',');
    const std::string place = fmt::format("{}:{}", path.string(), line);
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (cells[0] == links[i]) {  // the second line overwrites the sizes
        table.gb_per_s_[i] = Numbers(cells, place);
      }
    }
    for (const auto& kind : kinds) {
      if (!cells[0].starts_with(kind.first) || row.find("(MB)") != row.npos) {
        continue;
      }
      const std::vector<double> numbers = Numbers(cells, place);
      if (numbers.size() != 2) {
        throw common::InputError(place + ": must have a size and a time");
      }
      const int ranks = RanksIn(cells[0].substr(kind.first.size()));
      table.collectives_[{kind.second, ranks}]
                        [static_cast<int>(std::lround(numbers[0]))] =
          numbers[1];
    }
  }
  if (table.gb_per_s_[0].empty() || table.gb_per_s_[1].empty()) {
    throw common::InputError(
        fmt::format("{}: must have lines p2p_intra_node and p2p_inter_node",
                    path.string()));
  }
  return table;
}

LinkTable LinkTable::Uniform(double within_hosts_gb_per_s,
                             double between_hosts_gb_per_s, int gpus_per_node) {
  LinkTable table;
  table.gpus_per_node_ = gpus_per_node;
  table.gb_per_s_ = {std::vector{within_hosts_gb_per_s},
                     std::vector{between_hosts_gb_per_s}};
  return table;
}

double LinkTable::TransferUs(double mb, bool between_hosts) const {
  if (!(mb > 0.0)) {
    return 0.0;
  }
  const std::vector<double>& rates = gb_per_s_[between_hosts ? 1 : 0];
  const int below = static_cast<int>(std::floor(std::log2(mb))) - 1;
  const int last = static_cast<int>(rates.size()) - 1;
  return mb / (rates[std::clamp(below, 0, last)] * kMbPerUs);
}

double LinkTable::CollectiveUs(Collective kind, int ranks, double mb) const {
  if (kind == Collective::kSplit) {
    return 0.0;
  }
  if (gpus_per_node_ > 0) {
    const double rate = gb_per_s_[ranks > gpus_per_node_ ? 1 : 0].front();
    const double tensors =
        kind == Collective::kAllGather ? ranks - 1.0 : (ranks - 1.0) / ranks;
    return tensors * mb / (rate * kMbPerUs);
  }
  const auto found = collectives_.find({kind, ranks});
  if (found != collectives_.end()) {
    const int size = static_cast<int>(std::nearbyint(mb));
    for (const int each : {size, static_cast<int>(std::nearbyint(mb - 1.0))}) {
      const auto time = found->second.find(each);
      if (time != found->second.end()) {
        return time->second * 1e3;
      }
    }
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace planners
