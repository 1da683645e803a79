// adapters.

#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/verb_options.h"
#include "common/error.h"
#include "common/json.h"
#include "jobs/job.h"
#include "jobs/machine.h"
#include "trials/adapters/adapter.h"
#include "trials/knobs.h"

namespace cli {
namespace {

struct AdapterOptions {
  std::string name;
  std::string config;
  std::string model;
  std::string gpus = "1x8";
  int batch = 256;
  int sequence = 0;
  Words command;
};

void ListAdapters() {
  for (const std::string& name : trials::Adapter::Names()) {
    const trials::Adapter adapter = trials::Adapter::Find(name);
    fmt::print("{:<22}{}\n{:<22}checked with {}\n", name, adapter.title(), "",
               adapter.checked());
  }
}

// The job with the configuration, as `oppa tune` would run it in use.
int RenderJob(const AdapterOptions& options, bool json) {
  const trials::Adapter adapter = trials::Adapter::Find(options.name);
  const jobs::MachineSize size =
      jobs::ParseMachineSizes(options.gpus, {8}).front();
  trials::AdapterJob job;
  job.words = options.command;
  job.folder = std::filesystem::current_path();
  job.workload = jobs::MakeWorkload(trials::ReadModel(options.model),
                                    options.batch, options.sequence);
  job.config_json = options.model;
  job.cluster.nodes = size.nodes;
  job.cluster.gpus_per_node = size.gpus_per_node;
  trials::ParallelConfig config;
  try {
    config = trials::Canonical(trials::ParseParallelConfig(options.config));
  } catch (const std::invalid_argument& e) {
    throw common::InputError(fmt::format("--pc: {}", e.what()));
  }
  const trials::RenderedJob rendered =
      job.words.empty()
          ? adapter.RenderUsual(job, config, ".")
          : adapter.Render(job, config, trials::Adapter::Purpose::kUse, ".",
                           nullptr);
  if (!rendered.refusal.empty()) {
    throw common::InputError(fmt::format("adapters {}: no command: {}",
                                         options.name, rendered.refusal));
  }
  if (!json) {
    fmt::print("{}\n", trials::CommandLine(rendered));
    for (const trials::RenderedFile& file : rendered.files) {
      fmt::print("\n# {}\n{}", file.path.string(), file.content);
    }
    return 0;
  }
  common::Json document = {
      {"adapter", adapter.name()}, {"checked", adapter.checked()},
      {"words", rendered.words},   {"environment", rendered.environment},
      {"notes", rendered.notes},   {"files", common::Json::object()}};
  for (const trials::RenderedFile& file : rendered.files) {
    document["files"][file.path.string()] = file.content;
  }
  fmt::print("{}\n", common::ToText(document, 2));
  return 0;
}

}  // namespace

Verbs AdapterVerbs() {
  const auto all = std::make_shared<Bound<AdapterOptions>>();
  AdapterOptions& own = all->own;
  return {
      {.group = kReference,
       .name = "adapters",
       .summary = "list the training frameworks that oppa can start",
       .description =
           "With a name and a configuration, prints the command line and the "
           "files of a job with that configuration: the usual ones, or the "
           "words after -- as your command line, of which the rest stays as it "
           "is.",
       .options = {Bind("NAME", "the adapter", own.name),
                   Bind("--pc CONFIG", "\"dp=4,tp=2,zero_stage=1\"",
                        own.config),
                   Bind("--model FILE", "config.json of the model", own.model),
                   Bind("--gpus NODESxGPUS", "machine (default: 1x8)",
                        own.gpus),
                   Bind("--batch N", "sequences of a step", own.batch),
                   Bind("--seq N", "tokens of a sequence", own.sequence),
                   JsonFlag(all->verb)},
       .examples = {"oppa adapters",
                    "oppa adapters megatron-lm --model config.json --gpus 2x8 "
                    "--pc dp=8,tp=2,zero_stage=1 -- torchrun pretrain_gpt.py"},
       .command = std::shared_ptr<Words>(all, &own.command),
       .run = [all](const Words&) {
         if (all->own.name.empty()) {
           ListAdapters();
           return 0;
         }
         if (all->own.config.empty() || all->own.model.empty()) {
           throw common::InputError(
               "adapters NAME: --pc CONFIG and --model FILE are needed");
         }
         return RenderJob(all->own, all->verb.json);
       }}};
}

}  // namespace cli
