#include "studies/fits/physical_reading.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace studies {
namespace {

// How a coefficient c becomes a physical number, given an amount.
enum class Kind {
  kTime,       // c in s, as it stands
  kBandwidth,  // amount (bytes) / c
  kFlopRate,   // amount (flop) / c
  kLatency,    // c / amount (messages in a row)
  kMemory,     // c * capacity; amount (bytes) is what to expect
};

using Amount = double (*)(const KnownSizes&);

struct Entry {
  std::string_view name;
  std::string_view meaning;
  Kind kind = Kind::kTime;
  Amount amount = nullptr;
};

double One(const KnownSizes& /*sizes*/) { return 1.0; }
double Flop(const KnownSizes& s) { return 6.0 * s.parameters * s.tokens; }
double ModelBytes(const KnownSizes& s) {
  return s.parameters * s.bytes_per_value;
}
double TwoModels(const KnownSizes& s) { return 2.0 * ModelBytes(s); }
double StateBytes(const KnownSizes& s) { return 16.0 * s.parameters; }
double LayerBytes(const KnownSizes& s) {
  return s.tokens * s.hidden_size * s.bytes_per_value;
}
double AllReducedBytes(const KnownSizes& s) {
  return 8.0 * s.layers * LayerBytes(s);
}
// Two forward and two backward, as there are all-to-alls of experts.
double AllReduces(const KnownSizes& s) { return 4.0 * s.layers; }
double CheckpointBytes(const KnownSizes& s) { return s.layers * LayerBytes(s); }

// The names of surrogates/cost/physical_terms.cc. Records write ';' for ','.
constexpr std::array<Entry, 22> kPhysicalTime = {{
    {"compute", "computation of the batch on one GPU", Kind::kFlopRate, Flop},
    {"recompute", "computation done again with checkpointing"},
    {"launch", "fixed cost of a microbatch, all layers"},
    {"optimizer", "optimizer's step, whole model on one GPU"},
    {"constant", "fixed cost of a step"},
    {"DP volume; intra-node",
     "all-reduce of all gradients within a host",
     Kind::kBandwidth,
     TwoModels},
    {"DP volume; inter-node",
     "all-reduce of all gradients between hosts",
     Kind::kBandwidth,
     TwoModels},
    {"DP latency", "one message of the gradients' ring", Kind::kLatency, One},
    {"ZeRO gather",
     "gather of updated parameters, not hidden",
     Kind::kBandwidth,
     ModelBytes},
    {"ZeRO reduce; not hidden",
     "reduction of gradients without overlap",
     Kind::kBandwidth,
     ModelBytes},
    {"ZeRO-3 gather",
     "gather of parameters before each use",
     Kind::kBandwidth,
     TwoModels},
    {"TP volume; intra-node",
     "all-reduces of activations within a host",
     Kind::kBandwidth,
     AllReducedBytes},
    {"TP volume; inter-node",
     "all-reduces of activations between hosts",
     Kind::kBandwidth,
     AllReducedBytes},
    {"TP latency; intra-node",
     "one message of these within a host",
     Kind::kLatency,
     AllReduces},
    {"TP latency; inter-node",
     "one message of these between hosts",
     Kind::kLatency,
     AllReduces},
    {"EP volume; intra-node", "tokens to their experts within a host"},
    {"EP volume; inter-node", "tokens to their experts between hosts"},
    {"EP latency; intra-node",
     "one message of these within a host",
     Kind::kLatency,
     AllReduces},
    {"EP latency; inter-node",
     "one message of these between hosts",
     Kind::kLatency,
     AllReduces},
    {"CP volume", "keys and values between context-parallel ranks"},
    {"PP volume",
     "activations from stage to stage",
     Kind::kBandwidth,
     LayerBytes},
    {"PP latency", "one transfer from stage to stage", Kind::kLatency, One},
}};

constexpr std::array<Entry, 8> kPhysicalMemory = {{
    {"model state",
     "parameters, gradients and optimizer, as sharded",
     Kind::kMemory,
     StateBytes},
    {"parameters", "parameters beyond that", Kind::kMemory},
    {"gradients", "gradients beyond that", Kind::kMemory},
    {"optimizer state", "optimizer state beyond that", Kind::kMemory},
    {"activations", "activations of the batch, all layers", Kind::kMemory},
    {"checkpoints",
     "checkpointed activations of the batch",
     Kind::kMemory,
     CheckpointBytes},
    {"one microbatch", "logits and one layer, whole batch", Kind::kMemory},
    {"constant", "fixed memory of a GPU", Kind::kMemory},
}};

// The names of surrogates/cost/printed_terms.cc: Eqs. 10-19 and 21.
constexpr std::array<Entry, 12> kPrintedTime = {{
    {"compute", "t_comp of Eq. 10"},
    {"DP latency; intra-node",
     "one message of the gradients' ring within a host",
     Kind::kLatency,
     One},
    {"DP latency; inter-node",
     "one message of the gradients' ring between hosts",
     Kind::kLatency,
     One},
    {"DP volume; intra-node",
     "all-reduce of all gradients within a host",
     Kind::kBandwidth,
     TwoModels},
    {"DP volume; inter-node",
     "all-reduce of all gradients between hosts",
     Kind::kBandwidth,
     TwoModels},
    {"DP volume ZeRO-3; intra-node", "what ZeRO-3 adds: lambda_Z of Eq. 12"},
    {"DP volume ZeRO-3; inter-node", "what ZeRO-3 adds: lambda_Z of Eq. 12"},
    {"TP latency; intra-node", "O_tp messages of Eq. 16 within a host"},
    {"TP latency; inter-node", "O_tp messages of Eq. 16 between hosts"},
    {"TP volume; intra-node", "O_tp M_act,tp of Eq. 16 within a host"},
    {"TP volume; inter-node", "O_tp M_act,tp of Eq. 16 between hosts"},
    {"PP transfers; intra-node", "one transfer of Eq. 18"},
}};

constexpr std::array<Entry, 3> kPrintedMemory = {{
    {"model state", "m_1 of Eq. 21: model state", Kind::kMemory},
    {"activations", "m_2 of Eq. 21: backward pass", Kind::kMemory},
    {"constant", "m_3 of Eq. 21: everything else", Kind::kMemory},
}};

template <std::size_t kCount>
const Entry* FindIn(const std::array<Entry, kCount>& entries,
                    std::string_view name) {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
        return entry.name == name;
      });
  return found == entries.end() ? nullptr : &*found;
}

