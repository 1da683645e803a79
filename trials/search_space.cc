#include "trials/search_space.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/ranges.h"
#include "trials/constraints.h"
#include "trials/knobs.h"
#include "trials/objective.h"

namespace trials {
namespace {

using PC = ParallelConfig;

[[noreturn]] void FailAt(const std::string& where, const std::string& message) {
  throw common::InputError(
      where.empty() ? message : fmt::format("{}: {}", where, message));
}

// Ten thousand times as many as in the problems of the paper, and about as many
// as fit into the memory of a laptop.
constexpr std::size_t kMostConfigs = 10'000'000;

[[noreturn]] void FailTooMany(const std::string& where,
                              const std::string& knob) {
  FailAt(where,
         fmt::format("the lists of {} and other fields make more than {} "
                     "configurations: shorten them",
                     knob, kMostConfigs));
}

// The knobs of one group with their grids, the manifest's or the default, and
// the constraints on them with their places in the list of what was dropped.
struct Family {
  std::vector<std::pair<const Knob*, std::vector<int>>> grids;
  std::vector<std::pair<const Constraint*, std::size_t>> constraints;
};

bool MultipliesGpus(const Knob& knob) {
  PC config;
  knob.Set(config, 2);
  return GpusOf(config) == 2;
}

// Of configurations that differ in inactive knobs of the family only, the one
// that has the first value of each, with these knobs at their defaults.
std::vector<PC> Canonical(const std::vector<PC>& raw, const Family& family) {
  std::vector<PC> canonical;
  canonical.reserve(raw.size());
  for (PC config : raw) {
    const bool first = std::ranges::all_of(family.grids, [&](const auto& row) {
      const auto& [knob, grid] = row;
      if (!knob->active.holds || knob->active.holds(config)) {
        return true;
      }
      const bool is_first = knob->Get(config) == grid.front();
      knob->Set(config, knob->Default());
      return is_first;
    });
    if (first) {
      canonical.push_back(config);
    }
  }
  return canonical;
}

// The canonical configurations that `base` becomes by setting the knobs of the
// family to all combinations of their grids, each once.
// None if a grid is empty: no value of its knob goes with these sizes.
// With `gpus`, those of other numbers of GPUs are left out; 0: none are.
// Precondition: with `gpus`, the grids whose values multiply GPUs come first.
std::vector<PC> Combinations(const PC& base, const Family& family,
                             const std::string& where, int gpus = 0) {
  std::vector<PC> raw = {base};
  for (std::size_t i = 0; i < family.grids.size(); ++i) {
    const auto& [knob, grid] = family.grids[i];
    const bool multiplies = gpus > 0 && MultipliesGpus(*knob);
    const bool last =
        multiplies && (i + 1 == family.grids.size() ||
                       !MultipliesGpus(*family.grids[i + 1].first));
    if (gpus == 0 && !grid.empty() && raw.size() > kMostConfigs / grid.size()) {
      FailTooMany(where, knob->name);
    }
    std::vector<PC> longer;
    longer.reserve(gpus > 0 ? raw.size() : raw.size() * grid.size());
    const auto leads_to_gpus = [last](int left, int value) {
      return last ? value == left : left % value == 0;
    };
    for (const PC& config : raw) {
      const int left = multiplies ? gpus / GpusOf(config) : 0;
      for (const int value : grid) {
        if (!multiplies || leads_to_gpus(left, value)) {
          knob->Set(longer.emplace_back(config), value);
        }
      }
    }
    raw = std::move(longer);
  }
  return Canonical(raw, family);
}

class Enumeration {
 public:
  Enumeration(const Workload& workload, int gpus,
              const SearchSpaceOptions& options)
      : rules_(options.rules),
        context_{.workload = workload,
                 .gpus = gpus,
                 .replicated_kv_heads = options.shares_kv_heads,
                 .ends_as_layers = options.ends_as_layers,
                 .whole_experts = options.whole_experts},
        rule_context_(RuleContext(workload, gpus)),
        where_(options.where),
        counts_other_gpus_(options.counts_other_gpus) {
    for (const auto& [name, values] : options.values) {
      const Knob* knob = options.knobs.Find(name);
      const std::string problem = knob == nullptr
                                      ? fmt::format("unknown field '{}'", name)
                                      : GridProblem(*knob, values);
      if (!problem.empty()) {
        FailAt(options.where, problem);
      }
    }
    for (const KnobGroup group : {KnobGroup::kSizes, KnobGroup::kPipeline,
                                  KnobGroup::kOther, KnobGroup::kSharding}) {
      families_.push_back(MakeFamily(group, options));
    }
    auto& sizes = families_.front().grids;
    // clang 14 cannot compile the one of std::ranges.
    std::stable_partition(sizes.begin(), sizes.end(), [](const auto& row) {
      return MultipliesGpus(*row.first);
    });
    lists_.resize(families_.size());
    FindListedInverse(options);
    built_in_ = dropped_.size();
    for (const Rule& rule : rules_) {
      dropped_.push_back({rule.expression(), rule.reason(), rule.origin(), 0});
      auto& knobs = rule_values_.emplace_back().knobs;
      for (const std::string& name : rule.KnobNames()) {
        knobs.push_back(&options.knobs.Require(name));
        if (const auto& inverse = knobs.back()->inverse; inverse.value) {
          knobs.push_back(&options.knobs.Require(inverse.knob));
          knobs.push_back(&options.knobs.Require("dp"));
        }
      }
    }
  }

