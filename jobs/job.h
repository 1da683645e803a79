// A training job whose configuration is to be chosen, and the space to choose
// from.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "jobs/machine.h"
#include "trials/adapters/adapter.h"
#include "trials/cluster.h"
#include "trials/rules.h"
#include "trials/search_space.h"
#include "trials/simulator/error_band.h"
#include "trials/simulator/framework.h"
#include "trials/workload.h"

namespace jobs {

struct FrameworkChoice {
  std::string name;                        // of its file: "megatron-core"
  std::optional<trials::Adapter> adapter;  // how it is started
  std::filesystem::path file;
  trials::Framework framework;
};

// The framework of an adapter ("torchtitan"), or a framework ("fsdp2") with the
// last by name of the adapters that have it.
// Errors: throws InputError for an unknown name, with the known ones.
[[nodiscard]] FrameworkChoice FindFramework(const std::string& name);

// "torchtitan (fsdp2)"
[[nodiscard]] std::string FrameworkLabel(const FrameworkChoice& choice);

struct Job {
  trials::Workload workload;
  trials::Cluster cluster;
  FrameworkChoice framework;
  std::vector<std::string> rules;           // the user's, see trials::Rule
  std::filesystem::path config_json = {};   // of the model, if it has one
  std::vector<std::string> notes = {};      // on the framework's own file
  std::filesystem::path config_file = {};   // that file, if the user gives one
  std::vector<std::string> training = {};   // the user's settings, "KEY=VALUE"
  std::vector<std::string> constants = {};  // and constants of the framework
};

// Gives a job a framework, with the training that its file, the user's file and
// the user's settings say, and the user's constants.
// Errors: throws InputError for an unknown name, for a file that it does not
// read, and for settings that contradict the file.
void SetFramework(const std::string& name, Job& job);
// Changes constants of a framework, "KEY=VALUE".
void ChangeConstants(const std::vector<std::string>& constants,
                     trials::Framework& framework);

// What makes forecasts of a job a guess (trials::Guess).
[[nodiscard]] std::vector<trials::Guess> GuessesOf(const Job& job);

// Sets the precision and the training of a workload: first what the framework's
// own file says, then the user's settings, "KEY=VALUE".
// Errors: throws InputError that names --training, or the file that a setting
// contradicts: the program would follow its file.
void SetTraining(const trials::FileSettings& file,
                 const std::vector<std::string>& settings,
                 trials::Workload& workload);

// The names of trials::Precision, in its order.
inline const std::vector<std::string> kPrecisions = {"fp32", "fp16", "bf16",
                                                     "fp8"};

// A model from a config.json, a folder that contains one, or sizes:
// "layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=128256", a decoder
// with the blocks of Llama unless other fields of trials::Model follow:
// "gated=false,tied=true,norm_bias=true".
// Errors: throws InputError.
[[nodiscard]] trials::Model FindModel(const std::string& text,
                                      const trials::ModelOptions& options = {});
// That config.json; empty for sizes.
[[nodiscard]] std::filesystem::path FindConfigJson(const std::string& text);

// A workload from the values of options. `sequence_length`: 0: that of a model
// of images.
// Errors: throws InputError that names --seq.
[[nodiscard]] trials::Workload MakeWorkload(const trials::Model& model,
                                            int batch_size,
                                            int sequence_length);

// The sequences of a step that a command line says: those of the adapter's
// setting, or of the microbatches of all ranks.
[[nodiscard]] std::optional<double> PresentBatch(const trials::Adapter& adapter,
                                                 const trials::AdapterJob& job,
                                                 int gpus);

// The divisors of a number, ascending, as far as they are at most `most`.
[[nodiscard]] std::vector<int> DivisorsUpTo(int number, int most);
// Sizes of context parallelism that are worth a try.
[[nodiscard]] std::vector<int> ContextSizes(const trials::Workload& workload,
                                            int gpus);

// The configurations that a plan compares: all sizes, ZeRO stages, microbatch
// sizes, chunks and kinds of recomputation; communication overlaps computation
// where it can, and buckets have one size. Rules exclude what the framework
// cannot do, tensor parallelism between nodes, and tensor without sequence
// parallelism.
[[nodiscard]] trials::SearchSpace JobSpace(const Job& job);
// Its rules; the origin of those that are no framework's and no user's.
[[nodiscard]] std::vector<trials::Rule> JobRules(const Job& job);
[[nodiscard]] std::string JobRuleOrigin();

}  // namespace jobs
