#include "trials/simulator/trainer_units.h"

#include <cmath>
#include <utility>

#include "trials/simulator/gpu_model.h"

namespace trials {
namespace {

std::int64_t DivideUp(std::int64_t value, std::int64_t parts) {
  return (value + parts - 1) / parts;
}

}  // namespace

TrainerUnits::TrainerUnits(const Workload& workload,
                           const ParallelConfig& config,
                           const Framework& framework, TrainerLedger& ledger)
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
