#include "trials/programs/command_options.h"

#include <map>

#include <fmt/format.h>
#include <unistd.h>

#include "common/error.h"
#include "common/fields.h"
#include "common/ranges.h"
#include "common/text.h"
#include "trials/adapters/placeholders.h"
#include "trials/knobs.h"
#include "trials/programs/rank_launch.h"
#include "trials/programs/trial_rendering.h"

namespace trials {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostLogBytes = std::int64_t{1} << 30;

// The words that start the ranks, ahead of the program.
std::vector<std::string> ReadLauncher(const common::TomlTable& table) {
  static const std::map<std::string, std::vector<std::string>> launchers = {
      {"as-is", {}},
      {"torchrun",
       {"torchrun", "--standalone", "--nproc_per_node={gpus_per_node}"}},
      {"srun",
       {"srun", "--nodes={nodes}", "--ntasks={gpus}",
        "--ntasks-per-node={gpus_per_node}", "--kill-on-bad-exit=1"}},
      {"mpirun", {"mpirun", "-np", "{gpus}"}},
  };
  if (!table.Has("launcher")) {
    return launchers.at("as-is");
  }
  const auto known = common::Map(
      launchers, [](const auto& launcher) { return launcher.first; });
  return launchers.at(table.RequireOneOf("launcher", "launcher", known));
}

void ReadAdapter(const common::TomlTable& table, CommandOptions& options) {
  if (table.Has("framework")) {
    options.adapter = table.At("framework", [&table] {
      return std::make_shared<const Adapter>(
          Adapter::Find(table.RequireString("framework"), table.Folder()));
    });
    options.log = std::shared_ptr<const LogPatterns>(options.adapter,
                                                     &options.adapter->log());
  }
  if (table.Has("log")) {
    options.log = std::make_shared<const LogPatterns>(
        ReadLogPatterns(table.RequireTable("log")));
  }
  if (options.log) {
    const std::vector<std::string>& texts = options.log->out_of_memory;
    options.out_of_memory.insert(options.out_of_memory.end(), texts.begin(),
                                 texts.end());
  }
}

// A program with a '/' is a file, relative to the manifest.
void ReadProgram(const common::TomlTable& table, CommandOptions& options) {
  options.program = table.GetStrings("program");
  if (options.program.empty() || options.program.front().empty()) {
    throw common::InputError(fmt::format(
        "{}: [backend] of type command needs program = [\"./train.sh\", ...]",
        table.Where()));
  }
  for (const std::string& word : options.program) {
    if (word.find('\0') != std::string::npos) {
      table.Fail("program", "a word cannot hold a NUL byte");
    }
    (void)table.At("program",
                   [&] { return Expand(word, Placeholders(options, {}, {})); });
  }
  std::string& program = options.program.front();
  if (program.find('/') == std::string::npos) {
    return;  // found in PATH where the trial runs
  }
  program = (options.folder / program).lexically_normal().string();
  if (::access(program.c_str(), X_OK) != 0) {
    table.Fail("program",
               fmt::format("'{}' is not an executable file (paths are "
                           "relative to the manifest; chmod +x?)",
                           program));
  }
  program = Literal(program);
}

}  // namespace

CommandOptions ReadCommandOptions(const common::TomlTable& table,
                                  const KnobSet& knobs) {
  CommandOptions options = ReadTrialOptions(table, knobs);
  ReadProgram(table, options);
  const std::vector<std::string> launcher = ReadLauncher(table);
  options.program.insert(options.program.begin(), launcher.begin(),
                         launcher.end());
  ReadAdapter(table, options);
  if (table.Has("hostfile")) {
    options.hosts = table.At("hostfile", [&] {
      return ReadHosts(table.Folder() / table.RequireString("hostfile"));
    });
  }
  const std::string usual = options.hosts.empty() ? "one" : "per-node";
  try {
    common::FromText(table.GetString("ranks", usual), options.ranks);
  } catch (const common::InputError& e) {
    table.Fail("ranks", fmt::format("ranks: {}", e.what()));
  }
  if (!options.hosts.empty() &&
      options.ranks != CommandOptions::Ranks::kPerNode) {
    table.Fail("ranks",
               "ssh starts one process on each host of the hostfile: "
               "ranks = \"per-node\"");
  }
  return options;
}

CommandOptions ReadTrialOptions(const common::TomlTable& table,
                                const KnobSet& knobs) {
  CommandOptions options;
  options.knobs = knobs;
  // The folder of "m.toml" is "", which fs::absolute does not take.
  options.folder = table.Folder().empty() ? fs::current_path()
                                          : fs::absolute(table.Folder());
  if (table.Has("folder")) {
    options.folder =
        (options.folder / table.RequireString("folder")).lexically_normal();
    if (!fs::is_directory(options.folder)) {
      table.Fail("folder",
                 fmt::format("{} is not a folder (paths are relative to the "
                             "manifest)",
                             options.folder.string()));
    }
  }
  options.timeout_s = table.GetPositive("timeout_s", options.timeout_s);
  options.silence_s = table.GetPositive("silence_s", options.silence_s);
  options.patience_s = table.GetPositive("patience_s", options.patience_s);
  options.warmup_steps = table.GetIntIn("warmup_steps", 0, 0);
  options.log_bytes = table.GetInt("log_bytes", options.log_bytes);
  if (options.log_bytes < 1 || options.log_bytes > kMostLogBytes) {
    table.Fail("log_bytes", fmt::format("log_bytes = {}: must be in [1, {}]",
                                        options.log_bytes, kMostLogBytes));
  }
  options.environment = table.GetStrings("environment");
  for (const std::string& variable : options.environment) {
    const std::size_t equals = variable.find('=');
    if (equals == 0 || equals == std::string::npos ||
        variable.find('\0') != std::string::npos) {
      table.Fail("environment",
                 fmt::format("'{}': write NAME=value", variable));
    }
  }
  if (table.Has("out_of_memory")) {
    options.out_of_memory = table.GetStrings("out_of_memory");
  }
  return options;
}

}  // namespace trials
