// All valid parallelism configurations of a problem, each exactly once.

#ifndef TRIALS_SEARCH_SPACE_H_
#define TRIALS_SEARCH_SPACE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trials/parallel_config.h"
#include "trials/rules.h"
#include "trials/toml_table.h"
#include "trials/workload.h"

namespace trials {

// What may be tried. A field without an entry in `values` takes its default
// grid: sizes that divide the GPUs, buckets 1, 4, 16, ..., 4096 MB, ZeRO 0-3,
// both values of a flag, powers of two up to the batch for microbatches, up
// to the layers for chunks.
struct SearchSpaceOptions {
  std::map<std::string, std::vector<int>, std::less<>> values;  // by field name
  std::vector<Rule> rules;  // a configuration that matches one is dropped
};

// Reads the [space] table of a manifest: `rule_sets = ["colossalai"]` (files
// experiments/rules/NAME.rules, or a path), `rules = ["$tp > 4 && $pp > 1"]`
// (the user's own), and a list per field (`dp_bucket_mb = [1, 64]`).
[[nodiscard]] SearchSpaceOptions ReadSearchSpaceOptions(
    const TomlTable& table, const std::filesystem::path& rules_folder);

// A finite, ordered set of configurations. The order is that of
// enumeration (field by field, dp outermost) or of the table it came from;
// an index into it identifies a candidate everywhere.
class SearchSpace {
 public:
  // How many configurations a rule, and no rule before it, dropped.
  struct Dropped {
    std::string rule;
    std::string origin;  // "built in", a rule set's name, "manifest"
    std::int64_t count = 0;
  };

  // A list as it stands. Throws InputError if a configuration comes twice.
  explicit SearchSpace(std::vector<ParallelConfig> configs);

  // Enumerates the raw product of the grids in canonical form (see
  // Canonical) and drops what is invalid: dp*tp*pp != gpus; tp does not divide
  // the attention heads and the KV heads; pp * model_chunks > layers;
  // microbatches do not divide the batch per rank; 1F1B with microbatches <
  // pp; interleaving with microbatches % pp != 0; and every rule that matches.
  // Throws InputError when nothing is left, naming the rule that dropped most.
  [[nodiscard]] static SearchSpace Enumerate(const Workload& workload,
                                             int gpus,
                                             const SearchSpaceOptions& options);

  [[nodiscard]] int size() const { return static_cast<int>(configs_.size()); }
  [[nodiscard]] const ParallelConfig& operator[](int index) const {
    return configs_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const std::vector<ParallelConfig>& configs() const {
    return configs_;
  }
  [[nodiscard]] const std::vector<Dropped>& dropped() const { return dropped_; }
  [[nodiscard]] std::optional<int> Find(const ParallelConfig& config) const;

  // Candidate indices grouped by (dp, tp, pp): the cells from which random
  // selection draws uniformly first. Source: OPPA App. E.1.
  [[nodiscard]] const std::vector<std::vector<int>>& cells() const {
    return cells_;
  }

 private:
  std::vector<ParallelConfig> configs_;
  std::vector<int> sorted_;  // indices by configuration, for Find
  std::vector<std::vector<int>> cells_;
  std::vector<Dropped> dropped_;
};

// The configuration with every knob that has no effect at its default:
// pp = 1 => microbatches = model_chunks = 1; model_chunks = 1 => overlap_p2p
// off; ZeRO 0 => ZeRO knobs default; ZeRO > 0 or pp > 1 or dp = 1 => DP bucket
// default; dp = 1 => ZeRO 0 is left to the rules.
[[nodiscard]] ParallelConfig Canonical(ParallelConfig config);

}  // namespace trials

#endif  // TRIALS_SEARCH_SPACE_H_
