// The program: reads the command line, calls a verb, reports what went wrong.

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/contain.h"
#include "cli/verbs.h"
#include "common/error.h"
#include "harness/provenance.h"
#include "studies/fits/verb.h"
#include "studies/noise.h"
#include "studies/scaling.h"
#include "studies/validation/verb.h"

namespace {

constexpr int kBadInput = 2;

// The command line as it was, for records; without the parent's process id,
// so that it can be given again.
std::string CommandLine(int argc, const char* const* argv) {
  std::string text;
  for (int i = 0; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--parent") {
      ++i;
      continue;
    }
    text += fmt::format("{}{}", i == 0 ? "" : " ", argv[i]);
  }
  return text;
}

// Everything that the command line can say.
struct Arguments {
  cli::VerbOptions verb;
  cli::RunVerbOptions run;
  cli::RunOneOptions run_one;
  cli::SpaceOptions space;
  cli::SimulateOptions simulate;
  cli::MethodsOptions methods;
  studies::FitsVerbOptions fits;
  studies::ValidateOptions validate;
  studies::ScaleOptions scale;
  studies::NoiseVerbOptions noise;
  std::vector<std::string> figures;
  std::string dispatch = "local";
  int repeats = 0;
  bool all_runs = false;
  std::string run_name;
  std::string submission;
  std::string which;
  std::vector<std::string> words;
};

// A command line of this program, executed here.
int CallSelf(const std::vector<std::string>& words);

class CommandLineParser {
 public:
  explicit CommandLineParser(Arguments& arguments) : arguments_(arguments) {
    app_.require_subcommand(1);
    app_.set_version_flag("--version", harness::Version());
    AddPlan();
    AddRun();
    AddRunOne();
    AddRunTask();
    AddContain();
    AddStatus();
    AddCancel();
    AddLogs();
    AddReport();
    AddFits();
    AddSpace();
    AddSimulate();
    AddValidate();
    AddScale();
    AddNoise();
    AddMethods();
  }

  CLI::App& app() { return app_; }
  [[nodiscard]] int Call() const { return call_(); }

 private:
  // A verb that reads a manifest.
  CLI::App* AddVerb(const std::string& name,
                    const std::string& description,
                    std::function<int()> call) {
    CLI::App* verb = app_.add_subcommand(name, description);
    verb->add_option(
            "FILE", arguments_.verb.manifest, "the experiment's manifest")
        ->required();
    verb->callback([this, call = std::move(call)] { call_ = call; });
    return verb;
  }

  void AddResults(CLI::App* verb) {
    verb->add_option("--results",
                     arguments_.verb.results,
                     "folder of all records (default: results)");
  }

  void AddOverrides(CLI::App* verb) {
    verb->add_option("--repeats",
                     arguments_.repeats,
                     "in place of the manifest's number of repeats")
        ->each([this](const std::string&) { repeats_given_ = true; });
    verb->add_option("--methods",
                     arguments_.verb.overrides.methods,
                     "in place of the manifest's methods: a,b,...")
        ->delimiter(',');
    verb->parse_complete_callback([this] {
      if (repeats_given_) {
        arguments_.verb.overrides.repeats = arguments_.repeats;
      }
    });
  }

  void AddProblem(CLI::App* verb) {
    verb->add_option("--problem",
                     arguments_.verb.problem,
                     "only this problem, where the manifest has several");
  }

  void AddDispatch(CLI::App* verb) {
    verb->add_option("--dispatch",
                     arguments_.dispatch,
                     "who executes the runs: local (default) or slurm")
        ->check(CLI::IsMember({"local", "slurm"}))
        ->each([this](const std::string& value) {
          arguments_.verb.slurm = value == "slurm";
        });
  }

  void AddTrialPerJob(CLI::App* verb) {
    verb->add_flag("--trial-per-job",
                   arguments_.verb.trial_per_job,
                   "with slurm: search here, each trial is a job of its own");
  }

  void AddPlan() {
    CLI::App* verb = AddVerb("plan",
                             "print the run matrix; writes nothing",
                             [this] { return cli::Plan(arguments_.verb); });
    AddResults(verb);
    AddOverrides(verb);
    AddDispatch(verb);
    verb->add_option("--jobs", arguments_.run.jobs, "has no effect here");
    AddTrialPerJob(verb);
    verb->add_flag("--json", arguments_.verb.json, "print JSON");
  }

