#include "jobs/plan/remedies.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/ranges.h"
#include "jobs/plan/launch.h"

namespace jobs {
namespace {

struct Request {
  Job job;
  ForecastOptions options;
};

// One change of a request. Changes of a kind have one name and stand together,
// the smallest first.
struct Change {
  const char* name;
  std::string option;  // its value
  std::function<void(Request& request)> apply;
};

// The size of the machine and its doubles as far as it can have them: at first
// those of a small node, then more nodes.
std::vector<MachineSize> SizesFrom(const trials::Cluster& cluster) {
  constexpr int kUsualNode = 8;
  constexpr int kMostDoublings = 7;
  std::vector<MachineSize> sizes;
  MachineSize size{cluster.nodes, cluster.gpus_per_node};
  for (int i = 0; i <= kMostDoublings; ++i) {
    try {
      (void)WithSize(cluster, size);
    } catch (const common::InputError&) {
      break;
    }
    sizes.push_back(size);
    const bool in_node =
        size.nodes == 1 && 2 * size.gpus_per_node <= kUsualNode;
    (in_node ? size.gpus_per_node : size.nodes) *= 2;
  }
  return sizes;
}

std::string SizeText(const MachineSize& size) {
  return fmt::format("{}x{}", size.nodes, size.gpus_per_node);
}

// The user's file is one of the framework that the job had.
void TakeFramework(const std::string& name, Job& job) {
  job.config_file.clear();
  SetFramework(name, job);
}

std::vector<Change> ChangesOf(const Job& job, const ForecastOptions& options) {
  constexpr double kSmallHeadroom = 5.0;  // percent
  constexpr int kShortest = 256;          // tokens
  std::vector<Change> changes;
  if (100.0 * options.headroom > kSmallHeadroom) {
    for (const double percent : {kSmallHeadroom, 0.0}) {
      changes.push_back(
          {"--headroom", fmt::format("{}", percent),
           [percent](Request& of) { of.options.headroom = percent / 100.0; }});
    }
  }
  const int gpus = job.cluster.gpus();
  if (job.workload.batch_size % gpus != 0) {  // else each layout divides it
    const int batch = (job.workload.batch_size / gpus + 1) * gpus;
    changes.push_back(
        {"--batch", fmt::format("{}", batch),
         [batch](Request& of) { of.job.workload.batch_size = batch; }});
  }
  for (const MachineSize& size : SizesFrom(job.cluster)) {
    if (size.gpus() > gpus) {
      changes.push_back({"--gpus", SizeText(size), [size](Request& of) {
                           of.job.cluster = WithSize(of.job.cluster, size);
                         }});
    }
  }
  for (const char* name : {"torchtitan", "megatron-lm"}) {
    if (job.framework.adapter && job.framework.adapter->IsCalled(name)) {
      continue;
    }
    changes.push_back({"--framework", name,
                       [name](Request& of) { TakeFramework(name, of.job); }});
  }
  const bool images = job.workload.model.patch_size > 0;
  for (int tokens = job.workload.sequence_length / 2;
       tokens >= kShortest && !images; tokens /= 2) {
    changes.push_back(
        {"--seq", fmt::format("{}", tokens),
         [tokens](Request& of) { of.job.workload.sequence_length = tokens; }});
  }
  return changes;
}

// The remedy of a request for `job` that was changed, if that gives a layout
// and another framework has a command for it: it may lack the precision or the
// model.
std::optional<Remedy> IfWorking(const Job& job, const std::string& changes,
                                const Request& changed) {
  try {
    const Forecast forecast =
        Forecaster(changed.job, changed.options).MakeForecast(1);
    if (forecast.layouts.empty()) {
      return std::nullopt;
    }
    const Prediction& best = forecast.layouts.front().best;
    const auto launch = changed.job.framework.name == job.framework.name
                            ? std::nullopt
                            : RenderLaunch(changed.job, best.config);
    if (!launch || launch->refusal.empty()) {
      return Remedy{changes, best};
    }
  } catch (const common::InputError&) {
    return std::nullopt;  // no configuration is valid
  }
  return std::nullopt;
}

// The first that works of changing framework, batch and number of GPUs at once.
std::vector<Remedy> SeveralChanges(const Job& job,
                                   const ForecastOptions& options) {
  for (const bool own : {true, false}) {
    for (const MachineSize& size : SizesFrom(job.cluster)) {
      Request changed{job, options};
      changed.job.cluster = WithSize(job.cluster, size);
      if (!own) {
        TakeFramework("torchtitan", changed.job);
      }
      int& batch = changed.job.workload.batch_size;
      batch = (batch + size.gpus() - 1) / size.gpus() * size.gpus();
      if (auto working =
              IfWorking(job,
                        fmt::format("{}--gpus {} --batch {}",
                                    own ? "" : "--framework torchtitan ",
                                    SizeText(size), batch),
                        changed)) {
        return {*std::move(working)};
      }
    }
  }
  return {};
}

}  // namespace

std::vector<Remedy> Remedies(const Job& job, const ForecastOptions& options) {
  const auto remedy_of = [&](const Change& change) {
    Request changed{job, options};
    change.apply(changed);
    return IfWorking(job, fmt::format("{} {}", change.name, change.option),
                     changed);
  };
  const std::vector<Change> changes = ChangesOf(job, options);
  std::vector<Remedy> working;
  for (auto first = changes.begin(); first != changes.end();) {
    const std::string_view name = first->name;
    const auto end = std::find_if(first, changes.end(), [&](const auto& each) {
      return each.name != name;
    });
    // Each change of these kinds needs less memory than those before it.
    const bool falling = name == "--headroom" || name == "--seq";
    if (falling && end - first > 1 && !remedy_of(*std::prev(end))) {
      first = end;
    }
    for (; first != end; ++first) {
      if (auto remedy = remedy_of(*first)) {
        working.push_back(*std::move(remedy));
        break;
      }
    }
    first = end;
  }
  return working.empty() ? SeveralChanges(job, options) : working;
}

std::string RemediesText(const Job& job, const ForecastOptions& options) {
  const auto texts =
      common::Map(Remedies(job, options), [](const Remedy& remedy) {
        return fmt::format("{} ({}, {:.3g} s per step)", remedy.options,
                           LayoutName(remedy.best.config),
                           remedy.best.step_time_s);
      });
  return texts.empty()
             ? "more GPUs of this kind do not help: give GPUs with more memory "
               "(--gpu), or a smaller model\n"
             : fmt::format("what makes one possible: {}\n",
                           fmt::join(texts, "; or "));
}

}  // namespace jobs
