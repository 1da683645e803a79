#include "trainer/parameters.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include "common/hash.h"

namespace trainer {

struct ParameterStore::Bucket {
  GradientShare share = GradientShare::kDense;
  std::vector<Parameter*> parameters;
  std::vector<int> units;
  Communicator* reduce = nullptr;
  Communicator* gather = nullptr;
  int replicas = 1;
  int replica = 0;
  std::int64_t size = 0;  // a multiple of replicas
  // The rank's part of the bucket, of what is split.
  Array weights, gradients, weight_part, gradient_part;
  Array sums;  // of the gradients of all microbatches, if they are wide
  Array master, first_moment, second_moment;
  EventPtr gathering, reducing;
  int pending = 0;  // units whose backward is to come

  [[nodiscard]] std::int64_t part() const { return size / replicas; }
  // What is reduced after the last microbatch.
  [[nodiscard]] const Tensor& Total() const {
    return sums.empty() ? gradients.get() : sums.get();
  }
  [[nodiscard]] Tensor OwnPart(const Tensor& whole) const {
    return whole.Slice(replica * part(), part());
  }
};

ParameterStore::ParameterStore(Context& context, ReplicaGroups groups)
    : context_(context),
      groups_(groups),
      zero_(context.config.zero_stage),
      wide_sums_(context.device.width() < context.device.wide_width() &&
                 context.config.microbatches > 1) {}

ParameterStore::~ParameterStore() = default;

int ParameterStore::AddUnit(int chunk) {
  units_.push_back({chunk, {}, {}});
  return static_cast<int>(units_.size()) - 1;
}

Parameter* ParameterStore::Add(GradientShare share, std::vector<Piece> pieces) {
  auto parameter = std::make_unique<Parameter>();
  parameter->pieces = std::move(pieces);
  parameter->share = share;
  for (const Piece& piece : parameter->pieces) {
    parameter->size += piece.rows * piece.cols;
  }
  Share(parameter.get());
  parameters_.push_back(std::move(parameter));
  return parameters_.back().get();
}

void ParameterStore::Share(Parameter* parameter) {
  units_.back().parameters.push_back(parameter);
}

std::int64_t ParameterStore::parameters() const {
  std::int64_t count = 0;
  for (const auto& parameter : parameters_) {
    count += parameter->size;
  }
  return count;
}

std::int64_t ParameterStore::BucketBytes() const {
  return context_.bucket_unit_bytes * (zero_ == 0
                                           ? context_.config.dp_bucket_mb
                                           : context_.config.zero_bucket_mb);
}

// Buckets do not cross chunks: the backward of a chunk completes all of its
// own.
void ParameterStore::MakeBuckets() {
  std::map<std::pair<int, GradientShare>, Bucket*> open;
  std::map<Parameter*, Bucket*> bucket_of;
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    for (Parameter* parameter : units_[u].parameters) {
      Bucket*& bucket = bucket_of[parameter];
      if (bucket == nullptr) {
        Bucket*& current = open[{units_[u].chunk, parameter->share}];
        if (current == nullptr ||
            (current->size + parameter->size) * context_.device.width() >
                BucketBytes()) {
          buckets_.push_back(std::make_unique<Bucket>());
          current = buckets_.back().get();
          current->share = parameter->share;
        }
        bucket = current;
        bucket->parameters.push_back(parameter);
        bucket->size += parameter->size;
      }
      if (bucket->units.empty() || bucket->units.back() != u) {
        bucket->units.push_back(u);
        units_[u].buckets.push_back(bucket);
      }
    }
  }
}

void ParameterStore::Allocate(Bucket& bucket) {
  const bool expert = bucket.share == GradientShare::kExpert;
  bucket.reduce = expert ? groups_.expert_reduce : groups_.reduce;
  bucket.gather = expert ? groups_.expert_gather : groups_.gather;
  if (bucket.reduce != nullptr && zero_ > 0) {
    bucket.replicas = bucket.reduce->size();
    bucket.replica = bucket.reduce->rank();
  }
  bucket.size =
      (bucket.size + bucket.replicas - 1) / bucket.replicas * bucket.replicas;
  bucket.weights = context_.New(
      bucket.size, zero_ == 3 ? Region::kCommunication : Region::kParameters);
  if (zero_ == 3) {
    bucket.weight_part = context_.New(bucket.part(), Region::kParameters);
  }
  if (zero_ >= 2) {
    bucket.gradient_part =
        wide_sums_ ? context_.NewWide(bucket.part(), Region::kGradients)
                   : context_.New(bucket.part(), Region::kGradients);
  } else {
    bucket.gradients = context_.New(bucket.size, Region::kGradients);
    if (wide_sums_) {
      bucket.sums = context_.NewWide(bucket.size, Region::kGradients);
    }
  }
  for (Array* state :
       {&bucket.master, &bucket.first_moment, &bucket.second_moment}) {
    *state = context_.NewWide(bucket.part(), Region::kOptimizer);
    context_.device.Zero(state->get());
  }
}

