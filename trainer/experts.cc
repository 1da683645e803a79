// A mixture of experts: a router sends each token to its k best experts, which
// may be on other ranks (expert parallelism), without a capacity.

#include <numeric>
#include <utility>

#include "trainer/mlp.h"
#include "trainer/unit.h"

namespace trainer {
namespace {

// Slots are places of (token, choice) pairs. They are sorted by expert where
// they are sent, and by expert and then by source where they arrive.
enum { kChosen, kWeights, kSlots, kArrival, kInput, kHidden, kAct, kOutput };
enum {
  kSent,
  kReceived,
  kRows
};  // counts: per ep rank, per ep rank, per expert

class Experts : public Core {
 public:
  Experts(const Context& context, ParameterStore& store,
          const std::string& name)
      : context_(context),
        cols_(context.model.hidden_size),
        experts_(context.model.experts),
        k_(context.model.experts_per_token) {
    // Its gradient is that of this tp rank's columns of the experts.
    router_ = store.Add(
        context.mesh.tp > 1 ? GradientShare::kPartial : GradientShare::kDense,
        {RowSplit(name + ".router", experts_, cols_, 1, 0)});
    const std::int64_t own = experts_ / context.mesh.ep;
    const std::int64_t first = context.mesh.dp_index % context.mesh.ep * own;
    for (std::int64_t e = first; e < first + own; ++e) {
      mlps_.emplace_back(context, store, name + "." + std::to_string(e),
                         GradientShare::kExpert);
    }
  }
  [[nodiscard]] const Parameter* output_bias() const override {
    return nullptr;
  }

  Array Forward(Tensor x, Saved& saved) override {
    const Context& c = context_;
    saved.arrays.resize(8);
    saved.counts.resize(3);
    Route(x, saved);
    {
      Array sent = c.New(c.tokens * k_ * cols_, Region::kCommunication);
      c.device.ScatterRows(
          {c.tokens, k_, cols_, x, saved[kSlots], {}, sent.get()});
      saved.arrays[kInput] = Dispatch(std::move(sent), saved);
    }
    const std::int64_t rows = Total(saved.counts[kReceived]);
    saved.arrays[kHidden] = c.New(rows * mlps_.front().inputs);
    saved.arrays[kAct] = c.New(rows * mlps_.front().ffn);
    Array out = c.New(rows * cols_, Region::kCommunication);
    ForEachExpert(saved, [&](const Mlp& mlp, std::int64_t at, std::int64_t n) {
      mlp.Forward(n, saved[kInput].Slice(at * cols_, n * cols_),
                  saved[kHidden].Slice(at * mlp.inputs, n * mlp.inputs),
                  saved[kAct].Slice(at * mlp.ffn, n * mlp.ffn),
                  out.get().Slice(at * cols_, n * cols_));
    });
    saved.arrays[kOutput] = Return(std::move(out), saved);
    Array y = c.New(c.tokens * cols_);
    c.device.CombineRows({c.tokens, k_, cols_, saved[kOutput], saved[kSlots],
                          saved[kWeights], y.get()});
    return y;
  }

  Array Backward(Tensor dy, Tensor x, Saved& saved) override {
    const Context& c = context_;
    Array dlogits = c.New(c.tokens * experts_, Region::kWorkspace);
    {
      const Array dweights = c.New(c.tokens * k_, Region::kWorkspace);
      c.device.CombineWeights(
          {c.tokens, k_, cols_, saved[kOutput], saved[kSlots], {}, {}}, dy,
          dweights.get());
      c.device.RouteBackward({.rows = c.tokens,
                              .experts = experts_,
                              .k = k_,
                              .chosen = saved[kChosen],
                              .weights = saved[kWeights],
                              .dweights = dweights.get(),
                              .dlogits = dlogits.get()});
    }
    Array dsent = c.New(c.tokens * k_ * cols_, Region::kCommunication);
    c.device.ScatterRows(
        {c.tokens, k_, cols_, dy, saved[kSlots], saved[kWeights], dsent.get()});
    const Array dout = Dispatch(std::move(dsent), saved);
    Array din = c.New(dout.get().size, Region::kCommunication);
    ForEachExpert(saved, [&](const Mlp& mlp, std::int64_t at, std::int64_t n) {
      mlp.Backward(n, dout.get().Slice(at * cols_, n * cols_),
                   saved[kInput].Slice(at * cols_, n * cols_),
                   saved[kHidden].Slice(at * mlp.inputs, n * mlp.inputs),
                   saved[kAct].Slice(at * mlp.ffn, n * mlp.ffn),
                   din.get().Slice(at * cols_, n * cols_));
    });
    const Array returned = Return(std::move(din), saved);
    Array dx = c.New(c.tokens * cols_);
    c.device.CombineRows(
        {c.tokens, k_, cols_, returned.get(), saved[kSlots], {}, dx.get()});
    c.LinearBackward(c.tokens, cols_, experts_, dlogits.get(), x,
                     router_->weight, router_->gradient, dx.get(), 1.0);
    saved = {};
    return dx;
  }

 private:
  static std::int64_t Total(const std::vector<std::int64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }

