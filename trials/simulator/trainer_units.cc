#include "trials/simulator/trainer_units.h"

#include <cmath>
#include <utility>

#include "trials/simulator/gpu_model.h"

namespace trials {
namespace {

constexpr std::int64_t kScoreRows = 2 * 64;  // two blocks of 64 queries
constexpr std::int64_t kIndexBytes = 4;

std::int64_t DivideUp(std::int64_t value, std::int64_t parts) {
  return (value + parts - 1) / parts;
}

constexpr TrainerRegion kCommunication = TrainerRegion::kCommunication;
constexpr TrainerRegion kWorkspace = TrainerRegion::kWorkspace;

}  // namespace

TrainerUnits::TrainerUnits(const Workload& workload,
                           const ParallelConfig& config,
                           const Framework& framework,
                           TrainerLedger& ledger)
    : model_(workload.model),
      config_(config),
      ledger_(ledger),
      width_(static_cast<int>(ElementBytes(workload.precision))),
      sequences_(workload.batch_size / (config.dp * config.microbatches)),
      length_(workload.sequence_length / config.cp),
      tokens_(sequences_ * length_),
      shard_(config.sp > 1 ? tokens_ / config.tp : tokens_),
      positions_(workload.sequence_length),
      hidden_(model_.hidden_size),
      q_(std::int64_t{model_.attention_heads / config.tp} * model_.head_size),
      kv_(std::int64_t{model_.kv_heads / config.tp} * model_.head_size),
      ffn_(model_.ffn_size / config.tp),
      inputs_(model_.gated_ffn ? 2 * ffn_ : ffn_),
      labels_(DivideUp(model_.classes > 0 ? model_.classes : model_.vocab_size,
                       config.tp)),
      logit_rows_(model_.classes > 0 ? sequences_ : tokens_) {
  if (model_.experts > 0) {
    const auto pairs = static_cast<double>(tokens_ * model_.experts_per_token);
    rows_ = std::llround(config.ep > 1 ? pairs * framework.expert_imbalance
                                       : pairs);
    busiest_ = std::llround(pairs * config.ep / model_.experts *
                            framework.busiest_expert);
  }
}

// ---- parameters ------------------------------------------------------------

TrainerShare TrainerUnits::ShardShare() const {
  return config_.sp > 1 ? TrainerShare::kPartial : TrainerShare::kDense;
}

void TrainerUnits::AddNorm(std::vector<TrainerParameter>& parameters) const {
  for (int i = 0; i < (model_.norm_bias ? 2 : 1); ++i) {
    parameters.push_back({ShardShare(), hidden_});
  }
}

bool TrainerUnits::tied() const {
  return model_.classes == 0 && model_.tied_embeddings;
}

TrainerParameter TrainerUnits::Table() const {
  return {model_.tied_embeddings ? TrainerShare::kTied : TrainerShare::kDense,
          DivideUp(model_.vocab_size, config_.tp) * hidden_};
}

std::vector<TrainerParameter> TrainerUnits::EmbeddingParameters() const {
  std::vector<TrainerParameter> all;
  if (model_.patch_size > 0) {
    for (const std::int64_t rows : {model_.patch_size, 1, 1}) {
      all.push_back({ShardShare(), rows * hidden_});
    }
  } else {
    all.push_back(Table());
  }
  for (const std::int64_t rows : {model_.max_positions, model_.token_types}) {
    if (rows > 0) {
      all.push_back({ShardShare(), rows * hidden_});
    }
  }
  if (model_.embedding_norm) {
    AddNorm(all);
  }
  return all;
}

std::vector<TrainerParameter> TrainerUnits::BlockParameters() const {
  constexpr TrainerShare kDense = TrainerShare::kDense;
  std::vector<TrainerParameter> all = {{kDense, (q_ + 2 * kv_) * hidden_}};
  if (model_.attention_bias) {
    all.push_back({kDense, q_ + 2 * kv_});
  }
  all.push_back({kDense, q_ * hidden_});
  if (model_.output_bias) {
    all.push_back({ShardShare(), hidden_});
  }
  AddNorm(all);
  if (model_.experts > 0) {
    all.push_back({config_.tp > 1 ? TrainerShare::kPartial : kDense,
                   model_.experts * hidden_});
    for (int e = 0; e < model_.experts / config_.ep; ++e) {
      all.push_back({TrainerShare::kExpert, inputs_ * hidden_});
      all.push_back({TrainerShare::kExpert, ffn_ * hidden_});
    }
  } else {
    all.push_back({kDense, inputs_ * hidden_});
    if (model_.ffn_bias) {
      all.push_back({kDense, inputs_});
    }
    all.push_back({kDense, ffn_ * hidden_});
    if (model_.ffn_bias) {
      all.push_back({ShardShare(), hidden_});
    }
  }
  AddNorm(all);
  return all;
}

std::vector<TrainerParameter> TrainerUnits::HeadParameters() const {
  std::vector<TrainerParameter> all;
  if (model_.final_norm) {
    AddNorm(all);
  }
  if (model_.pooler) {
    all.push_back({ShardShare(), hidden_ * hidden_});
    all.push_back({ShardShare(), hidden_});
    AddNorm(all);
  }
  all.push_back(
      tied() ? Table()
             : TrainerParameter{TrainerShare::kDense, labels_ * hidden_});
  if (model_.head_bias || model_.classes > 0 || model_.pooler) {
    all.push_back({TrainerShare::kDense, labels_});
  }
  return all;
}

// ---- embedding and batch ---------------------------------------------------

std::vector<TrainerBlock> TrainerUnits::Batch() const {
  std::vector<TrainerBlock> batch;
  constexpr TrainerRegion kActivations = TrainerRegion::kActivations;
  batch.push_back(Bytes(tokens_ * kIndexBytes, kActivations));  // labels
  if (model_.patch_size > 0) {
    const TrainerBlock staged =
        NewWide(tokens_ * model_.patch_size, kWorkspace);
    batch.push_back(New(tokens_ * model_.patch_size));
  } else {
    batch.push_back(Bytes(tokens_ * kIndexBytes, kActivations));
  }
  return batch;
}

std::vector<TrainerBlock> TrainerUnits::Constants() const {
  std::vector<TrainerBlock> all;
  all.push_back(NewWide(1, kWorkspace));
  if (model_.max_positions == 0) {
    all.push_back(NewWide(positions_ * model_.head_size, kWorkspace));
  }
  return all;
}

TrainerBlock TrainerUnits::EmbeddingForward(TrainerKept& kept) const {
  TrainerBlock x =
      model_.patch_size > 0 ? Hidden() : Reduced(New(tokens_ * hidden_));
  if (!model_.embedding_norm) {
    return x;
  }
  TrainerBlock y = Hidden();
  kept.own.push_back(std::move(x));
  kept.own.push_back(Statistics());
  return y;
}

void TrainerUnits::EmbeddingBackward(TrainerBlock dy, TrainerKept& kept) const {
  if (model_.embedding_norm) {
    dy = Hidden();  // after that, the old one is freed
    kept = {};
  }
  if (model_.patch_size == 0) {
    const TrainerBlock all = Gathered();
  }
}

// ---- blocks ----------------------------------------------------------------

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

TrainerBlock TrainerUnits::HalfForward(bool attention,
                                       TrainerBlock x,
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

TrainerBlock TrainerUnits::HalfBackward(bool attention,
                                        TrainerBlock dy,
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

void TrainerUnits::HeadForward(TrainerBlock x, TrainerKept& kept) const {
  kept.own.push_back(std::move(x));
  if (model_.final_norm) {
    kept.own.push_back(Hidden());
    kept.own.push_back(Statistics());
  }
  if (model_.pooler) {
    for (int i = 0; i < 3; ++i) {  // product, activation, norm
      kept.own.push_back(Hidden());
    }
    kept.own.push_back(Statistics());
  }
  const TrainerBlock all = Gathered();
  const TrainerBlock selected =
      New(model_.classes > 0 ? logit_rows_ * hidden_ : 0, kWorkspace);
  kept.logits = New(logit_rows_ * labels_);
}

TrainerBlock TrainerUnits::HeadBackward(TrainerKept& kept) const {
  const bool selects = model_.classes > 0;
  {
    const TrainerBlock labels =
        Bytes(selects ? logit_rows_ * kIndexBytes : 0, kWorkspace);
    const TrainerBlock maxima = NewWide(logit_rows_, kWorkspace);
    const TrainerBlock sums = NewWide(2 * logit_rows_, kWorkspace);
  }
  TrainerBlock dfeatures;
  {
    const TrainerBlock all = Gathered();
    const TrainerBlock selected =
        New(selects ? logit_rows_ * hidden_ : 0, kWorkspace);
    dfeatures = New(logit_rows_ * hidden_);
    TrainerBlock rows;  // in use until they are spread over all tokens
    if (selects) {
      rows = std::exchange(dfeatures, New(tokens_ * hidden_));
    }
    dfeatures = Reduced(std::move(dfeatures));
  }
  kept.logits.Free();
  if (model_.pooler) {
    const TrainerBlock dact = New(shard_ * hidden_, kWorkspace);
    const TrainerBlock ddense = New(shard_ * hidden_, kWorkspace);
  }
  if (model_.final_norm) {
    dfeatures = Hidden();
  }
  kept = {};
  return dfeatures;
}

}  // namespace trials
