#include "trials/simulator/trainer_memory.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "trials/simulator/schedule.h"
#include "trials/simulator/trainer_store.h"
#include "trials/simulator/trainer_units.h"

namespace trials {
namespace {

// The actions of a rank in a step.
class RankStep {
 public:
  RankStep(const Workload& workload, const ParallelConfig& config, int stage,
           const Framework& framework, TrainerLedger& ledger)
      : config_(config),
        stage_(stage),
        chunks_(config.pp > 1 ? config.model_chunks : 1),
        parts_(workload, config, framework, ledger),
        store_(parts_, config) {
    const PipelineShape shape{config.pp, config.microbatches, chunks_};
    for (int s = 0; s < config.pp; ++s) {
      schedules_.push_back(StageActions(shape, s));
    }
    AddUnits(workload.model.layers);
  }

  void Run() {
    store_.Allocate();
    const std::vector<TrainerBlock> constants = parts_.Constants();
    const std::vector<Action>& own = schedules_[stage_];
    // Receives are posted when their data are needed, or an action ahead.
    const bool ahead = config_.overlap_p2p && chunks_ > 1;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!ahead || i == 0) {
        PostReceive(own[i]);
      }
      if (ahead && i + 1 < own.size()) {
        PostReceive(own[i + 1]);
      }
      TrainerBlock input = TakeReceived(own[i]);
      TrainerBlock output = own[i].forward ? Forward(own[i], std::move(input))
                                           : Backward(own[i], std::move(input));
      if (Sends(own[i])) {
        const auto [peer, place] = Peer(own[i], true);
        sent_.push_back({std::move(output), peer, place});
      }
    }
    sent_.clear();
    store_.FinishReduces(0);
  }

 private:
  struct Pending {  // a microbatch in a chunk between forward and backward
    std::vector<TrainerBlock> batch;
    std::vector<TrainerKept> kept;
  };
  struct Sent {
    TrainerBlock data;
    std::size_t peer = 0;
    std::ptrdiff_t taken_at = 0;  // place of the receiving action
  };

