// All valid parallelism configurations of a problem, each exactly once.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/toml_table.h"
#include "trials/knob_set.h"
#include "trials/rules.h"
#include "trials/workload.h"

namespace trials {

// The options of a search space. A knob without an entry in `values` takes the
// grid of its row.
//
// A grid restricts a knob where it is active. Where it is not, the knob takes
// its default, also if that is not in the grid: `model_chunks = [2]` keeps
// pp = 1, and `zero_stage = [1]` keeps dp = 1. A list of `micro_batch_size`
// replaces the grid of `microbatches` (Knob::Inverse).
//
// Source: OPPA Table 1, App. C.1; Table 4 prints ranges of these bucket sizes.
struct SearchSpaceOptions {
  KnobSet knobs = BuiltInKnobs();
  std::map<std::string, std::vector<int>, std::less<>> values;  // by knob name
  std::vector<Rule> rules;  // a configuration that matches one is dropped
  // The numbers of GPUs that configurations use, ascending; empty: that of the
  // cluster.
  std::vector<int> gpus;
  // Whether configurations of other numbers of GPUs count as dropped ones: they
  // are most of the product of the grids.
  bool counts_other_gpus = true;
  std::string where;  // "file:line:column" for messages, may be empty
  // As the fields of Framework; they relax constraints (ConstraintContext).
  bool ends_as_layers = false;
  bool whole_experts = false;
  bool shares_kv_heads = false;
};

// Reads the [space] table of a manifest: `rule_sets = ["colossalai"]` (files
// NAME.rules of the rules folder, or a path relative to the manifest),
// `rules = ["$tp > 4 && $pp > 1"]` (the user's own), `gpus = [8, 16]`, and a
// list per knob (`dp_bucket_mb = [1, 64]`).
// Errors: throws InputError for an unknown knob or rule set, a value out of the
// knob's range, an empty list, a knob given twice.
[[nodiscard]] SearchSpaceOptions ReadSearchSpaceOptions(
    const common::TomlTable& table, const std::filesystem::path& rules_folder,
    const KnobSet& knobs = BuiltInKnobs());

// A finite, ordered set of configurations. The order is that of
// enumeration (ascending, knob by knob, dp outermost) or of the table it came
// from; an index into it identifies a candidate everywhere.
class SearchSpace {
 public:
  // The number of configurations that a rule, and no rule before it, dropped.
  // These are canonical configurations of the product of the grids: points that
  // differ only in inactive knobs are one configuration and count once. So
  // size() and the counts add up to all canonical configurations of the grids.
  // A rule that dropped nothing is listed with 0.
  struct Dropped {
    std::string rule;
    std::string reason;  // in words, if the rule says it
    std::string origin;  // "built in", a rule set's name, "manifest"
    std::int64_t count = 0;
  };

  // A list, unchanged. Throws InputError if it contains a configuration twice.
  explicit SearchSpace(std::vector<ParallelConfig> configs,
                       KnobSet knobs = BuiltInKnobs());

  // Enumerates the canonical configurations (see Canonical) of the product of
  // the grids and drops what breaks one of Constraints() or matches one of
  // options.rules, in this order. With several options.gpus, the space is the
  // union of those of each number, and the counts are sums over them.
  //
  // The groups of knobs are independent once the sizes are given, so the
  // configurations of given sizes are a product of short lists, and a
  // constraint about one list counts for the others: whole families are
  // dropped, and counted, without being visited. Time is that of the
  // configurations that satisfy all constraints.
  // Source: OPPA App. C.1, I.3 (ep); the schedules of Colossal-AI and
  // Megatron-LM.
  // Errors: throws InputError when no dp * tp * pp * cp of the grids is the
  // number of GPUs (or one of them), when nothing is left, naming the rule that
  // dropped most, and for an unknown name in options.values.
  [[nodiscard]] static SearchSpace Enumerate(const Workload& workload, int gpus,
                                             const SearchSpaceOptions& options);

  [[nodiscard]] int size() const { return static_cast<int>(configs_.size()); }
  [[nodiscard]] const ParallelConfig& operator[](int index) const {
    return configs_[index];
  }
  [[nodiscard]] const std::vector<ParallelConfig>& configs() const {
    return configs_;
  }
  [[nodiscard]] const KnobSet& knobs() const { return knobs_; }
  [[nodiscard]] const std::vector<Dropped>& dropped() const { return dropped_; }
  // The batch size of the workload; 0 for a list.
  [[nodiscard]] int batch_size() const { return batch_size_; }
  [[nodiscard]] std::optional<int> Find(const ParallelConfig& config) const;

  // Candidate indices grouped by (dp, tp, pp): the cells from which random
  // selection draws uniformly first. Source: OPPA App. E.1.
  [[nodiscard]] const std::vector<std::vector<int>>& cells() const {
    return cells_;
  }

 private:
  KnobSet knobs_;
  std::vector<ParallelConfig> configs_;
  std::vector<int> sorted_;  // indices by configuration, for Find
  std::vector<std::vector<int>> cells_;
  std::vector<Dropped> dropped_;
  int batch_size_ = 0;
};

// The job that the rows of a measured table train: a workload, and the
// candidates of the table in its order with the settings that its columns lack,
// such as recomputation in every row.
struct TrainedJob {
  Workload workload;
  SearchSpace space;
  std::vector<std::filesystem::path> facts;  // the files that describe it
};

// A partial configuration from the user, completed from a space.
struct Completed {
  ParallelConfig config;
  std::vector<std::string>
      notes;  // sentences: values that were ignored or filled in
};

// Completes "dp=4,pp=2,zero_stage=1" to a configuration of the space: of those
// that have these sizes (1 where not given) and these values of active knobs
// (micro_batch_size gives microbatches, if they are not given),
// the one whose other knobs are nearest to their defaults (sizes and buckets by
// their logarithm). If there is none, the canonical form of the text itself,
// with a note.
// Errors: throws std::invalid_argument, see ParseParallelConfig, and for a
// micro_batch_size that does not divide the batch of a rank.
[[nodiscard]] Completed Complete(std::string_view text,
                                 const SearchSpace& space);

// A sentence that names the parameters whose listed values have no effect in
// any configuration of the space: "the list of model_chunks has no effect: no
// configuration has pp > 1". "" if there are none, or if the only value is the
// default.
[[nodiscard]] std::string InertLists(const SearchSpaceOptions& options,
                                     const SearchSpace& space);

}  // namespace trials