bool Has(const LearnedSurrogate& surrogate, std::string_view name) {
  return std::any_of(
      surrogate.coefficients.begin(),
      surrogate.coefficients.end(),
      [&](const LearnedValue& value) { return value.name == name; });
}

bool IsMemory(const LearnedSurrogate& surrogate) {
  return surrogate.name == "memory";
}

const Entry* Find(const LearnedSurrogate& surrogate, std::string_view name) {
  if (surrogate.coefficients.size() < 2) {
    return nullptr;  // a constant mean, not a cost model
  }
  if (IsMemory(surrogate)) {
    return Has(surrogate, "gradients") ? FindIn(kPhysicalMemory, name)
                                       : FindIn(kPrintedMemory, name);
  }
  if (name == "PP transfers; inter-node") {
    name = "PP transfers; intra-node";
  }
  return Has(surrogate, "constant") ? FindIn(kPhysicalTime, name)
                                    : FindIn(kPrintedTime, name);
}

Estimate Scaled(const Estimate& estimate, double factor) {
  return {
      estimate.value * factor, estimate.low * factor, estimate.high * factor};
}

// amount / c: the ends change places.
Estimate Inverse(const Estimate& estimate, double amount) {
  return {
      amount / estimate.value, amount / estimate.high, amount / estimate.low};
}

}  // namespace

std::string MeaningOf(const LearnedSurrogate& surrogate,
                      const std::string& coefficient) {
  const Entry* entry = Find(surrogate, coefficient);
  return entry == nullptr ? "" : std::string(entry->meaning);
}

std::string UnitOf(const LearnedSurrogate& surrogate) {
  if (IsMemory(surrogate)) {
    return "capacity";
  }
  return surrogate.coefficients.size() > 1 ? "s" : "steps/s";
}

std::optional<Reading> ReadingOf(const LearnedSurrogate& surrogate,
                                 const LearnedValue& coefficient,
                                 const KnownSizes& sizes) {
  const Entry* entry = Find(surrogate, coefficient.name);
  if (entry == nullptr || entry->kind == Kind::kTime) {
    return std::nullopt;
  }
  const double amount = entry->amount == nullptr ? 0.0 : entry->amount(sizes);
  const Estimate& c = coefficient.estimate;
  if (entry->kind == Kind::kMemory) {
    if (!(sizes.capacity_bytes > 0.0)) {
      return std::nullopt;
    }
    Reading reading{Scaled(c, sizes.capacity_bytes / 1e9), "GB", {}};
    if (amount > 0.0) {
      reading.expected = amount / 1e9;
    }
    return reading;
  }
  if (!(amount > 0.0)) {
    return std::nullopt;
  }
  switch (entry->kind) {
    case Kind::kBandwidth:
      return Reading{Inverse(c, amount / 1e9), "GB/s", {}};
    case Kind::kFlopRate:
      return Reading{Inverse(c, amount / 1e12), "TFLOP/s", {}};
    case Kind::kLatency:
      return Reading{Scaled(c, 1e6 / amount), "us", {}};
    case Kind::kTime:
    case Kind::kMemory:
      break;
  }
  return std::nullopt;
}

}  // namespace studies