  void Run() {
    for (const PC& sizes :
         Combinations(PC{}, families_.front(), where_,
                      counts_other_gpus_ ? 0 : context_.gpus)) {
      const Constraint& number_of_gpus = Constraints().front();
      if (!counts_other_gpus_ && number_of_gpus.broken(sizes, context_)) {
        continue;
      }
      SetInverseGrid(sizes);
      for (std::size_t i = 1; i < families_.size(); ++i) {
        lists_[i] = Combinations(sizes, families_[i], where_);
      }
      Extend(sizes, 0);
    }
    std::ranges::sort(configs_);
  }

  // The sizes with their grids: "dp in [1, 2], tp in [1, 2]".
  [[nodiscard]] std::string Sizes() const {
    std::string text;
    for (const auto& [knob, grid] : families_.front().grids) {
      text += fmt::format("{}{} in [{}]", text.empty() ? "" : ", ", knob->name,
                          fmt::join(grid, ", "));
    }
    return text;
  }
  [[nodiscard]] bool any_sizes() const { return any_sizes_; }
  std::vector<PC>& configs() { return configs_; }
  std::vector<SearchSpace::Dropped>& dropped() { return dropped_; }

 private:
  // A list of a knob that follows from another one.
  struct ListedInverse {
    const Knob* knob = nullptr;
    std::vector<int> values;
    std::vector<int>* grid = nullptr;  // of the other one, in families_
    std::size_t place = 0;             // in dropped_
  };

  void FindListedInverse(const SearchSpaceOptions& options) {
    for (const Knob& knob : options.knobs) {
      const auto given = options.values.find(knob.name);
      if (!knob.inverse.value || given == options.values.end() ||
          given->second == std::vector<int>{knob.Default()}) {
        continue;
      }
      const std::string& other = knob.inverse.knob;
      if (options.values.contains(other)) {
        FailAt(
            options.where,
            fmt::format("list {} or {}, not both: one follows from the other",
                        other, knob.name));
      }
      for (Family& family : families_) {
        for (auto& [target, grid] : family.grids) {
          if (target->name == other) {
            inverse_ = {&knob, given->second, &grid, dropped_.size()};
          }
        }
      }
      const std::string rule =
          fmt::format("a rank's batch has no whole number of {} of this {}",
                      other, knob.name);
      dropped_.push_back({rule, rule, "built in", 0});
    }
  }

  // Sets the grid of the other knob for these sizes.
  void SetInverseGrid(const PC& sizes) {
    if (inverse_.grid == nullptr) {
      return;
    }
    inverse_.grid->clear();
    for (const int value : inverse_.values) {
      const int other = inverse_.knob->inverse.value(
          sizes, value, context_.workload.batch_size);
      if (other > 0) {
        inverse_.grid->push_back(other);
      } else {
        ++dropped_[inverse_.place].count;
      }
    }
    std::ranges::sort(*inverse_.grid);
  }

