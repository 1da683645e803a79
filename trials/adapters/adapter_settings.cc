// What a job's file and command line say besides the configuration.

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "trials/adapters/adapter.h"
#include "trials/adapters/command_words.h"
#include "trials/adapters/placeholders.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

// The longest part of a list that the name of an option has, from the start of
// a word in it ("lr_": the whole word).
std::string LongestPart(const std::string& option,
                        const std::vector<std::string>& parts) {
  std::string name = "_" + common::Lower(option) + "_";
  std::ranges::replace_if(
      name, [](char c) { return c == '-' || c == '.'; }, '_');
  std::string longest;
  for (const std::string& part : parts) {
    if (part.size() > longest.size() &&
        name.find("_" + part) != std::string::npos) {
      longest = part;
    }
  }
  return longest;
}

// The lists of parts of names, which hold for every framework.
struct UsualWords {
  std::vector<std::string> counts;
  std::vector<std::string> usual;
  std::vector<std::string> off;
};

const UsualWords& Usual() {
  static const UsualWords usual = [] {
    const auto table =
        common::TomlTable::ParseFile(FindDataFile("adapters/words", "usual"));
    UsualWords read{table.GetStrings("counts"), table.GetStrings("usual"),
                    table.GetStrings("off")};
    table.RejectUnknownKeys();
    return read;
  }();
  return usual;
}

bool Counts(const std::string& name) {
  return LongestPart(name, Usual().counts).size() >
         LongestPart(name, Usual().usual).size();
}

bool IsOff(const std::string& value) {
  return common::Contains(Usual().off, common::Lower(value));
}

// "--optimizer sgd"
std::string Said(const std::string& option, const std::string& value) {
  return value == "true" ? option : fmt::format("{}={}", option, value);
}

// Removes any value of the key of "KEY=VALUE"; "" is none.
void Unset(std::vector<std::string>& settings, const std::string& setting) {
  const std::string name = setting.substr(0, setting.find('=') + 1);
  std::erase_if(settings, [&name](const std::string& before) {
    return !name.empty() && before.starts_with(name);
  });
}

// Adds "KEY=VALUE" in place of another value of the key; "" is none.
void SetSetting(std::vector<std::string>& settings,
                const std::string& setting) {
  Unset(settings, setting);
  if (!setting.empty()) {
    settings.push_back(setting);
  }
}

// Whether the value is one of these; none: any.
bool IsAny(const std::string& value, const std::vector<std::string>& texts) {
  return texts.empty() ||
         std::ranges::any_of(texts, [&value](const std::string& text) {
           return SameText(value, text);
         });
}

// Whether the key is one of these or of a table that they name.
bool IsBelowAny(const std::string& key, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&key](const std::string& name) {
    return key == name || key.starts_with(name + ".");
  });
}

// Whether one of the settings has this key.
bool HasKeyOf(const std::vector<std::string>& settings,
              const std::string& setting) {
  const std::string name = setting.substr(0, setting.find('=') + 1);
  return std::ranges::any_of(settings, [&name](const std::string& each) {
    return each.starts_with(name);
  });
}

}  // namespace

void Adapter::NoteUnknownKeys(const FoundFile& file,
                              const std::vector<std::string>& known,
                              std::vector<std::string>& notes) const {
  if (config_file_->meanings.empty()) {
    return;
  }
  for (const auto& [key, value] : ConfigKeys(config_file_->format, file.text)) {
    if (!common::Contains(settings_, key, &AdapterSetting::name) &&
        !common::Contains(known, key) && !common::Contains(known, value) &&
        !IsBelowAny(key, config_file_->without_effect)) {
      notes.push_back(fmt::format(
          "{}: {} = {}: not understood, so the forecast does not count it",
          file.path.filename().string(), key, value));
    }
  }
}

FileSettings Adapter::ReadSettings(const AdapterJob& job) const {
  FileSettings read;
  const std::optional<FoundFile> found = FindFile(job, Purpose::kUse);
  if (!found || found->text.empty()) {
    return read;
  }
  read.path = found->path;
  read.training = config_file_->defaults;
  std::vector<std::string> known = {"auto", "none", "null", "false", "[]"};
  for (const auto& [key, is, training, note] : config_file_->meanings) {
    const auto value = SaidOf(key, job, *found);
    if (value == "auto") {  // the command line says it
      Unset(read.training, training);
    }
    if (!value || *value == "auto" || !IsAny(*value, is)) {
      continue;
    }
    known.push_back(key);
    SetSetting(read.training, training);
    if (!note.empty()) {
      read.notes.push_back(fmt::format("{}: {} = {}: {}",
                                       found->path.filename().string(), key,
                                       *value, note));
    }
  }
  NoteUnknownKeys(*found, known, read.notes);
  return read;
}

