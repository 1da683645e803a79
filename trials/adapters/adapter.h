// How a training framework is given a configuration, and what it prints: data
// files, experiments/adapters/*.toml.

#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/ranges.h"
#include "common/toml_table.h"
#include "trials/adapters/config_edit.h"
#include "trials/adapters/log_patterns.h"
#include "trials/cluster.h"
#include "trials/parallel_config.h"
#include "trials/rules.h"
#include "trials/workload.h"

namespace trials {

// One row of an adapter's `settings`: a command-line flag, a key of the
// framework's file or an environment variable, its value, and the condition
// under which the job has it; or a sentence for the user: a note, or why the
// framework cannot train the model.
struct AdapterSetting {
  enum class Kind { kFlag, kKey, kVariable, kNote, kRefusal };
  Kind kind = Kind::kFlag;
  // "--micro-batch-size" (other forms: command_words.h),
  // "optimizer.zero_stage"
  std::string name;
  std::optional<Rule> when;     // absent: always
  std::optional<Rule> keep;     // then the job keeps what it has
  std::string without;          // only if no setting of that name has a value
  std::optional<Rule> integer;  // `value`: an expression
  std::optional<Rule> boolean;  // `bool`: an expression, written true or false
  std::string text;             // `text`: as it is; it may have placeholders
  bool has_value = false;       // false: a flag without a value
  std::string otherwise;        // `default`: what the framework uses without it
  bool trial = false;  // only in trials: the number of steps, no checkpoints
  // Only in a job that starts from nothing (Purpose::kLaunch): a job of the
  // user's own has it, such as the sizes of the model.
  bool launch = false;
  // Only for a model with all of these RareParts, which the adapter thereby
  // says; empty: any.
  std::vector<std::string> parts;
  std::vector<std::string> types;   // Model::type; empty: any
  std::vector<std::string> except;  // types without the setting
  bool file_only =
      false;  // a key that has no flag (see Adapter::keys_as_flags)
  bool flag_only = false;  // a flag for jobs that name no file
  bool loose = false;      // a job with another value may train the same model
};

// Whether the setting is for models such as this one.
[[nodiscard]] bool IsFor(const Model& model, const AdapterSetting& setting);

// The job whose configuration changes.
struct AdapterJob {
  std::vector<std::string> words;  // the user's command line
  std::filesystem::path folder;    // in which it starts
  Workload workload;
  Cluster cluster;
  std::filesystem::path config_json = {};  // of the model, if it has one
  // The framework's own file, whose other keys the usual command keeps.
  std::filesystem::path config_file = {};
};

struct RenderedFile {
  std::filesystem::path path;
  std::string content;
  bool program = false;  // what the command starts
};

struct RenderedJob {
  std::vector<std::string> words;
  std::vector<std::string> environment;  // "NAME=value"
  std::vector<RenderedFile> files;
  std::vector<std::string> notes = {};  // what the user has to know or do
  std::string refusal = {};  // why the framework cannot train the model
};

// A word, or NAME=value, for a POSIX shell, which replaces $HEAD_NODE, the name
// of the first node, and $here, a folder.
[[nodiscard]] std::string ShellWord(const std::string& word);
// What starts the job in a POSIX shell: NAME=value ... words, continued with
// backslashes between words where a line would have more than `columns`.
[[nodiscard]] std::string CommandLine(
    const RenderedJob& job,
    std::size_t columns = std::numeric_limits<std::size_t>::max());

// The configuration that a job has now.
struct PresentConfig {
  ParallelConfig config;
  std::vector<std::string> notes;  // settings that no configuration reproduces
};

// What the file of a job says about memory and time besides parameters, or the
// command line with that file.
struct FileSettings {
  std::filesystem::path path;
  std::vector<std::string> training;  // "KEY=VALUE" of [workload]
  std::vector<std::string> notes;     // keys that no forecast knows
  // Of the command line: those of `training` that hold as nothing is said;
  // options that change what is forecast, and are not read; options of which
  // nothing is known.
  std::vector<std::string> defaults = {};
  std::vector<std::string> unread = {};
  std::vector<std::string> unknown = {};
};

class Adapter {
 public:
  enum class Purpose {
    kTrial,  // with the settings that only trials have
    kUse,    // the command line for the user
    // The usual command, with the sizes of the model and complete files.
    kLaunch,
  };
  // Replaces the placeholders of a text ("{max_steps}").
  using Expand = std::function<std::string(std::string_view)>;

  // Errors: throws InputError with file:line:column.
  [[nodiscard]] static Adapter Read(const std::filesystem::path& file);
  // "megatron-lm", an alias of it, or a path that ends in .toml, relative to
  // `from`.
  [[nodiscard]] static Adapter Find(const std::string& name,
                                    const std::filesystem::path& from = {});
  // The names of the adapters that come with the program.
  [[nodiscard]] static std::vector<std::string> Names();

