// All valid parallelism configurations of a problem, each exactly once.

#ifndef TRIALS_SEARCH_SPACE_H_
#define TRIALS_SEARCH_SPACE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/toml_table.h"
#include "trials/parallel_config.h"
#include "trials/rules.h"
#include "trials/workload.h"

namespace trials {

// What may be tried. A field without an entry in `values` takes its default
// grid: for dp, tp and pp the numbers that divide the GPUs; buckets of 1, 4,
// 16, ..., 4096 MB; ZeRO 0-3; both values of a flag; powers of two up to the
// batch for microbatches and up to the layers for chunks; for ep the numbers
// that divide the GPUs if the model has experts. sp and cp are off unless
// listed, and micro_batch_size stands at its default, which is all that can be
// asked of it.
//
// A grid restricts a knob where it has an effect. Where it has none the knob
// takes its default, also if that is not in the grid: `microbatches = [8]`
// keeps pp = 1, and `zero_stage = [1]` keeps dp = 1.
//
// Source: OPPA Table 1, App. C.1; Table 4 prints ranges of these bucket sizes.
struct SearchSpaceOptions {
  std::map<std::string, std::vector<int>, std::less<>> values;  // by field name
  std::vector<Rule> rules;  // a configuration that matches one is dropped
  std::string where;        // "file:line:column" for messages, may be empty
};

// Reads the [space] table of a manifest: `rule_sets = ["colossalai"]` (files
// NAME.rules of the rules folder, or a path relative to the manifest),
// `rules = ["$tp > 4 && $pp > 1"]` (the user's own), and a list per field
// (`dp_bucket_mb = [1, 64]`).
// Errors: throws InputError for an unknown field or rule set, a value out of
// the field's range, an empty list, a field given twice.
[[nodiscard]] SearchSpaceOptions ReadSearchSpaceOptions(
    const common::TomlTable& table, const std::filesystem::path& rules_folder);

// Why these values cannot be a field's grid ("" if they can): micro_batch_size
// stands at its default.
[[nodiscard]] std::string GridProblem(std::string_view field,
                                      const std::vector<int>& values);

// The values of Rule::ContextVariables() for a problem.
[[nodiscard]] Rule::Context RuleContext(const Workload& workload, int gpus);

// A finite, ordered set of configurations. The order is that of
// enumeration (ascending, field by field, dp outermost) or of the table it came
// from; an index into it identifies a candidate everywhere.
class SearchSpace {
 public:
  // How many configurations a rule, and no rule before it, dropped. Counted are
  // canonical configurations of the product of the grids: points that differ
  // only in knobs without effect are one configuration and count once. So
  // size() and the counts add up to all canonical configurations of the grids.
  // A rule that dropped nothing is listed with 0.
  struct Dropped {
    std::string rule;
    std::string origin;  // "built in", a rule set's name, "manifest"
    std::int64_t count = 0;
  };

  // A list as it stands. Throws InputError if a configuration comes twice.
  explicit SearchSpace(std::vector<ParallelConfig> configs);

  // Enumerates the canonical configurations (see Canonical) of the product of
  // the grids and drops what is invalid, in this order:
  //
  //   dp * tp * pp * cp != num_gpus
  //   heads % tp != 0
  //   kv_heads % tp != 0
  //   sequence_length % cp != 0
  //   pp * model_chunks > layers
  //   batch_size % (dp * microbatches) != 0
  //   microbatches < pp                        the pipeline never fills
  //   model_chunks > 1 && microbatches % pp != 0    interleaving would deadlock
  //   dp % ep != 0                          experts are spread over dp ranks
  //   ep > 1 && experts % ep != 0
  //   options.rules, one after the other
  //
  // Time is that of the configurations left after the built-in rules: whole
  // families are dropped, and counted, unseen.
  // Source: OPPA App. C.1, I.3 (ep); the schedules of Colossal-AI and
  // Megatron-LM.
  // Errors: throws InputError when no dp * tp * pp * cp of the grids is the
  // number of GPUs, and when nothing is left, naming the rule that dropped
  // most.
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
//
//   dp = 1                       => ZeRO 0 (there is nothing to shard over)
//   ZeRO 0                       => ZeRO bucket and overlaps default
//   ZeRO > 0 or pp > 1 or dp = 1 => DP bucket default
//   pp = 1                       => microbatches = model_chunks = 1
//   model_chunks = 1             => overlap_p2p off
//   tp = 1                       => sp off
//
// Source: OPPA App. C.1; the DP bucket is of the plain data-parallel wrapper,
// which the paper's framework uses without ZeRO and pipeline only.
[[nodiscard]] ParallelConfig Canonical(ParallelConfig config);

// Whether a value of the field other than its default would mean something in
// this configuration: it would outlast Canonical.
[[nodiscard]] bool HasEffect(const ConfigField& field, ParallelConfig config);

}  // namespace trials

#endif  // TRIALS_SEARCH_SPACE_H_
