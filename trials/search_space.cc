#include "trials/search_space.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"

namespace trials {
namespace {

using PC = ParallelConfig;
using Grids = std::map<std::string, std::vector<int>, std::less<>>;

std::vector<int> PowersOfTwo(int limit) {
  std::vector<int> values;
  for (std::int64_t value = 1; value <= limit; value *= 2) {
    values.push_back(static_cast<int>(value));
  }
  return values;
}

std::vector<int> Divisors(int number) {
  std::vector<int> values;
  for (int value = 1; value <= number; ++value) {
    if (number % value == 0) {
      values.push_back(value);
    }
  }
  return values;
}

// The grid of every field: the manifest's, or the default.
Grids MakeGrids(const Workload& workload, int gpus, const Grids& given) {
  const std::vector<int> sizes = Divisors(gpus);
  const std::vector<int> buckets_mb = {1, 4, 16, 64, 256, 1024, 4096};
  const std::vector<int> flag = {0, 1};
  const std::vector<int> off = {1};
  Grids grids = {{"dp", sizes},
                 {"tp", sizes},
                 {"pp", sizes},
                 {"dp_bucket_mb", buckets_mb},
                 {"zero_stage", {0, 1, 2, 3}},
                 {"zero_bucket_mb", buckets_mb},
                 {"overlap_zero_comm", flag},
                 {"overlap_zero_allgather", flag},
                 {"microbatches", PowersOfTwo(workload.batch_size)},
                 {"model_chunks", PowersOfTwo(workload.model.layers)},
                 {"overlap_p2p", flag},
                 {"grad_checkpoint", flag},
                 {"ep", workload.model.experts > 0 ? sizes : off}};
  for (const ConfigField& field : ConfigFields()) {
    const auto found = given.find(field.name);
    if (found != given.end() && !found->second.empty()) {
      grids[std::string(field.name)] = found->second;
    } else {
      grids.try_emplace(std::string(field.name),
                        std::vector<int>{field.get(ParallelConfig{})});
    }
  }
  return grids;
}

// The canonical configurations that `base` becomes by setting these fields to
// all combinations of their grids, ascending, each once.
std::vector<PC> Combinations(const PC& base,
                             const Grids& grids,
                             std::initializer_list<std::string_view> names) {
  std::vector<PC> raw = {base};
  for (const std::string_view name : names) {
    const ConfigField& field = *FindConfigField(name);
    std::vector<PC> longer;
    for (const PC& config : raw) {
      for (const int value : grids.find(name)->second) {
        longer.push_back(config);
        field.set(longer.back(), value);
      }
    }
    raw = std::move(longer);
  }
  std::set<PC> canonical;
  for (const PC& config : raw) {
    canonical.insert(Canonical(config));
  }
  return {canonical.begin(), canonical.end()};
}

// Counts what each rule dropped, the built-in ones in this order.
enum BuiltIn : std::size_t {
  kGpus,
  kHeads,
  kKvHeads,
  kSequence,
  kLayers,
  kBatch,
  kFill,
  kInterleave,
  kExpertRanks,
  kExperts,
  kBuiltInRules,
};

std::vector<SearchSpace::Dropped> NothingDropped(
    const std::vector<Rule>& rules) {
  static constexpr std::array<std::string_view, kBuiltInRules> kNames = {
      "dp * tp * pp * cp != num_gpus",
      "heads % tp != 0",
      "kv_heads % tp != 0",
      "sequence_length % cp != 0",
      "pp * model_chunks > layers",
      "batch_size % (dp * microbatches) != 0",
      "microbatches < pp",
      "model_chunks > 1 && microbatches % pp != 0",
      "dp % ep != 0",
      "ep > 1 && experts % ep != 0"};
  std::vector<SearchSpace::Dropped> dropped;
  for (const std::string_view name : kNames) {
    dropped.push_back({std::string(name), "built in", 0});
  }
  for (const Rule& rule : rules) {
    dropped.push_back({rule.expression(), rule.origin(), 0});
  }
  return dropped;
}

// The first built-in rule that drops every configuration of these sizes;
// kBuiltInRules if none does.
std::size_t FirstSizeRule(const PC& sizes, const Workload& workload, int gpus) {
  if (std::int64_t{sizes.dp} * sizes.tp * sizes.pp * sizes.cp != gpus) {
    return kGpus;
  }
  if (workload.model.attention_heads % sizes.tp != 0) {
    return kHeads;
  }
  if (workload.model.kv_heads % sizes.tp != 0) {
    return kKvHeads;
  }
  return workload.sequence_length % sizes.cp != 0 ? kSequence : kBuiltInRules;
}

// The same for a pipeline: sizes, microbatches and chunks.
std::size_t FirstPipelineRule(const PC& pipeline, const Workload& workload) {
  if (std::int64_t{pipeline.pp} * pipeline.model_chunks >
      workload.model.layers) {
    return kLayers;
  }
  if (workload.batch_size %
          (std::int64_t{pipeline.dp} * pipeline.microbatches) !=
      0) {
    return kBatch;
  }
  if (pipeline.microbatches < pipeline.pp) {
    return kFill;
  }
  const bool deadlock =
      pipeline.model_chunks > 1 && pipeline.microbatches % pipeline.pp != 0;
  return deadlock ? kInterleave : kBuiltInRules;
}

// The same for what depends on neither pipeline nor sharding.
std::size_t FirstOtherRule(const PC& other, const Model& model) {
  if (other.dp % other.ep != 0) {
    return kExpertRanks;
  }
  const bool uneven = model.experts == 0 || model.experts % other.ep != 0;
  return other.ep > 1 && uneven ? kExperts : kBuiltInRules;
}

// Enumerates a space family by family. Canonical() decides about the pipeline
// knobs, the sharding knobs and the rest independently of each other once the
// sizes are given, so the configurations of a (dp, tp, pp) are a product of
// three short lists, and a rule about one of them counts for the others.
class Enumeration {
 public:
  Enumeration(const Workload& workload,
              int gpus,
              const SearchSpaceOptions& options)
      : workload_(workload),
        gpus_(gpus),
        rules_(options.rules),
        context_(RuleContext(workload, gpus)),
        grids_(MakeGrids(workload, gpus, options.values)),
        dropped_(NothingDropped(options.rules)) {}

