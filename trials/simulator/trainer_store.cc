#include "trials/simulator/trainer_store.h"

#include <algorithm>

namespace trials {

void TrainerStore::AddUnit(TrainerUnitKind kind, int chunk) {
  units_.push_back({kind, chunk, {}});
  const std::size_t unit = units_.size() - 1;
  switch (kind) {
    case TrainerUnitKind::kEmbedding:
      AddParameters(parts_.EmbeddingParameters(), unit);
      break;
    case TrainerUnitKind::kBlock:
      AddParameters(parts_.BlockParameters(), unit);
      break;
    case TrainerUnitKind::kHead:
      AddParameters(parts_.HeadParameters(), unit);
      break;
  }
}

void TrainerStore::Allocate() {
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
    states_.push_back(
        parts_.New(zero == 3 ? part : b.elements, TrainerRegion::kParameters));
    states_.push_back(
        parts_.New(zero >= 2 ? part : b.elements, TrainerRegion::kGradients));
    for (int i = 0; i < kStates; ++i) {
      states_.push_back(parts_.NewWide(part, TrainerRegion::kOptimizer));
    }
    b.pending = b.units.size();
  }
}

void TrainerStore::Acquire(std::size_t unit, std::optional<std::size_t> next) {
  if (config_.zero_stage < 3) {
    return;
  }
  Gather(unit);
  if (next.has_value() && config_.overlap_zero_allgather) {
    Gather(*next);
  }
}

void TrainerStore::Release(std::size_t unit, std::optional<std::size_t> next) {
  for (Bucket* bucket : units_[unit].buckets) {
    const auto& users = bucket->units;
    if (!next.has_value() ||
        std::find(users.begin(), users.end(), *next) == users.end()) {
      bucket->weights.Free();
    }
  }
}

void TrainerStore::BeginBackward(std::size_t unit) {
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

void TrainerStore::EndBackward(std::size_t unit) {
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

void TrainerStore::FinishReduces(std::size_t in_flight) {
  while (reducing_.size() > in_flight) {
    reducing_.front()->reducing = false;
    reducing_.front()->gradients.Free();
    reducing_.pop_front();
  }
}

void TrainerStore::Gather(std::size_t unit) {
  for (Bucket* bucket : units_[unit].buckets) {
    if (bucket->weights.empty()) {
      bucket->weights =
          parts_.New(bucket->elements, TrainerRegion::kCommunication);
    }
  }
}

void TrainerStore::Use(Bucket& bucket, std::size_t unit) {
  if (bucket.units.empty() || bucket.units.back() != unit) {
    bucket.units.push_back(unit);
    units_[unit].buckets.push_back(&bucket);
  }
}

void TrainerStore::AddParameters(
    const std::vector<TrainerParameter>& parameters, std::size_t unit) {
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

}  // namespace trials
