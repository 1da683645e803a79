#include "jobs/job_draft.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "common/toml_table.h"
#include "jobs/machine_presets.h"
#include "trials/workload.h"

namespace jobs {
namespace {

using common::InputError;

// The sequences of a step: of the option, of the adapter's setting, or of the
// microbatches of all ranks.
int BatchSize(const InitOptions& options,
              const std::optional<trials::Adapter>& adapter,
              const trials::AdapterJob& job) {
  if (options.batch > 0) {
    return options.batch;
  }
  if (adapter) {
    const auto number = [&](std::string_view expression) {
      return adapter->PresentNumber(job, expression);
    };
    if (const auto batch = number("$batch_size"); batch && *batch >= 1.0) {
      return static_cast<int>(*batch);
    }
    const auto micro = number("$micro_batch_size");
    if (micro && *micro >= 1.0) {
      const double others = number("$tp").value_or(1.0) *
                            number("$pp").value_or(1.0) *
                            number("$cp").value_or(1.0);
      return static_cast<int>(*micro * number("$microbatches").value_or(1.0) *
                              job.cluster.gpus() / others);
    }
  }
  throw InputError(
      "the command line does not say how many sequences a step has: give "
      "--batch N (over all ranks)");
}

int SequenceLength(const InitOptions& options,
                   const std::optional<trials::Adapter>& adapter,
                   const trials::AdapterJob& job) {
  if (options.sequence > 0) {
    return options.sequence;
  }
  const auto length =
      adapter ? adapter->PresentNumber(job, "$sequence_length") : std::nullopt;
  if (length && *length >= 1.0) {
    return static_cast<int>(*length);
  }
  throw InputError(
      "the command line does not say how long a sequence is: give --seq N "
      "(tokens)");
}

// The machine as detected, with the sizes that the options give. Ranks on a CPU
// are as many as the present configuration has.
Machine MachineOf(const InitOptions& options,
                  const std::optional<trials::ParallelConfig>& present) {
  const int devices =
      present ? present->dp * present->tp * present->pp * present->cp : 0;
  Machine machine = DetectMachine(options.command, devices);
  if (!options.gpus.empty()) {
    machine.size = ParseMachineSizes(options.gpus, 8).front();
  }
  if (options.memory_gib > 0.0) {
    machine.memory_gib = options.memory_gib;
  }
  if (!options.gpu.empty()) {
    (void)FindMachine({.gpu = options.gpu, .cluster = ""});
    machine.product = options.gpu;
  }
  if (devices > 0 && devices != machine.size.gpus()) {
    throw InputError(fmt::format(
        "--start {}: dp * tp * pp * cp is {}, but the machine has {} x {} "
        "devices ({}): correct it, or give --gpus NODESxGPUS",
        options.start, devices, machine.size.nodes, machine.size.gpus_per_node,
        options.gpus.empty() ? machine.source : "--gpus"));
  }
  return machine;
}

}  // namespace

std::string TomlString(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
    }
    quoted += c;
  }
  return quoted + '"';
}

JobDraft DraftJob(const InitOptions& options) {
  JobDraft draft;
  if (options.command.empty()) {
    throw InputError(
        "your command line is missing: give it after --, as in `... -- "
        "torchrun train.py`");
  }
  if (options.model.empty()) {
    throw InputError("--model FILE is missing: the config.json of your model");
  }
  if (!options.start.empty()) {
    try {
      draft.present =
          trials::Canonical(trials::ParseParallelConfig(options.start));
    } catch (const std::invalid_argument& e) {
      throw InputError(fmt::format("--start: {}", e.what()));
    }
  }
  draft.machine = MachineOf(options, draft.present);
  if (options.cluster.empty()) {
    draft.like = LikenessOf(draft.machine);
  }
  if (!options.framework.empty()) {
    draft.adapter = trials::Adapter::Find(options.framework, options.folder);
  }
  draft.job.words = options.command;
  draft.job.folder = options.folder;
  draft.job.cluster.nodes = draft.machine.size.nodes;
  draft.job.cluster.gpus_per_node = draft.machine.size.gpus_per_node;
  const int batch = BatchSize(options, draft.adapter, draft.job);
  const int sequence = SequenceLength(options, draft.adapter, draft.job);
  draft.job.workload = trials::ReadWorkload(common::TomlTable::ParseString(
      fmt::format(
          "model = {}\nbatch_size = {}\nsequence_length = {}\n",
          TomlString(std::filesystem::absolute(options.folder / options.model)
                         .string()),
          batch, sequence),
      "the command line"));
  if (!draft.present && draft.adapter) {
    const trials::PresentConfig present = draft.adapter->Present(draft.job);
    draft.present = present.config;
    draft.notes = present.notes;
  }
  return draft;
}

std::optional<Likeness> LikenessOf(const Machine& machine) {
  const auto usual = UsualCluster(machine.product);
  const bool cpu = machine.product.empty();
  std::vector<Likeness> choices;
  if (usual) {
    choices.push_back({*usual, ""});
  } else if (cpu) {
    choices.push_back({"cpu-2", ""});
  }
  if (!cpu) {
    choices.push_back({"a100-selene", "; in place of this machine"});
  }
  for (const Likeness& choice : choices) {
    try {
      (void)WithSize(FindMachine({.gpu = "", .cluster = choice.cluster}),
                     machine.size);
      return choice;
    } catch (const InputError&) {
      continue;  // it cannot have this size
    }
  }
  return std::nullopt;
}

}  // namespace jobs