  void Run() {
    for (const PC& sizes :
         Combinations(PC{}, grids_, {"dp", "tp", "pp", "cp"})) {
      AddSizes(sizes);
    }
    std::sort(configs_.begin(), configs_.end());
  }

  [[nodiscard]] bool AnySizes() const { return any_sizes_; }
  [[nodiscard]] const Grids& grids() const { return grids_; }
  std::vector<PC>& configs() { return configs_; }
  std::vector<SearchSpace::Dropped>& dropped() { return dropped_; }

 private:
  void AddSizes(const PC& sizes) {
    const std::vector<PC> pipelines = Combinations(
        sizes, grids_, {"microbatches", "model_chunks", "overlap_p2p"});
    const std::vector<PC> shardings = Combinations(sizes,
                                                   grids_,
                                                   {"dp_bucket_mb",
                                                    "zero_stage",
                                                    "zero_bucket_mb",
                                                    "overlap_zero_comm",
                                                    "overlap_zero_allgather"});
    const std::vector<PC> others =
        Combinations(sizes, grids_, {"grad_checkpoint", "sp", "ep"});
    const auto family =
        static_cast<std::int64_t>(shardings.size() * others.size());

    const std::size_t rule = FirstSizeRule(sizes, workload_, gpus_);
    any_sizes_ = any_sizes_ || rule != kGpus;
    if (rule != kBuiltInRules) {
      dropped_[rule].count +=
          static_cast<std::int64_t>(pipelines.size()) * family;
      return;
    }
    for (const PC& pipeline : pipelines) {
      const std::size_t broken = FirstPipelineRule(pipeline, workload_);
      if (broken != kBuiltInRules) {
        dropped_[broken].count += family;
        continue;
      }
      for (const PC& other : others) {
        const std::size_t refused = FirstOtherRule(other, workload_.model);
        if (refused != kBuiltInRules) {
          dropped_[refused].count +=
              static_cast<std::int64_t>(shardings.size());
          continue;
        }
        for (const PC& sharding : shardings) {
          AddConfig(Merge(pipeline, sharding, other));
        }
      }
    }
  }

  static PC Merge(const PC& pipeline, const PC& sharding, const PC& other) {
    PC config = sharding;
    config.microbatches = pipeline.microbatches;
    config.model_chunks = pipeline.model_chunks;
    config.overlap_p2p = pipeline.overlap_p2p;
    config.grad_checkpoint = other.grad_checkpoint;
    config.sp = other.sp;
    config.ep = other.ep;
    return config;
  }

  void AddConfig(const PC& config) {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (rules_[i].Matches(config, context_)) {
        ++dropped_[kBuiltInRules + i].count;
        return;
      }
    }
    configs_.push_back(config);
  }

  const Workload& workload_;
  int gpus_;
  const std::vector<Rule>& rules_;
  Rule::Context context_;
  Grids grids_;
  bool any_sizes_ = false;
  std::vector<PC> configs_;
  std::vector<SearchSpace::Dropped> dropped_;
};

[[noreturn]] void FailAt(const std::string& where, const std::string& message) {
  throw common::InputError(
      where.empty() ? message : fmt::format("{}: {}", where, message));
}

// Most configurations of the grids are of another number of GPUs: the rule to
// name is another one.
std::string NothingLeft(int gpus,
                        const std::vector<SearchSpace::Dropped>& dropped) {
  const auto first = dropped.begin() + kGpus + 1;
  const auto most =
      std::max_element(first, dropped.end(), [](const auto& a, const auto& b) {
        return a.count < b.count;
      });
  const std::int64_t all = std::accumulate(
      first, dropped.end(), std::int64_t{0}, [](auto sum, const auto& each) {
        return sum + each.count;
      });
  return fmt::format(
      "none of the {} configurations of {} GPUs is valid; \"{}\" ({}) dropped "
      "most of them, {}: widen the grids or drop the rule",
      all,
      gpus,
      most->rule,
      most->origin,
      most->count);
}

}  // namespace