void ParameterStore::Bind(Bucket& bucket) {
  std::int64_t at = 0;
  for (Parameter* parameter : bucket.parameters) {
    parameter->weight = bucket.weights.empty()
                            ? Tensor{}
                            : bucket.weights.get().Slice(at, parameter->size);
    parameter->gradient =
        bucket.gradients.empty()
            ? Tensor{}
            : bucket.gradients.get().Slice(at, parameter->size);
    at += parameter->size;
  }
}

void ParameterStore::Generate(Bucket& bucket, std::uint64_t seed) {
  Device& device = context_.device;
  device.Zero(bucket.weights.get());
  for (const Parameter* parameter : bucket.parameters) {
    std::int64_t at = 0;
    for (const Piece& piece : parameter->pieces) {
      const Slab slab{common::DeriveSeed(piece.name, seed),
                      piece.rows,
                      piece.cols,
                      piece.row_begin,
                      piece.col_begin,
                      piece.global_rows,
                      piece.global_cols,
                      piece.scale,
                      piece.shift};
      const std::int64_t size = piece.rows * piece.cols;
      device.Generate(slab, parameter->weight.Slice(at, size));
      at += size;
    }
  }
  device.Convert(bucket.OwnPart(bucket.weights.get()), bucket.master.get());
  if (zero_ == 3) {
    device.Copy(bucket.OwnPart(bucket.weights.get()), bucket.weight_part.get());
    bucket.weights.Reset();
    Bind(bucket);
  }
}

void ParameterStore::Build(std::uint64_t seed) {
  MakeBuckets();
  for (const auto& bucket : buckets_) {
    Allocate(*bucket);
    Bind(*bucket);
    Generate(*bucket, seed);
  }
}

void ParameterStore::BeginStep() {
  for (const auto& bucket : buckets_) {
    context_.device.Zero(zero_ >= 2 ? bucket->gradient_part.get()
                                    : bucket->gradients.get());
    if (!bucket->sums.empty()) {
      context_.device.Zero(bucket->sums.get());
    }
    bucket->pending = static_cast<int>(bucket->units.size());
  }
}

void ParameterStore::Gather(Bucket& bucket) {
  if (!bucket.weights.empty()) {
    return;
  }
  bucket.weights = context_.New(bucket.size, Region::kCommunication);
  Bind(bucket);
  const Tensor part = bucket.OwnPart(bucket.weights.get());
  context_.device.Copy(bucket.weight_part.get(), part);
  if (bucket.gather != nullptr) {
    bucket.gathering = bucket.gather->AllGather(part, bucket.weights.get());
  }
}

bool ParameterStore::Uses(int unit, const Bucket& bucket) const {
  return unit >= 0 && std::find(bucket.units.begin(), bucket.units.end(),
                                unit) != bucket.units.end();
}

void ParameterStore::Acquire(int unit, int next) {
  for (Bucket* bucket : units_[unit].buckets) {
    Gather(*bucket);
    context_.timeline.TimeWait("wait for gather",
                               std::exchange(bucket->gathering, nullptr));
  }
  if (zero_ == 3 && next >= 0 && context_.config.overlap_zero_allgather) {
    for (Bucket* bucket : units_[next].buckets) {
      Gather(*bucket);
    }
  }
}

void ParameterStore::Release(int unit, int next) {
  if (zero_ < 3) {
    return;
  }
  for (Bucket* bucket : units_[unit].buckets) {
    if (!Uses(next, *bucket)) {
      bucket->weights.Reset();
      Bind(*bucket);
    }
  }
}