  Family MakeFamily(KnobGroup group, const SearchSpaceOptions& options) {
    Family family;
    for (const Knob& knob : options.knobs) {
      if (knob.group != group) {
        continue;
      }
      std::vector<int> grid = {knob.Default()};
      const auto given = options.values.find(knob.name);
      if (given != options.values.end() && !given->second.empty()) {
        grid = given->second;
      } else if (knob.grid.values) {
        grid = knob.grid.values(context_.workload, context_.gpus);
      }
      std::ranges::sort(grid);
      grid.erase(std::unique(grid.begin(), grid.end()), grid.end());
      family.grids.emplace_back(&knob, std::move(grid));
    }
    for (const Constraint& constraint : Constraints()) {
      if (constraint.group == group) {
        family.constraints.emplace_back(&constraint, dropped_.size());
        dropped_.push_back({std::string(constraint.rule),
                            std::string(constraint.requirement), "built in",
                            0});
      }
    }
    return family;
  }

  // Adds the configurations that `config` becomes by the families after
  // `level`, or counts them if it breaks a constraint on the family `level`.
  void Extend(const PC& config, std::size_t level) {
    for (const auto& [constraint, place] : families_[level].constraints) {
      if (constraint->broken(config, context_)) {
        dropped_[place].count += std::accumulate(
            lists_.begin() + static_cast<std::ptrdiff_t>(level) + 1,
            lists_.end(), std::int64_t{1},
            [](std::int64_t product, const std::vector<PC>& list) {
              return product * static_cast<std::int64_t>(list.size());
            });
        return;
      }
      any_sizes_ = true;  // the first constraint is on the number of GPUs
    }
    if (level + 1 == families_.size()) {
      return AddConfig(config);
    }
    PC longer = config;
    for (const PC& values : lists_[level + 1]) {
      for (const auto& [knob, grid] : families_[level + 1].grids) {
        knob->Set(longer, knob->Get(values));
      }
      Extend(longer, level + 1);
    }
  }

  // The knobs that a rule reads, and whether it matches by their values.
  struct RuleValues {
    std::vector<const Knob*> knobs;
    std::map<std::vector<int>, bool> matches;
  };

  bool Matches(const Rule& rule, const PC& config, RuleValues& known) {
    values_.clear();
    for (const Knob* knob : known.knobs) {
      values_.push_back(knob->Get(config));
    }
    const auto found = known.matches.find(values_);
    return found != known.matches.end()
               ? found->second
               : known.matches
                     .emplace(values_, rule.Matches(config, rule_context_))
                     .first->second;
  }

  void AddConfig(const PC& config) {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (Matches(rules_[i], config, rule_values_[i])) {
        ++dropped_[built_in_ + i].count;
        return;
      }
    }
    if (configs_.size() >= kMostConfigs) {
      FailTooMany(where_, families_.back().grids.front().first->name);
    }
    configs_.push_back(config);
  }

  const std::vector<Rule>& rules_;
  ConstraintContext context_;
  Rule::Context rule_context_;
  std::string where_;
  bool counts_other_gpus_;
  std::vector<Family> families_;        // sizes first
  std::vector<std::vector<PC>> lists_;  // by family, of the present sizes
  std::size_t built_in_ = 0;            // constraints in dropped_
  ListedInverse inverse_;
  bool any_sizes_ = false;
  std::vector<RuleValues> rule_values_;  // of rules_
  std::vector<int> values_;              // see Matches
  std::vector<PC> configs_;
  std::vector<SearchSpace::Dropped> dropped_;
};

// Most configurations of the grids are of another number of GPUs: the rule to
// name is another one.
std::string NothingLeft(int gpus,
                        const std::vector<SearchSpace::Dropped>& dropped) {
  const auto first = dropped.begin() + 1;
  // A rule of the user's can be changed, so it is named before a built-in one.
  const auto weight = [](const SearchSpace::Dropped& rule) {
    return std::pair(rule.count > 0 && rule.origin == "manifest", rule.count);
  };
  const auto most = std::max_element(
      first, dropped.end(),
      [&](const auto& a, const auto& b) { return weight(a) < weight(b); });
  const std::int64_t all = std::accumulate(
      first, dropped.end(), std::int64_t{0},
      [](auto sum, const auto& each) { return sum + each.count; });
  return fmt::format(
      "none of the {} configurations of {} GPUs is valid; \"{}\" ({}) dropped "
      "{} of them",
      all, gpus, most->reason, most->origin, most->count);
}

// The configurations of one number of GPUs.
Enumeration EnumerateGpus(const Workload& workload, int gpus,
                          const SearchSpaceOptions& options) {
  if (gpus < 1) {
    FailAt(options.where, fmt::format("{} GPUs: at least 1 is needed", gpus));
  }
  Enumeration enumeration(workload, gpus, options);
  enumeration.Run();
  if (!enumeration.any_sizes()) {
    FailAt(options.where,
           fmt::format("no dp * tp * pp * cp is {}, the number of GPUs: {}",
                       gpus, enumeration.Sizes()));
  }
  if (enumeration.configs().empty()) {
    const std::string reason = NothingLeft(gpus, enumeration.dropped());
    FailAt(options.where, options.where.empty()
                              ? reason
                              : reason + ": widen the grids or drop the rule");
  }
  return enumeration;
}

// The values of a knob as positions; sizes and buckets by their logarithm.
double Position(const Knob& knob, int value) {
  if (!knob.texts.empty()) {
    return value;  // an index: the first value is the present one
  }
  return knob.scale == KnobScale::kLog2 ? std::log2(std::max(value, 1)) : value;
}

}  // namespace

