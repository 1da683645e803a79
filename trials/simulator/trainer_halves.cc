// The attention and feed-forward layers of a block (trainer_units.h).

#include <algorithm>
#include <utility>

#include "trials/simulator/trainer_units.h"

namespace trials {
namespace {

constexpr std::int64_t kScoreRows = 2 * 64;  // two blocks of 64 queries

}  // namespace

// All tokens from the shards of a sequence.
TrainerBlock TrainerUnits::Gathered() const {
  return config_.sp > 1 ? New(tokens_ * hidden_, kWorkspace) : TrainerBlock();
}

TrainerBlock TrainerUnits::Reduced(TrainerBlock all) const {
  return config_.sp > 1 ? Hidden() : std::move(all);
}

TrainerBlock TrainerUnits::AttentionForward(Half& kept) const {
  if (config_.cp == 1) {
    kept.core.push_back(New(tokens_ * (q_ + 2 * kv_)));
  } else {
    kept.core.push_back(New(tokens_ * q_));
    const std::int64_t keys = tokens_ * 2 * kv_ * config_.cp;
    const TrainerBlock own = New(keys / config_.cp);
    const TrainerBlock gathered = New(keys, kCommunication);
    kept.core.push_back(New(keys));
  }
  kept.core.push_back(New(tokens_ * q_));
  const std::int64_t keys = length_ * config_.cp;
  if (config_.grad_checkpoint != kRecomputeSelective) {
    kept.core.push_back(
        New(tokens_ * model_.attention_heads / config_.tp * keys));
  }
  const TrainerBlock scores = New(kScoreRows * keys, kWorkspace);
  return New(tokens_ * hidden_);
}

TrainerBlock TrainerUnits::AttentionBackward(Half& kept) const {
  const bool whole = config_.cp == 1;
  const std::int64_t keys = tokens_ * 2 * kv_ * config_.cp;
  TrainerBlock dout = New(tokens_ * q_, kWorkspace);
  const TrainerBlock dquery =
      New(tokens_ * (whole ? q_ + 2 * kv_ : q_), kWorkspace);
  TrainerBlock dkeys = New(whole ? 0 : keys, kWorkspace);
  TrainerBlock scores = New(kScoreRows * length_ * config_.cp, kWorkspace);
  scores.Free();
  dout.Free();
  kept.core.clear();
  TrainerBlock dx = New(tokens_ * hidden_);
  if (!whole) {
    const TrainerBlock swapped = New(keys, kCommunication);
    const TrainerBlock own = New(keys / config_.cp, kWorkspace);
    dkeys.Free();
  }
  return dx;
}

TrainerBlock TrainerUnits::MlpForward(Half& kept) const {
  kept.core.push_back(New(tokens_ * inputs_));
  kept.core.push_back(New(tokens_ * ffn_));
  return New(tokens_ * hidden_);
}

TrainerBlock TrainerUnits::MlpBackward(Half& kept) const {
  TrainerBlock dx = New(tokens_ * hidden_);
  {
    const TrainerBlock dact = New(tokens_ * ffn_, kWorkspace);
    const TrainerBlock dhidden = New(tokens_ * inputs_, kWorkspace);
  }
  kept.core.clear();
  return dx;
}

// Rows in the order of the experts of this rank.
TrainerBlock TrainerUnits::Dispatch(TrainerBlock sent) const {
  if (config_.ep == 1) {
    return sent;
  }
  const TrainerBlock received = New(rows_ * hidden_, kCommunication);
  return New(rows_ * hidden_);
}

TrainerBlock TrainerUnits::Return(TrainerBlock sorted) const {
  if (config_.ep == 1) {
    return sorted;
  }
  const TrainerBlock ordered = New(rows_ * hidden_, kCommunication);
  return New(tokens_ * model_.experts_per_token * hidden_);
}

TrainerBlock TrainerUnits::ExpertsForward(Half& kept) const {
  constexpr TrainerRegion kActivations = TrainerRegion::kActivations;
  const std::int64_t pairs = tokens_ * model_.experts_per_token;
  {
    const TrainerBlock logits = New(tokens_ * model_.experts, kWorkspace);
    kept.core.push_back(Bytes(pairs * kIndexBytes, kActivations));  // experts
    kept.core.push_back(New(pairs));                                // weights
  }
  kept.core.push_back(Bytes(pairs * kIndexBytes, kActivations));  // slots
  if (config_.ep > 1) {
    kept.core.push_back(Bytes(rows_ * kIndexBytes, kActivations));  // arrival
  }
  kept.core.push_back(Dispatch(New(pairs * hidden_, kCommunication)));
  kept.core.push_back(New(rows_ * inputs_));
  kept.core.push_back(New(rows_ * ffn_));
  kept.core.push_back(Return(New(rows_ * hidden_, kCommunication)));
  return New(tokens_ * hidden_);
}

TrainerBlock TrainerUnits::ExpertsBackward(Half& kept) const {
  const std::int64_t pairs = tokens_ * model_.experts_per_token;
  const TrainerBlock dlogits = New(tokens_ * model_.experts, kWorkspace);
  { const TrainerBlock dweights = New(pairs, kWorkspace); }
  const TrainerBlock dout = Dispatch(New(pairs * hidden_, kCommunication));
  TrainerBlock din = New(rows_ * hidden_, kCommunication);
  {
    const TrainerBlock dact = New(busiest_ * ffn_, kWorkspace);
    const TrainerBlock dhidden = New(busiest_ * inputs_, kWorkspace);
  }
  const TrainerBlock returned = Return(std::move(din));
  TrainerBlock dx = New(tokens_ * hidden_);
  kept.core.clear();
  return dx;
}

TrainerBlock TrainerUnits::Apply(bool attention, Half& kept) const {
  const TrainerBlock all = Gathered();
  return Reduced(attention            ? AttentionForward(kept)
                 : model_.experts > 0 ? ExpertsForward(kept)
                                      : MlpForward(kept));
}

TrainerBlock TrainerUnits::ApplyBackward(bool attention, Half& kept) const {
  const TrainerBlock all_dy = Gathered();
  const TrainerBlock all_x = Gathered();
  return Reduced(attention            ? AttentionBackward(kept)
                 : model_.experts > 0 ? ExpertsBackward(kept)
                                      : MlpBackward(kept));
}

TrainerBlock TrainerUnits::HalfForward(bool attention, TrainerBlock x,
                                       Half& kept) const {
  kept.norm.push_back(Statistics());
  // Its norm is before it, or after it in BERT.
  TrainerBlock normal;
  if (!model_.embedding_norm) {
    normal = Hidden();
  }
  TrainerBlock y = Apply(attention, kept);
  if (model_.embedding_norm) {
    normal = std::exchange(y, Hidden());
  }
  kept.norm.push_back(std::move(x));
  kept.norm.push_back(std::move(normal));
  return y;
}

TrainerBlock TrainerUnits::HalfBackward(bool attention, TrainerBlock dy,
                                        Half& kept) const {
  if (model_.embedding_norm) {
    const TrainerBlock dsum = Hidden();
    dy.Free();
    TrainerBlock dx = ApplyBackward(attention, kept);
    kept.norm.clear();
    return dx;
  }
  const TrainerBlock dnormal = ApplyBackward(attention, kept);
  kept.norm.clear();
  return dy;
}

TrainerBlock TrainerUnits::BlockForward(TrainerBlock x,
                                        TrainerKept& kept) const {
  const bool recomputes = config_.grad_checkpoint == kRecomputeFull;
  TrainerKept dropped;
  TrainerKept& run = recomputes ? dropped : kept;
  if (recomputes) {
    kept.input = std::exchange(x, Hidden());
  }
  TrainerBlock middle = HalfForward(true, std::move(x), run.halves[0]);
  return HalfForward(false, std::move(middle), run.halves[1]);
}

TrainerBlock TrainerUnits::BlockBackward(TrainerBlock dy,
                                         TrainerKept& kept) const {
  if (config_.grad_checkpoint == kRecomputeFull) {
    TrainerBlock middle =
        HalfForward(true, std::move(kept.input), kept.halves[0]);
    (void)HalfForward(false, std::move(middle), kept.halves[1]);
  }
  dy = HalfBackward(false, std::move(dy), kept.halves[1]);
  dy = HalfBackward(true, std::move(dy), kept.halves[0]);
  kept = {};
  return dy;
}

// ---- head ------------------------------------------------------------------

}  // namespace trials
