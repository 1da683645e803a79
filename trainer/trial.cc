#include "trainer/trial.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "common/fields.h"
#include "trainer/communicator_threads.h"

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class CpuBackend : public Backend {
 public:
  CpuBackend(const LaunchOptions& options, CpuPrecision precision)
      : precision_(precision),
        world_size_(options.world_size),
        fabric_(options.timeout_s) {}
  [[nodiscard]] std::string description() const override {
    return fmt::format("CPU, {}, {}",
                       precision_ == CpuPrecision::kFloat ? "float" : "double",
                       CpuLibraries());
  }
  [[nodiscard]] std::unique_ptr<Device> MakeDevice(int /*rank*/) override {
    return MakeCpuDevice(precision_);
  }
  [[nodiscard]] Fabric& fabric() override { return fabric_; }
  [[nodiscard]] std::int64_t MemoryBytes(int /*rank*/) override {
    return sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE) / world_size_;
  }

 private:
  CpuPrecision precision_;
  int world_size_;
  ThreadFabric fabric_;
};

// What the threads of a trial share. Devices outlive the ranks, because other
// ranks may still read their memory.
struct Shared {
  Job job;
  Backend* backend = nullptr;
  StepDone step_done;
  std::vector<std::unique_ptr<Device>> devices;
  TrialResult result;
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
};