  void AddRun() {
    CLI::App* verb = AddVerb(
        "run", "do every run that is not done yet, then report", [this] {
          return cli::Run(arguments_.verb, arguments_.run);
        });
    AddResults(verb);
    AddOverrides(verb);
    AddDispatch(verb);
    verb->add_option("--jobs",
                     arguments_.run.jobs,
                     "runs at a time (default: one per core)")
        ->check(CLI::PositiveNumber);
    verb->add_flag("--wait",
                   arguments_.run.wait,
                   "with slurm: show progress until all is through");
    verb->add_flag("--requeue-until-done",
                   arguments_.verb.requeue_until_done,
                   "with slurm: go on in a new job after the time limit");
    AddTrialPerJob(verb);
    verb->add_flag(
        "--no-report", arguments_.run.no_report, "write no tables and figures");
  }

  void AddRunOne() {
    CLI::App* verb = AddVerb("run-one", "do one run in this process", [this] {
      return cli::RunOneVerb(arguments_.verb, arguments_.run_one);
    });
    verb->group("");  // what `run` starts; not for people
    AddResults(verb);
    AddOverrides(verb);
    AddProblem(verb);
    verb->add_option("--method", arguments_.run_one.method)->required();
    verb->add_option("--repeat", arguments_.run_one.repeat)->required();
    verb->add_option("--parent", arguments_.run_one.parent);
    verb->add_option("--lease-s", arguments_.run_one.lease_s)
        ->check(CLI::PositiveNumber);
    verb->add_option("--stop-after-s", arguments_.run_one.stop_after_s);
    verb->add_flag("--trial-per-job", arguments_.verb.trial_per_job);
  }

  void AddRunTask() {
    CLI::App* verb =
        app_.add_subcommand("run-task", "what a job of Slurm calls");
    verb->group("");
    verb->add_option("FOLDER", arguments_.submission)->required();
    verb->add_option("WHICH", arguments_.which)->required();
    verb->callback([this] {
      call_ = [this] {
        return cli::RunTaskVerb(
            arguments_.submission, arguments_.which, CallSelf);
      };
    });
  }

  void AddContain() {
    CLI::App* verb =
        app_.add_subcommand("contain", "a rank of a trial on another node");
    verb->group("");
    verb->add_option("WORDS", arguments_.words)->required();
    verb->callback(
        [this] { call_ = [this] { return cli::Contain(arguments_.words); }; });
  }

  void AddCancel() {
    CLI::App* verb =
        AddVerb("cancel", "take its jobs out of Slurm's queue", [this] {
          return cli::CancelVerb(arguments_.verb);
        });
    AddResults(verb);
  }

  void AddLogs() {
    CLI::App* verb = AddVerb("logs", "the last output of a run", [this] {
      return cli::Logs(arguments_.verb, arguments_.run_name);
    });
    verb->add_option(
            "RUN", arguments_.run_name, "the run's name, as in `oppa plan`")
        ->required();
    AddResults(verb);
    AddOverrides(verb);
  }

  void AddStatus() {
    CLI::App* verb = AddVerb("status", "how far each run is", [this] {
      return cli::Status(arguments_.verb, arguments_.all_runs);
    });
    AddResults(verb);
    AddOverrides(verb);
    verb->add_flag("--all", arguments_.all_runs, "list every run");
    verb->add_flag("--json", arguments_.verb.json, "print JSON");
  }

  void AddReport() {
    CLI::App* verb =
        AddVerb("report", "tables and figures from the records", [this] {
          return cli::Report(arguments_.verb, arguments_.figures);
        });
    AddResults(verb);
    verb->add_option("--figures", arguments_.figures, "only these: a,b,...")
        ->delimiter(',');
  }

  void AddFits() {
    CLI::App* verb = app_.add_subcommand("fits", "what a run has learned");
    verb->add_option("RUN",
                     arguments_.fits.run_folder,
                     "the run's folder: results/EXPERIMENT/METHOD/REPEAT")
        ->required();
    verb->add_option("--trial",
                     arguments_.fits.trial,
                     "as it was before this trial; otherwise the last")
        ->check(CLI::PositiveNumber);
    verb->add_option("--manifest",
                     arguments_.fits.manifest,
                     "for sizes, in the place of the one that the run names");
    verb->add_flag("--json", arguments_.fits.json, "print JSON");
    verb->callback(
        [this] { call_ = [this] { return studies::Fits(arguments_.fits); }; });
  }

  void AddSpace() {
    CLI::App* verb =
        AddVerb("space", "the configurations that may be tried", [this] {
          return cli::Space(arguments_.verb, arguments_.space);
        });
    AddProblem(verb);
    verb->add_flag("--count", arguments_.space.count, "only how many");
    verb->add_flag("--csv", arguments_.verb.csv, "print all of them");
    verb->add_flag("--why", arguments_.space.why, "how many each rule dropped");
  }

