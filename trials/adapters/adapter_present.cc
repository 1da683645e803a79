// The configuration that a job's command line and file have now.

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "trials/adapters/adapter.h"
#include "trials/adapters/command_words.h"
#include "trials/knobs.h"

namespace trials {
namespace {

constexpr int kMostValue = 8192;  // of a parameter that is tried
constexpr int kPasses = 2;

// The number of data-parallel ranks follows from the other sizes.
void FillDataParallelSize(ParallelConfig& config, int gpus) {
  const int others = config.tp * config.pp * config.cp;
  config.dp = std::max(1, gpus / others);
}

// The names of the parameters that a setting depends on, last one first: the
// first ones are sizes. A fixed parameter follows from the microbatches.
std::vector<std::string> ParametersOf(const AdapterSetting& setting) {
  std::vector<std::string> names;
  for (const auto* rule : {&setting.when, &setting.integer, &setting.boolean}) {
    if (!*rule) {
      continue;
    }
    for (const std::string& name : (*rule)->KnobNames()) {
      names.push_back(BuiltInKnobs().Require(name).group == KnobGroup::kFixed
                          ? "microbatches"
                          : name);
    }
  }
  std::ranges::reverse(names);
  // The number of data-parallel ranks follows from the other sizes.
  if (std::ranges::any_of(
          names, [](const std::string& name) { return name != "dp"; })) {
    std::erase(names, "dp");
  }
  return names;
}

// All values of a parameter; of one with a few, those that the adapter lists.
std::vector<int> ValuesToTry(const Knob& knob, const common::TomlTable& space) {
  constexpr int kFew = 3;
  std::vector<int> values;
  if (knob.maximum <= kFew && space.Has(knob.name)) {
    for (const std::int64_t value : space.GetInts(knob.name)) {
      values.push_back(static_cast<int>(value));
    }
    return values;
  }
  for (int value = knob.minimum; value <= std::min(knob.maximum, kMostValue);
       ++value) {
    values.push_back(value);
  }
  return values;
}

}  // namespace

std::optional<std::string> Adapter::PresentText(
    const AdapterSetting& setting, const AdapterJob& job,
    const std::optional<FoundFile>& found) const {
  if (setting.kind == AdapterSetting::Kind::kVariable) {
    return std::nullopt;
  }
  if (setting.kind == AdapterSetting::Kind::kKey && found) {
    return SaidOf(setting.name, job, *found);
  }
  return FlagValue(job.words,
                   setting.kind == AdapterSetting::Kind::kKey
                       ? "--" + setting.name
                       : setting.name,
                   setting.has_value);
}

std::optional<double> Adapter::PresentNumber(
    const AdapterJob& job, std::string_view expression) const {
  const std::optional<FoundFile> found = FindFile(job, Purpose::kUse);
  for (const AdapterSetting& setting : settings_) {
    if (setting.integer && setting.integer->expression() == expression &&
        Applies(setting, found.has_value())) {
      return AsNumber(
          PresentText(setting, job, found).value_or(setting.otherwise));
    }
  }
  return std::nullopt;
}

bool Adapter::Sets(const std::string& name) const {
  return std::ranges::any_of(settings_, [&](const AdapterSetting& setting) {
    return (setting.when && setting.when->Reads(name)) ||
           common::Contains(ParametersOf(setting), name);
  });
}

std::vector<std::string> Adapter::Parameters(const AdapterJob& job) const {
  const bool has_file = FindFile(job, Purpose::kUse).has_value();
  std::vector<std::string> used = {"dp"};
  for (const AdapterSetting& setting : settings_) {
    if (!setting.trial && !setting.launch && Applies(setting, has_file)) {
      const auto names = ParametersOf(setting);
      used.insert(used.end(), names.begin(), names.end());
    }
  }
  std::vector<std::string> ordered;
  for (const Knob& knob : BuiltInKnobs()) {
    if (common::Contains(used, knob.name)) {
      ordered.push_back(knob.name);
    }
  }
  return ordered;
}

// Finds the configuration setting by setting.
class Adapter::PresentSearch {
 public:
  PresentSearch(const Adapter& adapter, const AdapterJob& job)
      : adapter_(adapter),
        gpus_(job.cluster.gpus()),
        context_(RuleContext(job.workload, gpus_)) {
    const std::optional<FoundFile> found = adapter.FindFile(job, Purpose::kUse);
    for (const AdapterSetting& setting : adapter.settings_) {
      // Without its file, a framework has its defaults.
      const bool by_default =
          adapter.keys_only_in_file() && !setting.otherwise.empty();
      if (!setting.trial && !setting.launch &&
          (by_default || adapter.Applies(setting, found.has_value())) &&
          setting.kind != AdapterSetting::Kind::kVariable) {
        Add(setting, adapter.PresentText(setting, job, found));
      }
    }
  }

  PresentConfig Run() {
    PresentConfig present;
    present.config = First();
    FillDataParallelSize(present.config, gpus_);
    for (int pass = 0; pass < kPasses; ++pass) {
      present.notes.clear();
      for (const Group& group : groups_) {
        if (!Solve(group, present.config)) {
          RequireNumber(group);
          present.notes.push_back(fmt::format(
              "{} = {} has no equivalent among the parameters",
              group.rows.front()->name, group.present.value_or("(absent)")));
        }
      }
    }
    for (const Group& group : groups_) {
      if (IsGuess(group, present.config)) {
        present.notes.push_back(
            fmt::format("{} is not given: the size of a microbatch is a guess",
                        group.rows.front()->name));
      }
    }
    present.config = Canonical(present.config);
    return present;
  }

