#include "trials/simulator/trainer_memory.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "trials/simulator/schedule.h"
#include "trials/simulator/trainer_units.h"

namespace trials {
namespace {

enum class UnitKind { kEmbedding, kBlock, kHead };

struct Bucket {
  TrainerShare share = TrainerShare::kDense;
  std::int64_t elements = 0;
  int replicas = 1;
  std::vector<std::size_t> units;
  TrainerBlock weights;     // ZeRO 3: gathered
  TrainerBlock gradients;   // ZeRO 2 and 3: of one microbatch
  std::size_t pending = 0;  // units whose backward is to come
  bool reducing = false;
};

struct Unit {
  UnitKind kind = UnitKind::kBlock;
  int chunk = 0;
  std::vector<Bucket*> buckets;
};

// The states of a rank, and the buckets that ZeRO gathers and reduces.
class Store {
 public:
  Store(const TrainerUnits& units, const ParallelConfig& config)
      : parts_(units), config_(config) {}

  void AddUnit(UnitKind kind, int chunk) {
    units_.push_back({kind, chunk, {}});
    const std::size_t unit = units_.size() - 1;
    switch (kind) {
      case UnitKind::kEmbedding:
        AddParameters(parts_.EmbeddingParameters(), unit);
        break;
      case UnitKind::kBlock:
        AddParameters(parts_.BlockParameters(), unit);
        break;
      case UnitKind::kHead:
        AddParameters(parts_.HeadParameters(), unit);
        break;
    }
  }

  void Allocate() {
    constexpr int kStates = 3;  // master weights and two moments
    const int zero = config_.zero_stage;
    for (const auto& bucket : buckets_) {
      Bucket& b = *bucket;
      const int data = config_.dp * config_.cp;
      const int replicas =
          b.share == TrainerShare::kExpert ? data / config_.ep : data;
      b.replicas = replicas;
      if (zero > 0) {
        b.elements = (b.elements + replicas - 1) / replicas * replicas;
      }
      const std::int64_t part = zero > 0 ? b.elements / replicas : b.elements;
      states_.push_back(parts_.New(zero == 3 ? part : b.elements,
                                   TrainerRegion::kParameters));
      states_.push_back(
          parts_.New(zero >= 2 ? part : b.elements, TrainerRegion::kGradients));
      for (int i = 0; i < kStates; ++i) {
        states_.push_back(parts_.NewWide(part, TrainerRegion::kOptimizer));
      }
      b.pending = b.units.size();
    }
  }

  void Acquire(std::size_t unit, std::optional<std::size_t> next) {
    if (config_.zero_stage < 3) {
      return;
    }
    Gather(unit);
    if (next.has_value() && config_.overlap_zero_allgather) {
      Gather(*next);
    }
  }
  void Release(std::size_t unit, std::optional<std::size_t> next) {
    for (Bucket* bucket : units_[unit].buckets) {
      const auto& users = bucket->units;
      if (!next.has_value() ||
          std::find(users.begin(), users.end(), *next) == users.end()) {
        bucket->weights.Free();
      }
    }
  }

  void BeginBackward(std::size_t unit) {
    if (config_.zero_stage < 2) {
      return;
    }
    for (Bucket* bucket : units_[unit].buckets) {
      if (bucket->reducing) {  // gradients of the microbatch before
        FinishReduces(0);
      }
      if (bucket->gradients.empty()) {
        bucket->gradients =
            parts_.New(bucket->elements, TrainerRegion::kCommunication);
      }
    }
  }
  void EndBackward(std::size_t unit) {
    if (config_.zero_stage < 2) {
      return;
    }
    for (Bucket* bucket : units_[unit].buckets) {
      if (--bucket->pending == 0) {
        bucket->pending = bucket->units.size();
        bucket->reducing = bucket->replicas > 1 && config_.overlap_zero_comm;
        reducing_.push_back(bucket);
        FinishReduces(bucket->reducing ? 1 : 0);  // at most two at a time
      }
    }
  }
  void FinishReduces(std::size_t in_flight) {
    while (reducing_.size() > in_flight) {
      reducing_.front()->reducing = false;
      reducing_.front()->gradients.Free();
      reducing_.pop_front();
    }
  }

  [[nodiscard]] const std::vector<Unit>& units() const { return units_; }

 private:
  void Gather(std::size_t unit) {
    for (Bucket* bucket : units_[unit].buckets) {
      if (bucket->weights.empty()) {
        bucket->weights =
            parts_.New(bucket->elements, TrainerRegion::kCommunication);
      }
    }
  }

  void Use(Bucket& bucket, std::size_t unit) {
    if (bucket.units.empty() || bucket.units.back() != unit) {
      bucket.units.push_back(unit);
      units_[unit].buckets.push_back(&bucket);
    }
  }

  void AddParameters(const std::vector<TrainerParameter>& parameters,
                     std::size_t unit) {
    const int megabytes =
        config_.zero_stage == 0 ? config_.dp_bucket_mb : config_.zero_bucket_mb;
    for (const TrainerParameter& parameter : parameters) {
      const bool tied = parameter.share == TrainerShare::kTied;
      if (tied && table_ != nullptr) {  // the head uses the embedding's
        Use(*table_, unit);
        continue;
      }
      Bucket*& open = open_[{units_[unit].chunk, parameter.share}];
      if (open == nullptr ||
          static_cast<double>(open->elements + parameter.elements) *
                  parts_.width() >
              megabytes * kBucketMegabyte) {
        buckets_.push_back(std::make_unique<Bucket>());
        open = buckets_.back().get();
        open->share = parameter.share;
      }
      open->elements += parameter.elements;
      Use(*open, unit);
      if (tied) {
        table_ = open;
      }
    }
  }

  const TrainerUnits& parts_;
  const ParallelConfig& config_;
  std::vector<Unit> units_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::map<std::pair<int, TrainerShare>, Bucket*> open_;
  Bucket* table_ = nullptr;
  std::vector<TrainerBlock> states_;
  std::deque<Bucket*> reducing_;
};

// The actions of a rank in a step.
class RankStep {
 public:
  RankStep(const Workload& workload,
           const ParallelConfig& config,
           int stage,
           const Framework& framework,
           TrainerLedger& ledger)
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
        store_.AddUnit(UnitKind::kEmbedding, chunk);
      }
      for (int i = layers * part / parts; i < layers * (part + 1) / parts;
           ++i) {
        store_.AddUnit(UnitKind::kBlock, chunk);
      }
      if (part == parts - 1) {
        store_.AddUnit(UnitKind::kHead, chunk);
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
        case UnitKind::kEmbedding:
          x = parts_.EmbeddingForward(kept);
          break;
        case UnitKind::kBlock:
          x = parts_.BlockForward(std::move(x), kept);
          break;
        case UnitKind::kHead:
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
        case UnitKind::kEmbedding:
          parts_.EmbeddingBackward(std::exchange(dy, {}), kept);
          break;
        case UnitKind::kBlock:
          dy = parts_.BlockBackward(std::move(dy), kept);
          break;
        case UnitKind::kHead:
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
  Store store_;
  std::vector<std::vector<Action>> schedules_;  // of all stages
  std::vector<std::size_t> first_unit_;         // of each chunk, and the end
  std::map<std::pair<int, int>, Pending> pending_;
  std::deque<TrainerBlock> received_;
  std::vector<Sent> sent_;
};

}  // namespace

TrainerLedger TrainerMemory(const Workload& workload,
                            const ParallelConfig& config,
                            int stage,
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
