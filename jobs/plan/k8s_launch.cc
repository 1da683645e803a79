#include "jobs/plan/k8s_launch.h"

#include <fmt/format.h>

#include "common/error.h"
#include "common/text.h"
#include "trials/adapters/command_words.h"
#include "trials/adapters/yaml_json.h"

namespace jobs {
namespace {

using common::Json;

constexpr const char* kMount = "/oppa";

// A name for Kubernetes (RFC 1123), with room for what Trainer appends.
std::string ObjectName(const std::string& name) {
  constexpr std::size_t kMost = 40;
  std::string text;
  for (const char c : common::Lower(name)) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (good || (!text.empty() && text.back() != '-')) {
      text += good ? c : '-';
    }
  }
  // The name of a service begins with a letter.
  text =
      (text.empty() || text[0] < 'a' ? "job-" + text : text).substr(0, kMost);
  text.erase(text.find_last_not_of('-') + 1);
  return text;
}

// The paths of the launch are those of a container.
std::string InContainer(std::string word) {
  const std::string here = "$here";
  for (std::size_t at = word.find(here); at != word.npos;
       at = word.find(here)) {
    word.replace(at, here.size(), kMount);
  }
  return word;
}

// What the pods have besides those of the runtime: the files, if there are any.
Json PatchOf(const std::string& name, bool has_files) {
  // Processes of a node exchange data in /dev/shm, which has 64 MB otherwise.
  Json volumes = {{{"name", "shm"}, {"emptyDir", {{"medium", "Memory"}}}}};
  Json mounts = {{{"name", "shm"}, {"mountPath", "/dev/shm"}}};
  if (has_files) {
    volumes.push_back({{"name", "oppa"}, {"configMap", {{"name", name}}}});
    mounts.push_back({{"name", "oppa"}, {"mountPath", kMount}});
  }
  const Json container = {{"name", "node"}, {"volumeMounts", mounts}};
  const Json pod = {{"volumes", volumes},
                    {"containers", Json::array({container})}};
  const Json node = {{"name", "node"},
                     {"template", {{"spec", {{"template", {{"spec", pod}}}}}}}};
  return {
      {"manager", "oppa/plan"},
      {"trainingRuntimeSpec",
       {{"template", {{"spec", {{"replicatedJobs", Json::array({node})}}}}}}}};
}

// What the user has to know, as comments.
std::string HeadOf(const Job& job, const trials::RenderedJob& launch,
                   const std::string& queue) {
  std::string text = fmt::format(
      "# {} on {} GPUs, batch {} x {} tokens, for Kubeflow Trainer 2.2 or "
      "later:\n"
      "#   kubectl apply -f trainjob.yaml\n",
      job.workload.name, job.cluster.gpus(), job.workload.batch_size,
      job.workload.sequence_length);
  for (const std::string& note : launch.notes) {
    text += fmt::format("# {}\n", note);
  }
  text += fmt::format(
      "# The image of the runtime must have {}; else set spec.trainer.image. "
      "The command\n# starts in its working directory.\n{}",
      job.framework.adapter->title(),
      queue.empty() ? "# No queue: --queue NAME, a LocalQueue of Kueue.\n"
                    : "");
  return text;
}

}  // namespace

std::string GpuResource(const trials::Gpu& gpu) {
  return gpu.architecture.starts_with("cdna") ? "amd.com/gpu"
                                              : "nvidia.com/gpu";
}

std::vector<std::string> WithoutRendezvous(std::vector<std::string> words) {
  for (const char* flag : {"--nnodes", "--nproc-per-node", "--node-rank",
                           "--rdzv-id", "--rdzv-backend", "--rdzv-endpoint",
                           "--master-addr", "--master-port"}) {
    trials::RemoveFlag(words, flag, true);
  }
  return words;
}

std::string TrainJobText(const Job& job, const trials::ParallelConfig& config,
                         const trials::RenderedJob& launch,
                         const std::string& queue) {
  if (launch.words.empty() || launch.words.front() != "torchrun") {
    throw common::InputError(fmt::format(
        "--k8s: {} starts by '{}', and the environment that Kubeflow Trainer "
        "gives a container is that of torchrun; take a --framework that starts "
        "by it, such as hf-trainer-fsdp",
        job.framework.adapter->title(), launch.words.front()));
  }
  const trials::Cluster& cluster = job.cluster;
  const std::string name = ObjectName(job.workload.name);
  Json files = Json::object();
  for (const trials::RenderedFile& file : launch.files) {
    files[file.path.filename().string()] = file.content;
  }
  Json command = Json::array();
  for (const std::string& word : WithoutRendezvous(launch.words)) {
    command.push_back(InContainer(word));
  }
  Json env = Json::array();
  for (const std::string& variable : launch.environment) {
    const std::size_t equals = variable.find('=');
    env.push_back({{"name", variable.substr(0, equals)},
                   {"value", InContainer(variable.substr(equals + 1))}});
  }
  Json train_job = {
      {"apiVersion", kTrainJobVersion},
      {"kind", "TrainJob"},
      {"metadata", {{"name", name}}},
      {"spec",
       {{"runtimeRef", {{"name", "torch-distributed"}}},
        {"trainer",
         {{"numNodes", cluster.launchers()},
          {"numProcPerNode", cluster.launched_gpus()},
          {"command", command},
          {"env", env},
          {"resourcesPerNode",
           {{"limits",
             {{GpuResource(cluster.gpu), cluster.launched_gpus()}}}}}}},
        {"runtimePatches", Json::array({PatchOf(name, !files.empty())})}}}};
  if (env.empty()) {
    train_job["spec"]["trainer"].erase("env");
  }
  Json& metadata = train_job["metadata"];
  if (!queue.empty()) {
    metadata["labels"] = {{"kueue.x-k8s.io/queue-name", queue}};
  }
  metadata["annotations"] = {
      {fmt::format("{}config", kAnnotationPrefix), ToString(config)}};
  std::string text = HeadOf(job, launch, queue);
  if (!files.empty()) {
    text += trials::YamlOf({{"apiVersion", "v1"},
                            {"kind", "ConfigMap"},
                            {"metadata", {{"name", name}}},
                            {"data", files}}) +
            "---\n";
  }
  return text + trials::YamlOf(train_job);
}

}  // namespace jobs