 private:
  // A configuration that the framework has.
  [[nodiscard]] ParallelConfig First() const {
    ParallelConfig config;
    for (const Knob& knob : BuiltInKnobs()) {
      const std::vector<int> values = ValuesToTry(knob, adapter_.space_);
      if (!common::Contains(values, knob.Default())) {
        knob.Set(config, values.front());
      }
    }
    return config;
  }

  // The rows with one name are alternatives.
  struct Group {
    std::vector<const AdapterSetting*> rows;
    std::optional<std::string> present;
    bool known = true;
  };

  // Errors: throws InputError for a text in a file where the framework takes a
  // number.
  static void RequireNumber(const Group& group) {
    const bool is_number =
        std::ranges::all_of(group.rows, [](const AdapterSetting* row) {
          return row->kind == AdapterSetting::Kind::kKey &&
                 (row->integer || AsNumber(row->text));
        });
    if (is_number && group.present && *group.present != "null" &&
        group.present->find('$') == std::string::npos &&
        !AsNumber(*group.present)) {
      throw common::InputError(
          fmt::format("{} = {}: the framework takes a number",
                      group.rows.front()->name, *group.present));
    }
  }

  void Add(const AdapterSetting& setting, std::optional<std::string> present) {
    const auto same = std::ranges::find_if(groups_, [&](const Group& group) {
      return group.rows.front()->name == setting.name;
    });
    Group& group = same == groups_.end() ? groups_.emplace_back() : *same;
    group.rows.push_back(&setting);
    if (present) {
      group.present = std::move(present);
    } else if (!group.present && !setting.otherwise.empty()) {
      group.present = setting.otherwise;
    }
    // Without a condition the setting is always there: a job that lacks it says
    // nothing. "auto" is left to the framework.
    group.known =
        group.present ? *group.present != "auto" : setting.when.has_value();
  }

  // Whether the configuration gives the settings of a group their present
  // value.
  [[nodiscard]] bool Matches(const Group& group,
                             const ParallelConfig& config) const {
    const std::optional<Rule>& keep = group.rows.front()->keep;
    if (keep && keep->Matches(config, context_)) {
      return !group.present;  // what a file says has a value of its own
    }
    std::optional<ConfigValue> value;
    try {
      for (const AdapterSetting* row : group.rows) {
        value = value ? value : adapter_.ValueOf(*row, config, context_, {});
      }
    } catch (const common::InputError&) {
      return false;  // not an integer
    }
    if (value && group.present) {
      return SameText(value->text, *group.present);
    }
    if (group.present) {  // what the framework uses without the setting
      return std::ranges::any_of(group.rows, [&](const AdapterSetting* row) {
        return !row->otherwise.empty() &&
               SameText(row->otherwise, *group.present);
      });
    }
    // A number that the job lacks is left to the framework.
    return !value || value->type == ConfigValue::Type::kNumber;
  }

  // Whether the framework chooses how the batch is split.
  [[nodiscard]] bool IsGuess(const Group& group,
                             const ParallelConfig& config) const {
    return !group.present &&
           std::ranges::any_of(group.rows, [&](const AdapterSetting* row) {
             return row->integer &&
                    common::Contains(ParametersOf(*row), "microbatches") &&
                    (!row->when || row->when->Matches(config, context_));
           });
  }

  // Whether `tried` matches the groups before `group` that `config` matches.
  [[nodiscard]] bool Keeps(const Group& group, const ParallelConfig& config,
                           const ParallelConfig& tried) const {
    return std::all_of(groups_.data(), &group, [&](const Group& before) {
      return !before.known || !Matches(before, config) ||
             Matches(before, tried);
    });
  }

  // The configurations with another value of a parameter of a group's rows.
  [[nodiscard]] std::vector<ParallelConfig> Changed(
      const Group& group, const ParallelConfig& config) const {
    std::vector<ParallelConfig> changed;
    for (const AdapterSetting* row : group.rows) {
      for (const std::string& name : ParametersOf(*row)) {
        const Knob& knob = BuiltInKnobs().Require(name);
        for (const int value : ValuesToTry(knob, adapter_.space_)) {
          ParallelConfig& tried = changed.emplace_back(config);
          knob.Set(tried, value);
          if (knob.group == KnobGroup::kSizes && name != "dp") {
            FillDataParallelSize(tried, gpus_);
          }
        }
      }
    }
    return changed;
  }

  // Changes the configuration so that it matches a group: with a value that
  // keeps the groups before it, else with any. False: there is none.
  [[nodiscard]] bool Solve(const Group& group, ParallelConfig& config) const {
    if (!group.known || Matches(group, config)) {
      return true;
    }
    std::optional<ParallelConfig> other;
    for (const ParallelConfig& tried : Changed(group, config)) {
      if (!Matches(group, tried)) {
        continue;
      }
      if (Keeps(group, config, tried)) {
        config = tried;
        return true;
      }
      other = other ? other : tried;
    }
    config = other.value_or(config);
    return other.has_value();
  }

  const Adapter& adapter_;
  int gpus_;
  Rule::Context context_;
  std::vector<Group> groups_;
};

PresentConfig Adapter::Present(const AdapterJob& job) const {
  return PresentSearch(*this, job).Run();
}

}  // namespace trials