Adapter::Meanings Adapter::OptionMeanings(bool reads_file) const {
  Meanings all = words_;
  if (!config_file_ || config_file_->overrides.empty()) {
    return all;
  }
  for (Meaning meaning : config_file_->meanings) {
    meaning.key = OverrideOf(meaning.key);
    if (reads_file) {  // it has been read with the file
      meaning = {.key = meaning.key};
    }
    all.meanings.push_back(std::move(meaning));
  }
  for (const std::string& key : config_file_->without_effect) {
    all.without_effect.push_back(OverrideOf(key));
  }
  return all;
}

bool Adapter::Knows(const std::string& option, const Meanings& options) const {
  const auto is = [&option](const std::string& name) {
    return SameName(option, name.substr(0, name.find_last_not_of("=:") + 1));
  };
  return std::ranges::any_of(
             settings_,
             [&](const AdapterSetting& setting) {
               return is(setting.kind == AdapterSetting::Kind::kKey
                             ? OverrideOf(setting.name)
                             : setting.name);
             }) ||
         std::ranges::any_of(options.without_effect,
                             [&](const std::string& name) {
                               return is(name) ||
                                      option.starts_with(name + ".");
                             }) ||
         (config_file_ && std::ranges::any_of(config_file_->options, is));
}

FileSettings Adapter::ReadCommand(const AdapterJob& job) const {
  FileSettings read = ReadSettings(job);
  const Meanings options = OptionMeanings(!read.path.empty());
  if (read.path.empty()) {
    read.path = "the command line";
  }
  std::map<std::string, bool> understood;  // by option
  for (const Meaning& meaning : options.meanings) {
    const auto value = OptionValue(job.words, meaning.key);
    if (!value) {
      continue;
    }
    const bool is = IsAny(*value, meaning.is);
    understood[meaning.key] |= is || IsOff(*value);
    if (is) {
      SetSetting(read.training, meaning.training);
    }
    if (is && !meaning.note.empty()) {
      read.notes.push_back(
          fmt::format("{}: {}", Said(meaning.key, *value), meaning.note));
    }
  }
  for (const std::string& setting : options.defaults) {
    if (!HasKeyOf(read.training, setting)) {
      read.training.push_back(setting);
      read.defaults.push_back(setting);
    }
  }
  for (const std::string& option : OptionNames(job.words)) {
    const std::string value = OptionValue(job.words, option).value_or("");
    const auto meaning = std::ranges::find_if(
        understood,
        [&option](const auto& each) { return SameName(option, each.first); });
    const bool is_read = meaning != understood.end();
    if (is_read ? meaning->second ||
                      common::Contains(options.without_effect, meaning->first)
                : Knows(option, options) || IsOff(value)) {
      continue;
    }
    if (is_read || Counts(option)) {
      read.unread.push_back(Said(option, value));
    } else if (LongestPart(option, Usual().usual).empty()) {
      read.unknown.push_back(option);
    }
  }
  return read;
}

namespace {

// The parts of an expression that && joins, outside of parentheses.
std::vector<std::string> Conjuncts(const std::string& expression) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    depth += expression[i] == '(' ? 1 : expression[i] == ')' ? -1 : 0;
    if (depth == 0 && expression.compare(i, 2, "&&") == 0) {
      parts.emplace_back();
      ++i;
    } else {
      parts.back() += expression[i];
    }
  }
  return parts;
}

// The first part of a condition that does not hold for the model; "" if all do.
// What changes no cost does not count: a config.json may lack it.
std::string Unmet(const Rule& when, const Rule::Context& context) {
  static constexpr const char* kWithoutCost[] = {
      "rope_theta",     "rope_scaling",   "llama3_scaling", "mscale",
      "mscale_all_dim", "routed_scaling", "norm_epsilon",   "own_type"};
  const bool is_choice = when.expression().find("||") != std::string::npos;
  for (const std::string& part : is_choice ? std::vector{when.expression()}
                                           : Conjuncts(when.expression())) {
    const Rule rule = Rule::Parse(part, "adapter", when.origin());
    if (std::ranges::none_of(
            kWithoutCost,
            [&rule](const char* name) { return rule.Reads(name); }) &&
        !rule.Matches({}, context)) {
      return std::string(common::Trim(part));
    }
  }
  return "";
}

// Without the brackets of a list.
std::string Plain(std::string text) {
  std::erase_if(text, [](char c) {
    return std::string_view("()[] '\"").find(c) != std::string_view::npos;
  });
  return text;
}

// The rows of a flag that says something of a model.
struct ModelFlag {
  const std::string& flag;
  const std::vector<const AdapterSetting*>& rows;
  const Model& model;
  const Rule::Context& context;
  const std::map<std::string, std::string>& texts;
  bool complete;  // whether the words have the flags of the model