  void AddSimulate() {
    CLI::App* verb = AddVerb("simulate", "trials without noise", [this] {
      return cli::Simulate(arguments_.verb, arguments_.simulate);
    });
    AddProblem(verb);
    auto* what = verb->add_option_group("what", "what to simulate");
    what->add_option("--pc",
                     arguments_.simulate.config,
                     "one configuration, dp=4,pp=2,...: the parts of its step");
    what->add_flag("--all", arguments_.simulate.all, "every candidate");
    what->require_option(1);
    verb->add_flag(
        "--csv", arguments_.verb.csv, "with --all: print all as CSV");
  }

  void AddValidate() {
    studies::ValidateOptions& options = arguments_.validate;
    CLI::App* verb = app_.add_subcommand(
        "validate", "the simulator beside what others measured");
    verb->add_option("NAME",
                     options.names,
                     "published tables, in the folder that OPPA_DATA names "
                     "(default: all that are there)");
    verb->add_option("--table",
                     options.table,
                     "another table, of the format of any of these");
    verb->add_option("--scenarios",
                     options.overrides.scenarios,
                     "a CSV file with the sizes of each of its scenarios");
    verb->add_option("--cluster",
                     options.overrides.cluster,
                     "its cluster: a file, or a name in experiments/clusters");
    verb->add_option(
        "--framework",
        options.overrides.framework,
        "its framework: a file, or a name in experiments/frameworks");
    verb->add_flag("--csv",
                   options.csv,
                   "print its rows with what the simulator predicts");
    verb->add_flag("--json",
                   options.json,
                   "print the numbers as one JSON object per table");
    verb->add_flag("--no-figures", options.no_figures, "draw no figures");
    verb->add_option("--results",
                     options.results,
                     "folder of the figures (default: results)");
    verb->callback([this] {
      call_ = [this] { return studies::Validate(arguments_.validate); };
    });
  }

  void AddScale() {
    CLI::App* verb = AddVerb(
        "scale", "step time and cost of simulating on 8 to 16384 GPUs", [this] {
          return studies::Scale(arguments_.verb.Study(), arguments_.scale);
        });
    AddResults(verb);
    verb->add_option("--gpus", arguments_.scale.gpus, "only these: 8,64,...")
        ->delimiter(',')
        ->check(CLI::PositiveNumber);
  }

  void AddNoise() {
    CLI::App* verb = AddVerb(
        "noise", "figures of the step times of simulated trials", [this] {
          return studies::Noise(arguments_.verb.Study(), arguments_.noise);
        });
    AddResults(verb);
    verb->add_option("--trials", arguments_.noise.trials, "configurations")
        ->check(CLI::Range(1, 20));
    verb->add_option("--steps", arguments_.noise.steps, "steps of each")
        ->check(CLI::Range(2, 100000));
    verb->add_option("--seed", arguments_.noise.seed, "of the draw");
  }

  void AddMethods() {
    CLI::App* verb =
        app_.add_subcommand("methods", "the methods that a manifest may name");
    verb->add_option("name", arguments_.methods.name, "show its options");
    verb->add_flag("--json", arguments_.methods.json, "print JSON");
    verb->add_flag("--markdown",
                   arguments_.methods.markdown,
                   "print the page docs/methods.md");
    verb->callback([this] {
      call_ = [this] { return cli::Methods(arguments_.methods); };
    });
  }

  Arguments& arguments_;
  CLI::App app_{
      "Finds the fastest parallelism configuration for training a neural "
      "network,\nand compares the methods that search for it.",
      "oppa"};
  std::function<int()> call_;
  bool repeats_given_ = false;
};

int Main(int argc, const char* const* argv) {
  Arguments arguments;
  arguments.run.command = CommandLine(argc, argv);
  arguments.run_one.command = arguments.run.command;
  CommandLineParser parser(arguments);
  try {
    parser.app().parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return parser.app().exit(e) == 0 ? 0 : kBadInput;
  }
  return parser.Call();
}

int CallSelf(const std::vector<std::string>& words) {
  std::vector<const char*> argv;
  argv.reserve(words.size());
  for (const std::string& word : words) {
    argv.push_back(word.c_str());
  }
  return Main(static_cast<int>(argv.size()), argv.data());
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGCHLD, SIG_DFL);  // ignored by the parent, children are lost
  try {
    return Main(argc, argv);
  } catch (const common::InputError& e) {
    (void)std::fprintf(stderr, "oppa: %s\n", e.what());
    return kBadInput;
  } catch (const std::exception& e) {
    (void)std::fprintf(stderr, "oppa: %s\n", e.what());
    return 1;
  }
}