  // The usual command on the machine of the job, with that configuration and
  // complete: it trains the model of the job, whose words do not count.
  // Errors: as Render.
  [[nodiscard]] RenderedJob RenderUsual(
      AdapterJob job, const ParallelConfig& config,
      const std::filesystem::path& files) const;

  // The job with that configuration; without one, the job as it is (and what
  // trials need). Flags that exist keep their place; others are added at the
  // end. Files are copies of the user's with changed keys, in `files`; the
  // caller writes them.
  // Errors: throws InputError for a missing configuration file, an invalid one
  // and a value that is not an integer.
  [[nodiscard]] RenderedJob Render(const AdapterJob& job,
                                   const std::optional<ParallelConfig>& config,
                                   Purpose purpose,
                                   const std::filesystem::path& files,
                                   const Expand& expand) const;

  // The configuration whose rendered settings equal those of the job. It is
  // found setting by setting, in the order of the file: of the parameters in a
  // setting's expressions, the first value that gives the job's value.
  [[nodiscard]] PresentConfig Present(const AdapterJob& job) const;

  // The job's value of the first setting whose `value` is exactly this
  // expression, such as "$batch_size"; nothing if the job does not say.
  [[nodiscard]] std::optional<double> PresentNumber(
      const AdapterJob& job, std::string_view expression) const;

  // Reads the file that the job names. Nothing without one.
  // Errors: throws InputError for a file that is not of its format.
  [[nodiscard]] FileSettings ReadSettings(const AdapterJob& job) const;
  // Reads the command line, and that file. Options that no table names are
  // judged by parts of their names (experiments/adapters/words/usual.toml).
  [[nodiscard]] FileSettings ReadCommand(const AdapterJob& job) const;

  // What the flags of the command line say of the model, and is not so of the
  // job's: "--num-layers=16: the model has 32". Empty if they agree.
  [[nodiscard]] std::vector<std::string> Contradictions(
      const AdapterJob& job) const;

  // The parameters that the settings of this job depend on, in the order of the
  // table of parameters; dp always.
  [[nodiscard]] std::vector<std::string> Parameters(
      const AdapterJob& job) const;