  // Chooses experts, and the slots of tokens here and where they arrive.
  void Route(Tensor x, Saved& saved) {
    const Context& c = context_;
    const std::int64_t pairs = c.tokens * k_;
    {
      const Array logits = c.New(c.tokens * experts_, Region::kWorkspace);
      c.Linear(c.tokens, cols_, experts_, x, router_->weight, logits.get());
      saved.arrays[kChosen] = c.NewIndices(pairs);
      saved.arrays[kWeights] = c.New(pairs);
      c.device.RouteForward({.rows = c.tokens,
                             .experts = experts_,
                             .k = k_,
                             .logits = logits.get(),
                             .chosen = saved[kChosen],
                             .weights = saved[kWeights]});
    }
    std::vector<std::int32_t> chosen(pairs);
    c.device.ToHost(saved[kChosen], chosen.data());
    std::vector<std::int64_t> per_expert(experts_);
    for (const std::int32_t expert : chosen) {
      ++per_expert[expert];
    }
    std::vector<std::int64_t> next(experts_);
    std::exclusive_scan(per_expert.begin(), per_expert.end(), next.begin(),
                        std::int64_t{0});
    std::vector<std::int32_t> slots(pairs);
    for (std::int64_t i = 0; i < pairs; ++i) {
      slots[i] = static_cast<std::int32_t>(next[chosen[i]]++);
    }
    saved.arrays[kSlots] = c.NewIndices(pairs);
    c.device.FromHost(slots.data(), saved[kSlots]);
    Arrange(per_expert, saved);
  }

  // Counts of what is sent and received, and the places of received rows.
  void Arrange(const std::vector<std::int64_t>& per_expert, Saved& saved) {
    const Context& c = context_;
    const int ep = c.mesh.ep;
    const std::int64_t own = experts_ / ep;
    std::vector<std::int64_t> from = per_expert;  // [ep, own], by source
    if (c.ep != nullptr) {
      c.ep->ExchangeOnHost(per_expert, from);
    }
    saved.counts[kSent].assign(ep, 0);
    saved.counts[kReceived].assign(ep, 0);
    saved.counts[kRows].assign(own, 0);
    for (std::int64_t i = 0; i < experts_; ++i) {
      saved.counts[kSent][i / own] += per_expert[i];
      saved.counts[kReceived][i / own] += from[i];
      saved.counts[kRows][i % own] += from[i];
    }
    if (c.ep == nullptr) {
      return;
    }
    std::vector<std::int32_t> arrival;
    for (int rank = 0; rank < ep; ++rank) {
      for (std::int64_t e = 0; e < own; ++e) {
        std::int64_t at = 0;  // rows before those of this expert and rank
        for (std::int64_t before = 0; before < e; ++before) {
          at += saved.counts[kRows][before];
        }
        for (int before = 0; before < rank; ++before) {
          at += from[before * own + e];
        }
        for (std::int64_t i = 0; i < from[rank * own + e]; ++i) {
          arrival.push_back(static_cast<std::int32_t>(at + i));
        }
      }
    }
    saved.arrays[kArrival] =
        c.NewIndices(static_cast<std::int64_t>(arrival.size()));
    if (!arrival.empty()) {
      c.device.FromHost(arrival.data(), saved[kArrival]);
    }
  }

  // Rows from the order of slots here to that of the experts of this rank.
  [[nodiscard]] Array Dispatch(Array sent, const Saved& saved) const {
    const Context& c = context_;
    if (c.ep == nullptr) {
      return sent;
    }
    const std::int64_t rows = Total(saved.counts[kReceived]);
    Array received = c.New(rows * cols_, Region::kCommunication);
    Exchange(sent, saved.counts[kSent], received, saved.counts[kReceived]);
    Array sorted = c.New(rows * cols_);
    c.device.ScatterRows(
        {rows, 1, cols_, received.get(), saved[kArrival], {}, sorted.get()});
    return sorted;
  }
  // The inverse of Dispatch.
  [[nodiscard]] Array Return(Array sorted, const Saved& saved) const {
    const Context& c = context_;
    if (c.ep == nullptr) {
      return sorted;
    }
    const std::int64_t rows = Total(saved.counts[kReceived]);
    Array ordered = c.New(rows * cols_, Region::kCommunication);
    c.device.CombineRows(
        {rows, 1, cols_, sorted.get(), saved[kArrival], {}, ordered.get()});
    Array returned = c.New(c.tokens * k_ * cols_);
    Exchange(ordered, saved.counts[kReceived], returned, saved.counts[kSent]);
    return returned;
  }
  void Exchange(const Array& from, std::vector<std::int64_t> sent,
                const Array& to, std::vector<std::int64_t> received) const {
    for (auto* counts : {&sent, &received}) {
      for (std::int64_t& count : *counts) {
        count *= cols_;
      }
    }
    Wait(context_.ep->AllToAll(from.get(), sent, to.get(), received));
  }

  template <typename Visit>
  void ForEachExpert(const Saved& saved, Visit visit) const {
    std::int64_t at = 0;
    for (std::size_t e = 0; e < mlps_.size(); ++e) {
      const std::int64_t rows = saved.counts[kRows][e];
      if (rows > 0) {
        visit(mlps_[e], at, rows);
      }
      at += rows;
    }
  }

  const Context& context_;
  std::int64_t cols_, experts_, k_;
  Parameter* router_;
  std::vector<Mlp> mlps_;
};

}  // namespace

std::unique_ptr<Core> MakeExperts(const Context& context, ParameterStore& store,
                                  const std::string& name) {
  return std::make_unique<Experts>(context, store, name);
}

}  // namespace trainer