void MakeFault(const Job& job, const Rank& rank, int step) {
  const std::string& kind = job.fault.kind;
  if (kind == "die") {
    throw std::runtime_error(fmt::format("fault in step {}", step));
  }
  if (kind == "memory") {
    Array too_much(const_cast<Arena&>(rank.arena()), Region::kWorkspace,
                   rank.arena().capacity_bytes() + 1, 1);
  }
  while (kind == "hang") {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

void RunSteps(Shared& shared, Rank& rank, bool reports, int world_rank) {
  const Job& job = shared.job;
  rank.context().timeline.origin = Clock::now();
  for (int step = 0; step < job.steps; ++step) {
    if (job.fault.rank == world_rank && job.fault.step == step) {
      MakeFault(job, rank, step);
      if (job.fault.kind == "leave") {
        return;
      }
    }
    rank.Prepare(step);
    rank.Barrier();
    const Clock::time_point begin = Clock::now();
    const double loss = rank.Step();
    if (reports) {
      const double seconds = SecondsSince(begin);
      {
        const std::lock_guard lock(shared.mutex);
        shared.result.losses.push_back(loss);
        shared.result.step_times_s.push_back(seconds);
      }
      if (shared.step_done) {
        shared.step_done(step, seconds, loss);
      }
    }
  }
}

// The thread of a rank. Its errors end the trial on all ranks.
void RunRank(Shared& shared, int index, int world_rank) {
  Fabric& fabric = shared.backend->fabric();
  std::unique_ptr<Rank> rank;
  const auto fail = [&](EndReason reason, const char* message) {
    fabric.Abort(reason, fmt::format("rank {}: {}", world_rank, message));
  };
  try {
    shared.devices[index] = shared.backend->MakeDevice(world_rank);
    const auto memory = [&shared, world_rank] {
      const std::int64_t most = shared.backend->MemoryBytes(world_rank);
      const std::int64_t limit = shared.job.memory_bytes;
      return limit > 0 ? std::min(most, limit) : most;
    };
    rank = std::make_unique<Rank>(shared.job, world_rank, memory, fabric,
                                  *shared.devices[index]);
    RunSteps(shared, *rank, index == 0, world_rank);
  } catch (const Aborted&) {
    // The reason is the other rank's.
  } catch (const OutOfMemory& e) {
    fail(EndReason::kOutOfMemory, e.what());
  } catch (const std::bad_alloc&) {
    fail(EndReason::kOutOfMemory, "could not reserve the memory of the arena");
  } catch (const std::exception& e) {
    fail(EndReason::kFailed, e.what());
  }
  RankResult result = Measure(world_rank, rank.get());
  rank.reset();
  const std::lock_guard lock(shared.mutex);
  shared.result.ranks[index] = std::move(result);
  --shared.running;
  shared.changed.notify_all();
}

// True when all threads have ended; false when the trial has ended and some
// have not `patience_s` later.
bool WaitForRanks(Shared& shared, double patience_s) {
  constexpr auto kPoll = std::chrono::milliseconds(50);
  std::unique_lock lock(shared.mutex);
  Clock::time_point ended{};
  while (shared.running > 0) {
    shared.changed.wait_for(lock, kPoll);
    if (shared.backend->fabric().end_reason() == EndReason::kNone) {
      continue;
    }
    if (ended == Clock::time_point{}) {
      ended = Clock::now();
    } else if (SecondsSince(ended) > patience_s) {
      return false;
    }
  }
  return true;
}

common::Json Regions(const std::array<std::int64_t, kRegions>& bytes) {
  common::Json json = common::Json::object();
  for (int i = 0; i < kRegions; ++i) {
    json[std::string(RegionName(static_cast<Region>(i)))] = bytes[i];
  }
  return json;
}

common::Json ToJson(const RankResult& rank) {
  common::Json json = {{"rank", rank.rank},
                       {"parameters", rank.parameters},
                       {"peak_bytes", rank.peak_bytes},
                       {"region_peak_bytes", Regions(rank.region_peak_bytes)},
                       {"at_peak_bytes", Regions(rank.at_peak_bytes)}};
  common::Json& groups = json["traffic"] = common::Json::object();
  for (const auto& [group, operations] : rank.traffic) {
    for (const auto& [operation, traffic] : operations) {
      groups[group][operation] = {{"calls", traffic.calls},
                                  {"bytes", traffic.bytes}};
    }
  }
  if (!rank.timeline.empty()) {
    common::Json& spans = json["timeline"] = common::Json::array();
    for (const Span& span : rank.timeline) {
      spans.push_back({{"what", span.what},
                       {"step", span.step},
                       {"microbatch", span.microbatch},
                       {"chunk", span.chunk},
                       {"begin_s", span.begin_s},
                       {"end_s", span.end_s}});
    }
  }
  return json;
}

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(const LaunchOptions& options,
                                        CpuPrecision precision) {
  return std::make_unique<CpuBackend>(options, precision);
}

RankResult Measure(int world_rank, Rank* rank) {
  RankResult result{.rank = world_rank};
  if (rank == nullptr) {
    return result;
  }
  const Arena& arena = rank->arena();
  result.parameters = rank->store().parameters();
  result.peak_bytes = arena.peak_bytes();
  for (int i = 0; i < kRegions; ++i) {
    result.region_peak_bytes[i] = arena.peak_bytes(static_cast<Region>(i));
    result.at_peak_bytes[i] = arena.bytes_at_peak(static_cast<Region>(i));
  }
  result.traffic = rank->Traffic();
  result.timeline = std::move(rank->context().timeline.spans);
  return result;
}

TrialResult RunTrial(const Job& job, Backend& backend,
                     const LaunchOptions& options, const StepDone& step_done,
                     double patience_s) {
  const auto shared = std::make_shared<Shared>();
  shared->job = job;
  shared->backend = &backend;
  shared->step_done = step_done;
  shared->devices.resize(options.local_ranks);
  shared->result.ranks.resize(options.local_ranks);
  shared->running = options.local_ranks;
  std::vector<std::thread> threads;
  for (int i = 0; i < options.local_ranks; ++i) {
    threads.emplace_back([shared, i, rank = options.first_rank + i] {
      RunRank(*shared, i, rank);
    });
  }
  const bool ended = WaitForRanks(*shared, patience_s);
  for (std::thread& thread : threads) {
    ended ? thread.join() : thread.detach();
  }
  const std::lock_guard lock(shared->mutex);
  TrialResult result = shared->result;
  result.stuck = !ended;
  if (static_cast<int>(result.losses.size()) < job.steps ||
      options.first_rank > 0) {
    result.reason = backend.fabric().end_reason();
    result.message = backend.fabric().end_message();
  }
  return result;
}

common::Json ToJson(const Job& job, const TrialResult& result) {
  common::Json json = {{"outcome", common::ToString(result.reason)},
                       {"message", result.message},
                       {"config", trials::ToString(job.config)},
                       {"losses", result.losses},
                       {"step_times_s", result.step_times_s}};
  common::Json& ranks = json["ranks"] = common::Json::array();
  for (const RankResult& rank : result.ranks) {
    ranks.push_back(ToJson(rank));
  }
  return json;
}

}  // namespace trainer