SearchSpace::SearchSpace(std::vector<ParallelConfig> configs, KnobSet knobs)
    : knobs_(std::move(knobs)),
      configs_(std::move(configs)),
      sorted_(common::Indices(configs_.size())) {
  if (!std::ranges::is_sorted(configs_)) {
    std::ranges::sort(sorted_,
                      [this](int a, int b) { return (*this)[a] < (*this)[b]; });
  }
  const auto same = std::ranges::adjacent_find(
      sorted_, [this](int a, int b) { return (*this)[a] == (*this)[b]; });
  if (same != sorted_.end()) {
    throw common::InputError(fmt::format("the configuration {} is listed twice",
                                         ToString((*this)[*same], knobs_)));
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

SearchSpace SearchSpace::Enumerate(const Workload& workload, int gpus,
                                   const SearchSpaceOptions& options) {
  std::vector<PC> configs;
  std::vector<Dropped> dropped;
  for (const int size :
       options.gpus.empty() ? std::vector<int>{gpus} : options.gpus) {
    Enumeration enumeration = EnumerateGpus(workload, size, options);
    configs.insert(configs.end(), enumeration.configs().begin(),
                   enumeration.configs().end());
    if (configs.size() > kMostConfigs) {
      FailTooMany(options.where, "gpus");
    }
    // Every number has the same constraints and rules.
    if (dropped.empty()) {
      dropped = std::move(enumeration.dropped());
      continue;
    }
    for (std::size_t i = 0; i < dropped.size(); ++i) {
      dropped[i].count += enumeration.dropped()[i].count;
    }
  }
  std::ranges::sort(configs);
  SearchSpace space(std::move(configs), options.knobs);
  space.dropped_ = std::move(dropped);
  space.batch_size_ = workload.batch_size;
  return space;
}

std::optional<int> SearchSpace::Find(const ParallelConfig& config) const {
  const auto found = std::lower_bound(
      sorted_.begin(), sorted_.end(), config,
      [this](int index, const PC& wanted) { return (*this)[index] < wanted; });
  if (found == sorted_.end() || (*this)[*found] != config) {
    return std::nullopt;
  }
  return *found;
}

namespace {

using Settings = std::vector<std::pair<const Knob*, int>>;

bool Mentions(const Settings& settings, const Knob& knob) {
  return std::ranges::any_of(
      settings, [&](const auto& setting) { return setting.first == &knob; });
}

// Replaces the settings of knobs that follow from others: micro_batch_size=2
// becomes the microbatches that have this size. Given microbatches must divide
// the batch.
void ResolveInverses(const SearchSpace& space, Settings& settings) {
  ParallelConfig given;
  for (const auto& [knob, value] : settings) {
    knob->Set(given, value);
  }
  for (auto& [knob, value] : settings) {
    if (!knob->inverse.value || value == knob->Default() ||
        space.batch_size() == 0) {
      continue;
    }
    const Knob& other = space.knobs().Require(knob->inverse.knob);
    const int needed = knob->inverse.value(given, value, space.batch_size());
    if (needed == 0) {
      throw std::invalid_argument(
          fmt::format("{}={} does not divide the batch of {} on dp={} ranks",
                      knob->name, value, space.batch_size(), given.dp));
    }
    if (Mentions(settings, other) && other.Get(given) != needed) {
      throw std::invalid_argument(
          fmt::format("{0}={1} needs {2}={3}, not {4}: leave one of them out",
                      knob->name, value, other.name, needed, other.Get(given)));
    }
    std::tie(knob, value) = std::pair(&other, needed);
  }
  if (space.batch_size() > 0 &&
      Mentions(settings, space.knobs().Require("microbatches"))) {
    RequireWholeMicrobatches(given, space.batch_size());
  }
}

// The configuration of the space in which the `kept` knobs are as wanted and
// the `free` ones are nearest to their defaults. Other switches are worse than
// any size or bucket.
std::optional<ParallelConfig> Nearest(const SearchSpace& space,
                                      const ParallelConfig& wanted,
                                      const std::vector<const Knob*>& kept,
                                      const std::vector<const Knob*>& free) {
  std::optional<ParallelConfig> nearest;
  std::pair<double, double> least;
  for (const ParallelConfig& config : space.configs()) {
    if (std::ranges::any_of(kept, [&](const Knob* knob) {
          return knob->Get(config) != knob->Get(wanted);
        })) {
      continue;
    }
    std::pair<double, double> distance;
    for (const Knob* knob : free) {
      (knob->scale == KnobScale::kLog2 ? distance.second : distance.first) +=
          std::abs(Position(*knob, knob->Get(config)) -
                   Position(*knob, knob->Default()));
    }
    if (!nearest || distance < least) {
      least = distance;
      nearest = config;
    }
  }
  return nearest;
}

}  // namespace

Completed Complete(std::string_view text, const SearchSpace& space) {
  ParallelConfig given;
  Settings settings = ParseSettings(text, space.knobs());
  ResolveInverses(space, settings);
  for (const auto& [knob, value] : settings) {
    knob->Set(given, value);
  }
  Completed completed{Canonical(given, space.knobs()), {}};
  std::vector<const Knob*> kept;  // must be equal
  std::vector<const Knob*> free;
  for (const Knob& knob : space.knobs()) {
    const bool named = Mentions(settings, knob);
    const bool active = HasEffect(knob, given, space.knobs());
    if (!active && knob.Get(given) != knob.Default()) {
      completed.notes.push_back(
          fmt::format("{}={} is ignored: it has an effect only if {}",
                      knob.name, knob.Text(knob.Get(given)), knob.active.text));
    }
    const bool keep = knob.group == KnobGroup::kSizes || (named && active);
    (keep ? kept : free).push_back(&knob);
  }
  if (const auto nearest = Nearest(space, completed.config, kept, free)) {
    completed.config = *nearest;
  } else {
    completed.notes.push_back(
        fmt::format("{} is not in the search space",
                    ToString(completed.config, space.knobs())));
  }
  for (const Knob* knob : free) {
    if (knob->Get(completed.config) != knob->Default()) {
      completed.notes.push_back(fmt::format(
          "{} is not given; using {}, the value in the search space nearest "
          "to the default of {}",
          knob->name, knob->Get(completed.config), knob->Default()));
    }
  }
  return completed;
}

std::string InertLists(const SearchSpaceOptions& options,
                       const SearchSpace& space) {
  std::string text;
  for (const auto& [name, values] : options.values) {
    const Knob* const knob = space.knobs().Find(name);
    if (knob == nullptr || !knob->active.holds ||
        std::ranges::all_of(
            values, [&](int value) { return value == knob->Default(); })) {
      continue;
    }
    const bool used =
        std::ranges::any_of(space.configs(), [&](const ParallelConfig& config) {
          return HasEffect(*knob, config, space.knobs());
        });
    if (!used) {
      text += fmt::format(
          "{}the list of {} has no effect: no configuration "
          "has {}",
          text.empty() ? "" : "; ", name, knob->active.text);
    }
  }
  return text;
}

}  // namespace trials