Rule::Context RuleContext(const Workload& workload, int gpus) {
  const Model& model = workload.model;
  return {{"num_gpus", gpus},
          {"layers", model.layers},
          {"heads", model.attention_heads},
          {"kv_heads", model.kv_heads},
          {"hidden_size", model.hidden_size},
          {"ffn_size", model.ffn_size},
          {"vocab_size", model.vocab_size},
          {"experts", model.experts},
          {"batch_size", workload.batch_size},
          {"sequence_length", workload.sequence_length},
          {"precision_bits", workload.precision == Precision::kFp32 ? 32 : 16}};
}

SearchSpace::SearchSpace(std::vector<ParallelConfig> configs)
    : configs_(std::move(configs)), sorted_(configs_.size()) {
  std::iota(sorted_.begin(), sorted_.end(), 0);
  std::sort(sorted_.begin(), sorted_.end(), [this](int a, int b) {
    return (*this)[a] < (*this)[b];
  });
  const auto same =
      std::adjacent_find(sorted_.begin(), sorted_.end(), [this](int a, int b) {
        return (*this)[a] == (*this)[b];
      });
  if (same != sorted_.end()) {
    throw common::InputError(fmt::format("the configuration {} is listed twice",
                                         ToString((*this)[*same])));
  }
  std::map<std::array<int, 3>, std::vector<int>> cells;
  for (int i = 0; i < size(); ++i) {
    const PC& config = (*this)[i];
    cells[{config.dp, config.tp, config.pp}].push_back(i);
  }
  for (auto& [sizes, cell] : cells) {
    cells_.push_back(std::move(cell));
  }
}

SearchSpace SearchSpace::Enumerate(const Workload& workload,
                                   int gpus,
                                   const SearchSpaceOptions& options) {
  if (gpus < 1) {
    FailAt(options.where, fmt::format("{} GPUs: at least 1 is needed", gpus));
  }
  for (const auto& [name, values] : options.values) {
    if (const std::string problem = GridProblem(name, values);
        !problem.empty()) {
      FailAt(options.where, problem);
    }
  }
  Enumeration enumeration(workload, gpus, options);
  enumeration.Run();
  if (!enumeration.AnySizes()) {
    const auto list = [&](std::string_view name) {
      return fmt::format(
          "{} in [{}]",
          name,
          fmt::join(enumeration.grids().find(name)->second, ", "));
    };
    FailAt(options.where,
           fmt::format(
               "no dp * tp * pp * cp is {}, the number of GPUs: {}, {}, {}, {}",
               gpus,
               list("dp"),
               list("tp"),
               list("pp"),
               list("cp")));
  }
  if (enumeration.configs().empty()) {
    FailAt(options.where, NothingLeft(gpus, enumeration.dropped()));
  }
  SearchSpace space(std::move(enumeration.configs()));
  space.dropped_ = std::move(enumeration.dropped());
  return space;
}

std::optional<int> SearchSpace::Find(const ParallelConfig& config) const {
  const auto found = std::lower_bound(
      sorted_.begin(),
      sorted_.end(),
      config,
      [this](int index, const PC& wanted) { return (*this)[index] < wanted; });
  if (found == sorted_.end() || (*this)[*found] != config) {
    return std::nullopt;
  }
  return *found;
}

ParallelConfig Canonical(ParallelConfig config) {
  const ParallelConfig defaults;
  if (config.dp == 1) {
    config.zero_stage = 0;
  }
  if (config.zero_stage == 0) {
    config.zero_bucket_mb = defaults.zero_bucket_mb;
    config.overlap_zero_comm = defaults.overlap_zero_comm;
    config.overlap_zero_allgather = defaults.overlap_zero_allgather;
  }
  if (config.zero_stage > 0 || config.pp > 1 || config.dp == 1) {
    config.dp_bucket_mb = defaults.dp_bucket_mb;
  }
  if (config.pp == 1) {
    config.microbatches = 1;
    config.model_chunks = 1;
  }
  if (config.model_chunks == 1) {
    config.overlap_p2p = false;
  }
  if (config.tp == 1) {
    config.sp = false;
  }
  return config;
}

bool HasEffect(const ConfigField& field, ParallelConfig config) {
  const int unset = field.get(ParallelConfig{});
  const int other = unset < field.maximum ? unset + 1 : field.minimum;
  field.set(config, other);
  return field.get(Canonical(config)) == other;
}

}  // namespace trials