void ParameterStore::BeginBackward(int unit) {
  for (Bucket* bucket : units_[unit].buckets) {
    if (bucket->reducing != nullptr) {  // of the microbatch before
      FinishReduces(0);
    }
    if (bucket->gradients.empty()) {  // ZeRO 2 and 3
      bucket->gradients = context_.New(bucket->size, Region::kCommunication);
      context_.device.Zero(bucket->gradients.get());
      Bind(*bucket);
    }
  }
}

void ParameterStore::EndBackward(int unit, bool last) {
  for (Bucket* bucket : units_[unit].buckets) {
    if (--bucket->pending > 0) {
      continue;
    }
    bucket->pending = static_cast<int>(bucket->units.size());
    if (!bucket->sums.empty()) {
      context_.device.Add(bucket->gradients.get(), bucket->sums.get());
      context_.device.Zero(bucket->gradients.get());
    }
    if (zero_ < 2 && !last) {
      continue;
    }
    const bool now = zero_ != 1 || context_.config.overlap_zero_comm;
    const bool tied = bucket->share == GradientShare::kTied &&
                      groups_.tied != nullptr && zero_ < 2;
    if (now && !tied) {
      Reduce(*bucket);
    }
  }
}

// Starts the sum of a bucket's gradients over its replicas. At most two buckets
// are on their way, so that memory does not depend on timing.
void ParameterStore::Reduce(Bucket& bucket) {
  const Tensor gradients = bucket.Total();
  if (bucket.share == GradientShare::kPartial && groups_.tp != nullptr) {
    Wait(groups_.tp->AllReduce(gradients, Reduction::kSum));
  }
  if (bucket.reduce != nullptr) {
    bucket.reducing = zero_ == 0
                          ? bucket.reduce->AllReduce(gradients, Reduction::kSum)
                          : bucket.reduce->ReduceScatter(
                                gradients, bucket.OwnPart(gradients));
  }
  reducing_.push_back(&bucket);
  const bool waits = bucket.reducing != nullptr && zero_ >= 2;
  if (zero_ >= 2) {
    FinishReduces(waits ? 1 : 0);
  }
}

void ParameterStore::FinishReduces(std::size_t in_flight) {
  while (reducing_.size() > in_flight) {
    FinishReduce(*reducing_.front());
    reducing_.pop_front();
  }
}

void ParameterStore::FinishReduce(Bucket& bucket) {
  context_.timeline.TimeWait("wait for reduce",
                             std::exchange(bucket.reducing, nullptr));
  if (zero_ >= 2) {
    context_.device.Add(bucket.OwnPart(bucket.gradients.get()),
                        bucket.gradient_part.get());
    bucket.gradients.Reset();
    Bind(bucket);
  }
}

bool ParameterStore::IsTied(const Bucket& bucket) const {
  return bucket.share == GradientShare::kTied && groups_.tied != nullptr;
}

void ParameterStore::Update(const AdamOptions& options) {
  for (const auto& bucket : buckets_) {
    if (IsTied(*bucket) && zero_ < 2) {
      Wait(groups_.tied->AllReduce(bucket->Total(), Reduction::kSum));
      Reduce(*bucket);
    } else if (zero_ == 1 && !context_.config.overlap_zero_comm) {
      Reduce(*bucket);
    }
  }
  FinishReduces(0);
  for (const auto& bucket : buckets_) {
    Update(options, *bucket);
  }
}

void ParameterStore::Update(const AdamOptions& options, Bucket& bucket) {
  if (IsTied(bucket) && zero_ >= 2) {
    Wait(groups_.tied->AllReduce(bucket.gradient_part.get(), Reduction::kSum));
  }
  const Tensor weights = zero_ == 3 ? bucket.weight_part.get()
                                    : bucket.OwnPart(bucket.weights.get());
  const Tensor gradients =
      zero_ >= 2 ? bucket.gradient_part.get() : bucket.OwnPart(bucket.Total());
  context_.device.Adam({options, gradients, bucket.master.get(),
                        bucket.first_moment.get(), bucket.second_moment.get(),
                        weights});
  if ((zero_ == 1 || zero_ == 2) && bucket.gather != nullptr) {
    bucket.gathering = bucket.gather->AllGather(weights, bucket.weights.get());
  }
}

void ParameterStore::Finish() {
  for (const auto& bucket : buckets_) {
    Wait(std::exchange(bucket->gathering, nullptr));
  }
}

}  // namespace trainer