  // Whether some setting depends on a parameter, or on a variable of
  // Rule::Context.
  [[nodiscard]] bool Sets(const std::string& name) const;
  // Whether a file of the framework says what a forecast counts.
  [[nodiscard]] bool ReadsSettings() const {
    return config_file_ && !config_file_->meanings.empty();
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  // Whether keys of the framework's file have no flags.
  [[nodiscard]] bool keys_only_in_file() const {
    return config_file_ && !config_file_->keys_as_flags;
  }
  // By its name or an alias.
  [[nodiscard]] bool IsCalled(const std::string& name) const {
    return name == name_ || common::Contains(aliases_, name);
  }
  // The option of the command line that names the framework's file; "" if it
  // has none.
  [[nodiscard]] std::string FileOption() const {
    return config_file_ && !config_file_->options.empty()
               ? config_file_->options.front()
               : "";
  }
  [[nodiscard]] const std::string& title() const { return title_; }
  // The file in experiments/frameworks/ that says what the framework can do and
  // how long it takes; "" if there is none.
  [[nodiscard]] const std::string& framework() const { return framework_; }
  // What users of the framework type, with placeholders; empty if there is
  // nothing usual.
  [[nodiscard]] const std::vector<std::string>& command() const {
    return command_;
  }
  // The versions and commits that the settings were checked with.
  [[nodiscard]] const std::string& checked() const { return checked_; }
  [[nodiscard]] const LogPatterns& log() const { return log_; }
  [[nodiscard]] const std::vector<AdapterSetting>& settings() const {
    return settings_;
  }
  // [space]: the values of parameters that differ from the default grids.
  [[nodiscard]] const common::TomlTable& space() const { return space_; }
  // [training]: what its usual program does, such as the loss in chunks.
  [[nodiscard]] const Training& training() const { return training_; }
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

 private:
  // What a value of a key or an option means for the workload, and what is said
  // about it.
  struct Meaning {
    std::string key;
    std::vector<std::string> is;  // none: any value
    std::string training;         // "KEY=VALUE"
    std::string note;
  };
  // What the keys of a file, or the options of a command line, mean.
  struct Meanings {
    std::vector<Meaning> meanings;
    // "KEY=VALUE" where no key says otherwise.
    std::vector<std::string> defaults;
    // Keys, or tables of them, on which neither memory nor time depends.
    std::vector<std::string> without_effect;
  };
  // The framework's own configuration file.
  struct ConfigFile : Meanings {
    ConfigFormat format = ConfigFormat::kJson;
    // That name it: "--deepspeed_config". Empty: the first word with the
    // format's extension is the file.
    std::vector<std::string> options;
    bool keys_as_flags = false;  // --KEY VALUE where the job names no file
    // How words of the command override a key, "--{key}" or, with the last part
    // of it, "--{name}"; "": they do not.
    std::string overrides;
    std::string text;  // of a complete file; Purpose::kLaunch sets its keys
  };
  // The file that a job names, with its text; no file if it names none.
  struct FoundFile {
    std::filesystem::path path;
    std::string text;
  };

  using SettingValue =
      std::pair<const AdapterSetting*, std::optional<ConfigValue>>;
  class PresentSearch;  // adapter_present.cc

  // The settings of a job with their values; without a value, the job must not
  // have the setting. Of several rows with one name, the first whose condition
  // holds counts.
  [[nodiscard]] std::vector<SettingValue> Values(
      const AdapterJob& job, const std::optional<ParallelConfig>& config,
      Purpose purpose, bool has_file, const Expand& expand) const;
  // The value of a key of the file.
  // Errors: throws InputError that names the file and the key.
  [[nodiscard]] std::optional<std::string> KeyOf(const std::string& name,
                                                 const FoundFile& found) const;
  // The option that overrides a key of the file; "" if there is none.
  [[nodiscard]] std::string OverrideOf(const std::string& key) const;
  // What the job says of a key: in its words, else in its file.
  [[nodiscard]] std::optional<std::string> SaidOf(const std::string& key,
                                                  const AdapterJob& job,
                                                  const FoundFile& found) const;
  // Whether the job's own file, whose FileSettings::training is `said`, decides
  // a setting of the usual command.
  [[nodiscard]] bool Decides(const std::vector<std::string>& said,
                             const AdapterSetting& setting) const;
  // Sets or removes a key of the file.
  void SetKey(const std::string& name, const std::optional<ConfigValue>& value,
              FoundFile& found) const;
  // The user's own file of the usual command.
  struct OwnFile {
    std::string name;
    std::vector<std::string> training;  // what it says of it
  };
  [[nodiscard]] std::optional<OwnFile> FindOwnFile(AdapterJob job,
                                                   bool has_file) const;
  // Sets the key of a setting; in the user's own file, only where the plan
  // decides, with a note of what the file said.
  void SetFileKey(const SettingValue& setting_value,
                  const std::optional<OwnFile>& own, FoundFile& file,
                  RenderedJob& rendered) const;
  void NoteUnknownKeys(const FoundFile& file,
                       const std::vector<std::string>& known,
                       std::vector<std::string>& notes) const;
  // The tables of options of a job, whose file is not read.
  [[nodiscard]] Meanings OptionMeanings(bool reads_file) const;
  // Whether the settings, the file's keys or `options` name the option.
  [[nodiscard]] bool Knows(const std::string& option,
                           const Meanings& options) const;
  // The RareParts of the model that no setting says.
  [[nodiscard]] std::vector<std::string> UnsaidParts(
      const AdapterJob& job, const ParallelConfig& config,
      const Rule::Context& context) const;
  // The user's file, as a job names it.
  [[nodiscard]] std::optional<std::string> NamedFile(
      const AdapterJob& job) const;
  // Makes the words that name the file name `path`.
  void SetPath(const std::filesystem::path& path,
               std::vector<std::string>& words) const;
  [[nodiscard]] std::optional<FoundFile> FindFile(const AdapterJob& job,
                                                  Purpose purpose) const;
  [[nodiscard]] std::optional<ConfigValue> ValueOf(
      const AdapterSetting& setting, const ParallelConfig& config,
      const Rule::Context& context, const Expand& expand) const;
  // Whether the setting exists for a job with, or without, a file.
  [[nodiscard]] bool Applies(const AdapterSetting& setting,
                             bool has_file) const;
  [[nodiscard]] std::optional<std::string> PresentText(
      const AdapterSetting& setting, const AdapterJob& job,
      const std::optional<FoundFile>& found) const;

  std::string name_;
  std::string title_;
  std::string framework_;
  std::string checked_;
  std::vector<std::string> aliases_;
  std::vector<std::string> command_;
  std::vector<std::string> on_nodes_;  // words of {on_nodes}, on several nodes
  std::filesystem::path file_;
  std::vector<AdapterSetting> settings_;
  std::optional<ConfigFile> config_file_;
  Meanings words_;        // of its command line
  RenderedFile program_;  // of the usual command; without a path: the user's
  LogPatterns log_;
  common::TomlTable space_;
  Training training_;
};

}  // namespace trials
