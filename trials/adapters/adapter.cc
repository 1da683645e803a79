#include "trials/adapters/adapter.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <regex>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/fields.h"
#include "common/files.h"
#include "common/pattern.h"
#include "common/process.h"
#include "common/text.h"
#include "trials/adapters/command_words.h"
#include "trials/adapters/placeholders.h"
#include "trials/config_file.h"
#include "trials/data_folder.h"
#include "trials/plan.h"

namespace trials {
namespace {

namespace fs = std::filesystem;
using common::InputError;
using common::TomlTable;

constexpr const char* kFolder = "adapters";
// A text that is replaced by that of the stages' layers.
constexpr const char* kLayout = "{layout}";

std::optional<Rule> ReadRule(const TomlTable& row, std::string_view key) {
  if (!row.Has(key)) {
    return std::nullopt;
  }
  return Rule::Parse(row.RequireText(key), "adapter", row.Where(key));
}

AdapterSetting ReadSetting(const TomlTable& row) {
  AdapterSetting setting;
  const std::pair<const char*, AdapterSetting::Kind> kinds[] = {
      {"flag", AdapterSetting::Kind::kFlag},
      {"key", AdapterSetting::Kind::kKey},
      {"variable", AdapterSetting::Kind::kVariable},
      {"note", AdapterSetting::Kind::kNote},
      {"refusal", AdapterSetting::Kind::kRefusal}};
  int names = 0;
  for (const auto& [key, kind] : kinds) {
    if (row.Has(key)) {
      setting.kind = kind;
      setting.name = row.RequireString(key);
      ++names;
    }
  }
  if (names != 1 || setting.name.empty()) {
    throw InputError(fmt::format(
        "{}: a setting has one of flag, key, variable, note and refusal",
        row.Where()));
  }
  setting.when = ReadRule(row, "when");
  setting.keep = ReadRule(row, "keep");
  setting.without = row.GetString("without", "");
  setting.integer = ReadRule(row, "value");
  setting.boolean = ReadRule(row, "bool");
  setting.text = row.GetString("text", "");
  const int values = static_cast<int>(setting.integer.has_value()) +
                     static_cast<int>(setting.boolean.has_value()) +
                     static_cast<int>(row.Has("text"));
  setting.has_value = values == 1;
  const bool is_sentence = setting.kind == AdapterSetting::Kind::kNote ||
                           setting.kind == AdapterSetting::Kind::kRefusal;
  if (values > (is_sentence ? 0 : 1) ||
      (values == 0 && setting.kind != AdapterSetting::Kind::kFlag &&
       !is_sentence)) {
    throw InputError(
        fmt::format("{}: '{}' has one of value, bool and text; only a flag may "
                    "have none, and a sentence has none",
                    row.Where(), setting.name));
  }
  setting.otherwise = row.Has("default") ? row.RequireText("default") : "";
  setting.trial = row.GetBool("trial", false);
  setting.launch = row.GetBool("launch", is_sentence);
  setting.parts = row.GetStrings("parts");
  setting.types = row.GetStrings("types");
  setting.except = row.GetStrings("except");
  setting.file_only = row.GetBool("file_only", false);
  setting.flag_only = row.GetBool("flag_only", false);
  setting.loose = row.GetBool("loose", false);
  row.RejectUnknownKeys();
  return setting;
}

std::string ToText(double value) {
  if (std::abs(value - std::round(value)) > 1e-9 || std::abs(value) > 1e15) {
    throw std::invalid_argument(
        fmt::format("{} is not an integer", common::ExactText(value)));
  }
  return fmt::format("{:.0f}", std::round(value));
}

// The first word that names a file of the format.
template <typename Words>
auto FindFileWord(Words& words, ConfigFormat format) {
  return std::ranges::find_if(words, [format](const std::string& word) {
    const std::string extension = fs::path(word).extension();
    return !word.starts_with('-') &&
           (extension == fmt::format(".{}", common::ToString(format)) ||
            (format == ConfigFormat::kYaml && extension == ".yml"));
  });
}

// The variables of expressions, with the numbers of the config.json on which no
// cost depends.
Rule::Context ContextOf(const AdapterJob& job) {
  Rule::Context context = RuleContext(job.workload, job.cluster.gpus());
  if (job.config_json.empty()) {
    return context;
  }
  const ConfigFile file(job.config_json);
  context["own_type"] =
      file.Text("root.model_type", "") == job.workload.model.type ? 1.0 : 0.0;
  // Version 5 of the library has the numbers of positions in one object.
  const auto rope = [&](const std::string& key, double otherwise) {
    return file.Number("rope_parameters." + key, otherwise);
  };
  context["rope_theta"] =
      rope("rope_theta", file.Number("rope_theta", context["rope_theta"]));
  const std::string scaling =
      file.Text("rope_scaling.rope_type",
                file.Text("rope_scaling.type",
                          file.Text("rope_parameters.rope_type", "")));
  // LongRoPE has factors of its dimensions instead of one.
  constexpr double kSeveralFactors = 2.0;
  const bool several = scaling == "longrope" || scaling == "su";
  context["rope_scaling"] =
      rope("factor",
           file.Number("rope_scaling.factor", several ? kSeveralFactors : 1.0));
  context["llama3_scaling"] = scaling == "llama3" ? 1.0 : 0.0;
  context["mscale"] =
      rope("mscale", file.Number("rope_scaling.mscale", context["mscale"]));
  context["mscale_all_dim"] = rope(
      "mscale_all_dim",
      file.Number("rope_scaling.mscale_all_dim", context["mscale_all_dim"]));
  context["routed_scaling"] =
      file.Number("routed_scaling_factor", context["routed_scaling"]);
  context["norm_epsilon"] =
      file.Number("rms_norm_eps",
                  file.Number("layer_norm_epsilon", context["norm_epsilon"]));
  return context;
}

// Without an exponent, which YAML 1.1 reads as text.
std::string Decimal(double value) {
  std::string text = fmt::format("{:.12f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

bool IsSubcommand(const AdapterSetting& setting) {
  return setting.kind == AdapterSetting::Kind::kFlag &&
         setting.name.ends_with(':');
}

std::vector<std::string> TakeSubcommandOf(
    const std::vector<AdapterSetting>& settings,
    std::vector<std::string>& words) {
  const auto setting = std::ranges::find_if(settings, IsSubcommand);
  return setting == settings.end() ? std::vector<std::string>()
                                   : TakeSubcommand(words, setting->name);
}

// Sets or removes the flag of a setting; a key without a file is a flag, too.
void SetFlag(const AdapterSetting& setting,
             const std::optional<ConfigValue>& value,
             std::vector<std::string>& flags,
             std::vector<std::string>& subcommand) {
  std::vector<std::string>& words = IsSubcommand(setting) ? subcommand : flags;
  const std::string flag = setting.kind == AdapterSetting::Kind::kKey
                               ? "--" + setting.name
                               : setting.name;
  if (value) {
    SetFlagWord(words, flag, setting.has_value, value->text);
  } else {
    RemoveFlag(words, flag, setting.has_value);
  }
}

// The table of keys of a kind of file, or of options of a kind of program
// (experiments/adapters/keys/, words/), which is added to `known`.
template <typename Meanings>
void ReadMeanings(const TomlTable& keys, Meanings& known) {
  const auto add = [&keys](const char* name, std::vector<std::string>& list) {
    const std::vector<std::string> more = keys.GetStrings(name);
    list.insert(list.end(), more.begin(), more.end());
  };
  add("defaults", known.defaults);
  add("without_effect", known.without_effect);
  for (const TomlTable& row : keys.GetTables("meanings")) {
    known.meanings.push_back({row.RequireString("key"), row.GetStrings("is"),
                              row.GetString("training", ""),
                              row.GetString("note", "")});
    row.RejectUnknownKeys();
  }
}

// That of the file which the key `keys` of a table names.
template <typename Meanings>
void ReadMeaningsFile(const TomlTable& table, const fs::path& folder,
                      Meanings& known) {
  if (table.Has("keys")) {
    const TomlTable keys =
        TomlTable::ParseFile(folder / table.RequireString("keys"));
    ReadMeanings(keys, known);
    keys.RejectUnknownKeys();
  }
}

}  // namespace

bool IsFor(const Model& model, const AdapterSetting& setting) {
  return (setting.types.empty() ||
          common::Contains(setting.types, model.type)) &&
         !common::Contains(setting.except, model.type) &&
         std::ranges::all_of(setting.parts, [&model](const auto& part) {
           return common::Contains(RareParts(model), part);
         });
}

Adapter Adapter::Read(const fs::path& file) {
  const TomlTable table = TomlTable::ParseFile(file);
  Adapter adapter;
  adapter.name_ = file.stem().string();
  adapter.file_ = file;
  adapter.title_ = table.GetString("title", adapter.name_);
  adapter.framework_ = table.GetString("framework", "");
  adapter.checked_ = table.GetString("checked", "");
  adapter.aliases_ = table.GetStrings("aliases");
  adapter.command_ = table.GetStrings("command");
  adapter.on_nodes_ = table.GetStrings("on_nodes");
  if (table.Has("file")) {
    const TomlTable config = table.RequireTable("file");
    adapter.config_file_ = ConfigFile();
    ConfigFile& found = *adapter.config_file_;
    try {
      common::FromText(config.RequireString("format"), found.format);
    } catch (const std::invalid_argument& e) {
      config.Fail("format", fmt::format("format: {}", e.what()));
    }
    found.options = config.GetStrings("option");
    found.keys_as_flags = config.GetBool("keys_as_flags", false);
    found.overrides = config.GetString("overrides", "");
    found.text = config.GetString("text", "");
    found.defaults = config.GetStrings("defaults");
    ReadMeaningsFile(config, file.parent_path(), found);
    config.RejectUnknownKeys();
  }
  const TomlTable words = table.GetTable("words");
  ReadMeaningsFile(words, file.parent_path(), adapter.words_);
  ReadMeanings(words, adapter.words_);
  words.RejectUnknownKeys();
  if (const std::string program = table.GetString("program", "");
      !program.empty()) {
    adapter.program_ = {
        program, common::ReadFile(ExperimentsFolder() / "programs" / program),
        true};
  }
  for (const TomlTable& row : table.GetTables("settings")) {
    adapter.settings_.push_back(ReadSetting(row));
    if (adapter.settings_.back().kind == AdapterSetting::Kind::kKey &&
        !adapter.config_file_) {
      row.Fail("key", "a key needs a table [file]");
    }
    const std::string& without = adapter.settings_.back().without;
    if (!without.empty() &&
        !common::Contains(adapter.settings_, without, &AdapterSetting::name)) {
      row.Fail("without", fmt::format("no setting above is '{}'", without));
    }
  }
  adapter.log_ = ReadLogPatterns(table.GetTable("log"));
  adapter.space_ = table.GetTable("space");
  (void)adapter.space_.Leaves();  // checked with the space that it is for
  ReadTraining(table.GetTable("training"), adapter.training_);
  table.RejectUnknownKeys();
  return adapter;
}

Adapter Adapter::Find(const std::string& name, const fs::path& from) {
  for (const std::string& known : Names()) {
    if (Adapter adapter = Read(FindDataFile(kFolder, known));
        adapter.IsCalled(name)) {
      return adapter;
    }
  }
  return Read(FindDataFile(kFolder, name, from));
}

std::vector<std::string> Adapter::Names() { return DataFileNames(kFolder); }

std::optional<Adapter::FoundFile> Adapter::FindFile(const AdapterJob& job,
                                                    Purpose purpose) const {
  if (!config_file_) {
    return std::nullopt;
  }
  const bool required = purpose == Purpose::kTrial;
  const auto named = NamedFile(job);
  if (!named || named->empty()) {
    if (required && !config_file_->keys_as_flags) {
      throw InputError(fmt::format(
          "the command line of {} has no {}, whose keys a trial sets", name_,
          config_file_->options.empty()
              ? fmt::format("FILE.{}", common::ToString(config_file_->format))
              : config_file_->options[0] + " FILE"));
    }
    return std::nullopt;
  }
  FoundFile found{job.folder / *named, config_file_->text};
  if (purpose == Purpose::kLaunch) {
    if (!job.config_file.empty()) {
      found.text = common::ReadFile(job.config_file);
    }
    return found;
  }
  found.text.clear();
  std::error_code error;
  if (required || fs::is_regular_file(found.path, error)) {
    found.text = common::ReadFile(found.path);
  }
  return found;
}

bool Adapter::Applies(const AdapterSetting& setting, bool has_file) const {
  if (setting.kind != AdapterSetting::Kind::kKey) {
    return !setting.flag_only || !has_file;
  }
  return has_file || (config_file_->keys_as_flags && !setting.file_only);
}

std::optional<ConfigValue> Adapter::ValueOf(const AdapterSetting& setting,
                                            const ParallelConfig& config,
                                            const Rule::Context& context,
                                            const Expand& expand) const {
  if (setting.when && !setting.when->Matches(config, context)) {
    return std::nullopt;
  }
  if (setting.boolean) {
    return ConfigValue{
        ConfigValue::Type::kBoolean,
        setting.boolean->Matches(config, context) ? "true" : "false"};
  }
  if (setting.integer) {
    try {
      return ConfigValue{ConfigValue::Type::kNumber,
                         ToText(setting.integer->Value(config, context))};
    } catch (const InputError&) {
      throw;
    } catch (const std::invalid_argument& e) {
      throw InputError(fmt::format("adapter {}: {} = \"{}\": {} for {}", name_,
                                   setting.name, setting.integer->expression(),
                                   e.what(), ToString(config)));
    }
  }
  if (setting.text == kLayout) {  // as a number: a job may lack it
    const double layers = context.find("layers")->second;
    return ConfigValue{
        ConfigValue::Type::kNumber,
        LayoutText(DistributeLayers(static_cast<int>(layers),
                                    config.pp * config.model_chunks))};
  }
  ConfigValue value{ConfigValue::Type::kString,
                    expand ? expand(setting.text) : setting.text};
  // No format has numbers such as 007.
  static const common::Pattern number(R"(^-?(?:0|[1-9]\d*)(?:\.\d+)?$)");
  if (number.IsIn(value.text)) {
    value.type = ConfigValue::Type::kNumber;
  }
  return value;
}

std::vector<Adapter::SettingValue> Adapter::Values(
    const AdapterJob& job, const std::optional<ParallelConfig>& config,
    Purpose purpose, bool has_file, const Expand& expand) const {
  Rule::Context context = ContextOf(job);
  const ParallelConfig used = config.value_or(ParallelConfig());
  context["rare_parts"] =
      static_cast<double>(UnsaidParts(job, used, context).size());
  std::vector<SettingValue> values;
  for (const AdapterSetting& setting : settings_) {
    const bool wanted = setting.trial    ? purpose == Purpose::kTrial
                        : setting.launch ? purpose == Purpose::kLaunch
                                         : config.has_value();
    const bool needless =
        !setting.without.empty() &&
        std::ranges::any_of(values, [&setting](const SettingValue& each) {
          return each.second && each.first->name == setting.without;
        });
    const bool keeps = setting.keep && setting.keep->Matches(used, context);
    if (!wanted || keeps || needless || !Applies(setting, has_file) ||
        !IsFor(job.workload.model, setting)) {
      continue;
    }
    auto value = ValueOf(setting, used, context, expand);
    const auto same = std::ranges::find_if(values, [&](const auto& each) {
      return each.first->name == setting.name &&
             each.first->kind == setting.kind;
    });
    if (same == values.end()) {
      values.emplace_back(&setting, std::move(value));
    } else if (!same->second) {
      *same = {&setting, std::move(value)};
    }
  }
  return values;
}

std::vector<std::string> Adapter::UnsaidParts(
    const AdapterJob& job, const ParallelConfig& config,
    const Rule::Context& context) const {
  const Model& model = job.workload.model;
  std::vector<std::string> parts = RareParts(model);
  for (const AdapterSetting& setting : settings_) {
    if (!setting.parts.empty() && IsFor(model, setting) &&
        (!setting.when || setting.when->Matches(config, context))) {
      std::erase_if(parts, [&setting](const std::string& part) {
        return common::Contains(setting.parts, part);
      });
    }
  }
  return parts;
}

void Adapter::SetKey(const std::string& name,
                     const std::optional<ConfigValue>& value,
                     FoundFile& found) const {
  try {
    found.text =
        value ? SetConfigKey(config_file_->format, found.text, name, *value)
              : RemoveConfigKey(config_file_->format, found.text, name);
  } catch (const std::invalid_argument& e) {
    throw InputError(
        fmt::format("{}: key {}: {}", found.path.string(), name, e.what()));
  }
}

std::optional<std::string> Adapter::NamedFile(const AdapterJob& job) const {
  for (const std::string& option : config_file_->options) {
    if (auto value = FlagValue(job.words, option, true)) {
      return value;
    }
  }
  const auto word = FindFileWord(job.words, config_file_->format);
  return config_file_->options.empty() && word != job.words.end()
             ? std::optional(*word)
             : std::nullopt;
}

void Adapter::SetPath(const fs::path& path,
                      std::vector<std::string>& words) const {
  if (config_file_->options.empty()) {
    *FindFileWord(words, config_file_->format) = path.string();
  }
  for (const std::string& option : config_file_->options) {
    if (FlagValue(words, option, true)) {
      SetFlagWord(words, option, true, path.string());
    }
  }
}

std::optional<std::string> Adapter::KeyOf(const std::string& name,
                                          const FoundFile& found) const {
  try {
    return GetConfigKey(config_file_->format, found.text, name);
  } catch (const std::invalid_argument& e) {
    throw InputError(
        fmt::format("{}: key {}: {}", found.path.string(), name, e.what()));
  }
}

std::string Adapter::OverrideOf(const std::string& key) const {
  const std::string& form = config_file_->overrides;
  const std::string name = key.substr(key.rfind('.') + 1);
  return form.empty() ? ""
                      : trials::Expand(form, {{"key", key}, {"name", name}});
}

std::optional<std::string> Adapter::SaidOf(const std::string& key,
                                           const AdapterJob& job,
                                           const FoundFile& found) const {
  const std::string option = OverrideOf(key);
  auto word = option.empty() ? std::nullopt : OptionValue(job.words, option);
  return word ? std::move(word) : KeyOf(key, found);
}

bool Adapter::Decides(const std::vector<std::string>& said,
                      const AdapterSetting& setting) const {
  return std::ranges::any_of(
      config_file_->meanings, [&](const Meaning& meaning) {
        return meaning.key == setting.name && !meaning.training.empty() &&
               std::ranges::any_of(said, [&meaning](const std::string& each) {
                 return meaning.training.starts_with(
                     each.substr(0, each.find('=') + 1));
               });
      });
}

void Adapter::SetFileKey(const SettingValue& setting_value,
                         const std::optional<OwnFile>& own, FoundFile& file,
                         RenderedJob& rendered) const {
  const auto& [setting, value] = setting_value;
  if (const auto option = OverrideOf(setting->name); !option.empty()) {
    RemoveOption(rendered.words, option);
  }
  if (own) {
    if (!value || Decides(own->training, *setting)) {
      return;
    }
    const auto old = KeyOf(setting->name, file);
    if (old && *old != "auto" && *old != value->text) {
      rendered.notes.push_back(fmt::format("{}: {} = {}: the command sets {}",
                                           own->name, setting->name, *old,
                                           value->text));
    }
  }
  SetKey(setting->name, value, file);
}

std::optional<Adapter::OwnFile> Adapter::FindOwnFile(AdapterJob job,
                                                     bool has_file) const {
  if (!has_file || job.config_file.empty()) {
    return std::nullopt;
  }
  job.words = {FileOption(), job.config_file.string()};
  return OwnFile{job.config_file.filename().string(),
                 ReadSettings(job).training};
}

RenderedJob Adapter::Render(const AdapterJob& job,
                            const std::optional<ParallelConfig>& config,
                            Purpose purpose, const fs::path& files,
                            const Expand& expand) const {
  RenderedJob rendered{job.words, {}, {}};
  std::vector<std::string> subcommand =
      TakeSubcommandOf(settings_, rendered.words);
  std::optional<FoundFile> found = FindFile(job, purpose);
  const std::optional<OwnFile> own = FindOwnFile(job, found.has_value());
  for (const SettingValue& setting_value :
       Values(job, config, purpose, found.has_value(), expand)) {
    const auto& [setting, value] = setting_value;
    if (setting->kind == AdapterSetting::Kind::kNote) {
      if (value) {
        rendered.notes.push_back(setting->name);
      }
    } else if (setting->kind == AdapterSetting::Kind::kRefusal) {
      if (value && rendered.refusal.empty()) {
        rendered.refusal = expand ? expand(setting->name) : setting->name;
      }
    } else if (setting->kind == AdapterSetting::Kind::kVariable) {
      if (value) {
        rendered.environment.push_back(
            fmt::format("{}={}", setting->name, value->text));
      }
    } else if (setting->kind == AdapterSetting::Kind::kKey && found) {
      SetFileKey(setting_value, own, *found, rendered);
    } else {
      SetFlag(*setting, value, rendered.words, subcommand);
    }
  }
  rendered.words.insert(rendered.words.end(), subcommand.begin(),
                        subcommand.end());
  if (found) {
    const fs::path path = files / found->path.filename();
    rendered.files.push_back({path, found->text});
    SetPath(path, rendered.words);
  }
  return rendered;
}

RenderedJob Adapter::RenderUsual(AdapterJob job, const ParallelConfig& config,
                                 const fs::path& files) const {
  const fs::path program = files / program_.path;
  std::map<std::string, std::string> texts = {
      {"nodes", std::to_string(job.cluster.launchers())},
      {"gpus", std::to_string(job.cluster.gpus())},
      {"gpus_per_node", std::to_string(job.cluster.launched_gpus())},
      {"rare_parts",
       fmt::format("{}",
                   fmt::join(UnsaidParts(job, config, ContextOf(job)), ", "))},
      {"program", program.string()},
      {"folder", files.empty() ? "." : files.string()},
      {"config_json", job.config_json.empty()
                          ? "config.json"
                          : fs::absolute(job.config_json).string()}};
  for (const auto& [name, value] : ContextOf(job)) {
    texts.emplace(name, Decimal(value));
  }
  const Expand expand = [&texts](std::string_view text) {
    return trials::Expand(text, texts);
  };
  job.words.clear();
  for (const std::string& word : command_) {
    if (word != "{on_nodes}") {
      job.words.push_back(expand(word));
    } else if (job.cluster.launchers() > 1) {
      std::ranges::transform(on_nodes_, std::back_inserter(job.words), expand);
    }
  }
  RenderedJob rendered = Render(job, config, Purpose::kLaunch, files, expand);
  if (job.config_json.empty() && rendered.refusal.empty() &&
      std::ranges::find(settings_, "{config_json}", &AdapterSetting::text) !=
          settings_.end()) {
    rendered.refusal = "it reads a config.json: --model FILE";
  }
  if (std::ranges::any_of(rendered.words, [&program](const fs::path& word) {
        return word.stem() == program.stem();
      })) {
    rendered.files.push_back({program, program_.content, true});
  }
  return rendered;
}

std::string ShellWord(const std::string& word) {
  static const std::regex variable(R"(\$(HEAD_NODE|here))");
  static const std::regex special(R"(\$(?!HEAD_NODE|here)|["`\\])");
  return std::regex_search(word, variable)
             ? fmt::format("\"{}\"",
                           std::regex_replace(word, special, R"(\$&)"))
             : common::ShellLine({word});
}

std::string CommandLine(const RenderedJob& job, std::size_t columns) {
  std::vector<std::string> words;
  for (const std::string& variable : job.environment) {
    const std::size_t value = variable.find('=') + 1;
    words.push_back(variable.substr(0, value) +
                    ShellWord(variable.substr(value)));
  }
  std::ranges::transform(job.words, std::back_inserter(words), ShellWord);
  std::string text;
  std::size_t used = 0;  // of the line
  for (const std::string& word : words) {
    if (used > 0 && used + word.size() + 3 > columns) {  // with " " and " \\"
      text += " \\\n   ";
      used = 3;
    }
    text += (used > 0 ? " " : "") + word;
    used += word.size() + 1;
  }
  return text;
}

}  // namespace trials