  // Why the row is not for the model; "" if it is.
  [[nodiscard]] std::string UnmetBy(const AdapterSetting& row) const {
    return !IsFor(model, row) ? "another model_type"
           : row.when         ? Unmet(*row.when, context)
                              : "";
  }

  // Whether the layout decides, or nothing does.
  [[nodiscard]] bool IsOther() const {
    return std::ranges::any_of(rows,
                               [](const auto* row) {
                                 return row->when &&
                                        !row->when->KnobNames().empty();
                               }) ||
           std::ranges::all_of(rows, [](const auto* row) {
             return !row->when && !row->integer && row->parts.empty() &&
                    row->types.empty();
           });
  }

  [[nodiscard]] std::string ValueOf(const AdapterSetting& row) const {
    return row.integer ? fmt::format("{:.10g}", row.integer->Value({}, context))
                       : Expand(row.text, texts);
  }

  // What the framework takes without the flag; "" if that is not known.
  [[nodiscard]] std::string Default() const {
    const auto row = std::ranges::find_if(
        rows, [](const auto* each) { return !each->otherwise.empty(); });
    if (row == rows.end()) {
      return "";
    }
    const std::string& text = (*row)->otherwise;
    return text.starts_with('$')
               ? fmt::format(
                     "{:.10g}",
                     Rule::Parse(text, "adapter", flag).Value({}, context))
               : text;
  }

  [[nodiscard]] std::string ProblemOf(
      const std::vector<std::string>& words) const {
    if (IsOther()) {
      return "";
    }
    const auto row = std::ranges::find_if(
        rows, [this](const auto* each) { return UnmetBy(*each).empty(); });
    const AdapterSetting* const holds = row == rows.end() ? nullptr : *row;
    const auto said = FlagValue(words, flag, rows.front()->has_value);
    return rows.front()->has_value ? ProblemOfValue(said, holds)
                                   : ProblemOfSwitch(said.has_value(), holds);
  }

 private:
  // `holds`: the row of the model; nullptr if it has none.
  [[nodiscard]] std::string ProblemOfSwitch(bool said,
                                            const AdapterSetting* holds) const {
    if (said && holds == nullptr) {
      return fmt::format("{}: the model has none of it", flag);
    }
    return !said && holds != nullptr && complete
               ? fmt::format("{} is missing, and the model has it", flag)
               : "";
  }

  [[nodiscard]] std::string ProblemOfValue(
      const std::optional<std::string>& said,
      const AdapterSetting* holds) const {
    const std::string value = said.value_or(Default());
    if (value.empty() || (!said && !complete) ||
        value.find_first_of("{$") != std::string::npos ||
        (holds == nullptr && SameText(value, Default()))) {
      return "";  // not known yet, or of nothing that the model has
    }
    std::string unmet;  // of the row with this value
    for (const AdapterSetting* each : rows) {
      if (SameText(Plain(value), Plain(ValueOf(*each)))) {
        unmet = each->integer ? "" : UnmetBy(*each);
        if (unmet.empty()) {
          return "";
        }
      }
    }
    const std::string word =
        said ? fmt::format("{}={}", flag, value)
             : fmt::format("{} is {} by default", flag, value);
    if (!unmet.empty()) {
      return fmt::format("{} is for models with {}", word, unmet);
    }
    if (!Counts(value) && std::ranges::any_of(rows, [this](const auto* each) {
          return each->loose && UnmetBy(*each).empty();
        })) {
      return "";
    }
    return fmt::format("{}: the model has {}", word,
                       holds == nullptr ? "none of it" : ValueOf(*holds));
  }
};

}  // namespace

std::vector<std::string> Adapter::Contradictions(const AdapterJob& job) const {
  const Model& model = job.workload.model;
  const Rule::Context context = RuleContext(job.workload, job.cluster.gpus());
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : context) {
    texts.emplace(name, fmt::format("{:.10g}", value));
  }
  std::map<std::string, std::vector<const AdapterSetting*>> flags;
  for (const AdapterSetting& setting : settings_) {
    if (setting.launch && setting.kind == AdapterSetting::Kind::kFlag &&
        !common::Contains(words_.without_effect, setting.name) &&
        !common::Contains(words_.meanings, setting.name, &Meaning::key)) {
      flags[setting.name].push_back(&setting);
    }
  }
  // A script that the words start may add those of the model.
  const bool complete = std::ranges::any_of(flags, [&job](const auto& each) {
    return each.second.front()->integer &&
           FlagValue(job.words, each.first, true);
  });
  std::vector<std::string> found;
  for (const auto& [flag, rows] : flags) {
    const std::string problem =
        ModelFlag{flag, rows, model, context, texts, complete}.ProblemOf(
            job.words);
    if (!problem.empty()) {
      found.push_back(problem);
    }
  }
  return found;
}

}  // namespace trials