  // Layers are split evenly over the chunks of all stages.
  void AddUnits(int layers) {
    const int parts = config_.pp * chunks_;
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      const int part = chunk * config_.pp + stage_;
      first_unit_.push_back(store_.units().size());
      if (part == 0) {
        store_.AddUnit(TrainerUnitKind::kEmbedding, chunk);
      }
      for (int i = layers * part / parts; i < layers * (part + 1) / parts;
           ++i) {
        store_.AddUnit(TrainerUnitKind::kBlock, chunk);
      }
      if (part == parts - 1) {
        store_.AddUnit(TrainerUnitKind::kHead, chunk);
      }
    }
    first_unit_.push_back(store_.units().size());
  }

  [[nodiscard]] bool Receives(const Action& action) const {
    return action.forward
               ? stage_ > 0 || action.chunk > 0
               : stage_ < config_.pp - 1 || action.chunk < chunks_ - 1;
  }
  [[nodiscard]] bool Sends(const Action& action) const {
    return Receives({!action.forward, action.microbatch, action.chunk});
  }

  // The stage at the other end of a message, and the place of its action.
  [[nodiscard]] std::pair<std::size_t, std::ptrdiff_t> Peer(
      const Action& action, bool sends) const {
    const int next = stage_ + (action.forward == sends ? 1 : -1);
    const auto peer =
        static_cast<std::size_t>((next + config_.pp) % config_.pp);
    Action other = action;
    other.chunk += next == config_.pp ? 1 : next < 0 ? -1 : 0;
    const std::vector<Action>& actions = schedules_[peer];
    return {peer,
            std::find(actions.begin(), actions.end(), other) - actions.begin()};
  }

  void PostReceive(const Action& action) {
    if (Receives(action)) {
      received_.push_back(parts_.Hidden());
    }
  }

  // What a peer has sent shows which messages it had received before.
  [[nodiscard]] TrainerBlock TakeReceived(const Action& action) {
    if (!Receives(action)) {
      return {};
    }
    TrainerBlock data = std::move(received_.front());
    received_.pop_front();
    const auto message = Peer(action, false);
    std::erase_if(sent_, [&message](const Sent& sent) {
      return sent.peer == message.first && sent.taken_at <= message.second;
    });
    return data;
  }

  [[nodiscard]] TrainerBlock Forward(const Action& action, TrainerBlock x) {
    Pending& pending = pending_[{action.microbatch, action.chunk}];
    if (!Receives(action) || !Sends(action)) {
      pending.batch = parts_.Batch();
    }
    const std::size_t first = first_unit_[action.chunk];
    const std::size_t end = first_unit_[action.chunk + 1];
    pending.kept.resize(end - first);
    for (std::size_t u = first; u < end; ++u) {
      const auto next = u + 1 < end ? std::optional(u + 1) : std::nullopt;
      TrainerKept& kept = pending.kept[u - first];
      store_.Acquire(u, next);
      switch (store_.units()[u].kind) {
        case TrainerUnitKind::kEmbedding:
          x = parts_.EmbeddingForward(kept);
          break;
        case TrainerUnitKind::kBlock:
          x = parts_.BlockForward(std::move(x), kept);
          break;
        case TrainerUnitKind::kHead:
          parts_.HeadForward(std::exchange(x, {}), kept);
          break;
      }
      store_.Release(u, next);
    }
    return x;
  }

  [[nodiscard]] TrainerBlock Backward(const Action& action, TrainerBlock dy) {
    const auto found = pending_.find({action.microbatch, action.chunk});
    const std::size_t first = first_unit_[action.chunk];
    for (std::size_t u = first_unit_[action.chunk + 1]; u-- > first;) {
      const auto next = u > first ? std::optional(u - 1) : std::nullopt;
      TrainerKept& kept = found->second.kept[u - first];
      store_.Acquire(u, next);
      store_.BeginBackward(u);
      switch (store_.units()[u].kind) {
        case TrainerUnitKind::kEmbedding:
          parts_.EmbeddingBackward(std::exchange(dy, {}), kept);
          break;
        case TrainerUnitKind::kBlock:
          dy = parts_.BlockBackward(std::move(dy), kept);
          break;
        case TrainerUnitKind::kHead:
          dy = parts_.HeadBackward(kept);
          break;
      }
      store_.EndBackward(u);
      store_.Release(u, next);
    }
    pending_.erase(found);
    return dy;
  }

  const ParallelConfig& config_;
  int stage_;
  int chunks_;
  TrainerUnits parts_;
  TrainerStore store_;
  std::vector<std::vector<Action>> schedules_;  // of all stages
  std::vector<std::size_t> first_unit_;         // of each chunk, and the end
  std::map<std::pair<int, int>, Pending> pending_;
  std::deque<TrainerBlock> received_;
  std::vector<Sent> sent_;
};

}  // namespace

TrainerLedger TrainerMemory(const Workload& workload,
                            const ParallelConfig& config, int stage,
                            const Framework& framework) {
  TrainerLedger ledger;
  RankStep(workload, config, stage, framework, ledger).Run();
  return ledger;
}

MemoryBreakdown ToBreakdown(const TrainerLedger& ledger) {
  const auto at_peak = [&ledger](TrainerRegion region) {
    return static_cast<double>(
        ledger.at_peak[static_cast<std::size_t>(region)]);
  };
  return {.parameters_bytes = at_peak(TrainerRegion::kParameters),
          .gradients_bytes = at_peak(TrainerRegion::kGradients),
          .optimizer_bytes = at_peak(TrainerRegion::kOptimizer),
          .activations_bytes = at_peak(TrainerRegion::kActivations),
          .working_bytes = at_peak(TrainerRegion::kWorkspace),
          .buffers_bytes = at_peak(TrainerRegion::kCommunication)};
}

}  // namespace trials
