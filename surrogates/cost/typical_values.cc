#include "surrogates/cost/typical_values.h"

#include <array>
#include <cmath>
#include <span>

namespace surrogates {
namespace {

// How a guess depends on the sequences of a step, S.
enum class Kind {
  kRatio,        // of C, or of M
  kPerStep,      // of C / S: what moves or updates parameters once per step
  kPerSequence,  // of M S: what grows with the batch
  kAbsolute,     // s, or a share of the GPU's memory
};

struct Entry {
  std::string_view term;
  Kind kind;
  double value;
  double log_stddev;
};

// Of step time. F / B, the FLOP that a GPU computes while it sends a byte, is
// about 1,500 within a host and 4,000 to 10,000 between hosts; a sequence has
// about 2,000 tokens, a model a width of about 3,000.
constexpr std::array kTime = {
    Entry{"compute", Kind::kRatio, 1.0, 0.5},
    // The forward pass once more.
    Entry{"recompute", Kind::kRatio, 1.0 / 3.0, 0.3},
    // A layer launches some 50 kernels a microbatch.
    Entry{"launch", Kind::kAbsolute, 0.03, 1.0},
    // 30 bytes a parameter at 2 TB/s, against 6 FLOP a parameter and token.
    Entry{"optimizer", Kind::kPerStep, 1.0, 1.0},
    Entry{"constant", Kind::kAbsolute, 0.03, 1.5},
    // 4 to 8 bytes a parameter, against 6 FLOP a parameter and token.
    Entry{"DP volume, intra-node", Kind::kPerStep, 1.35, 1.2},
    Entry{"DP volume, inter-node", Kind::kPerStep, 1.65, 1.2},
    Entry{"DP latency", Kind::kAbsolute, 1e-4, 1.5},
    Entry{"ZeRO gather", Kind::kPerStep, 1.0, 1.2},
    Entry{"ZeRO reduce, not hidden", Kind::kPerStep, 1.0, 1.2},
    Entry{"ZeRO-3 gather", Kind::kPerStep, 2.0, 1.2},
    // 16 bytes a layer, token and unit of width, against 72 FLOP times width.
    Entry{"TP volume, intra-node", Kind::kRatio, 0.11, 0.8},
    Entry{"TP volume, inter-node", Kind::kRatio, 0.37, 1.0},
    Entry{"TP latency, intra-node", Kind::kAbsolute, 2e-3, 1.2},
    Entry{"TP latency, inter-node", Kind::kAbsolute, 4e-3, 1.2},
    // As TP, for the tokens of top-2 routing there and back.
    Entry{"EP volume, intra-node", Kind::kRatio, 0.1, 1.2},
    Entry{"EP volume, inter-node", Kind::kRatio, 0.4, 1.2},
    Entry{"EP latency, intra-node", Kind::kAbsolute, 2e-3, 1.2},
    Entry{"EP latency, inter-node", Kind::kAbsolute, 4e-3, 1.2},
    Entry{"CP volume", Kind::kRatio, 0.1, 1.2},
    // 2 bytes a token and unit of width, against 72 FLOP times layers and
    // width squared.
    Entry{"PP volume", Kind::kRatio, 4e-3, 1.5},
    // Stages wait for each other at every transfer.
    Entry{"PP latency", Kind::kAbsolute, 5e-3, 1.7},
};

// Of memory: 16 bytes a parameter, 34 a token, layer and unit of width.
// Source: Rajbhandari et al. (2020), Sec. 3; Korthikanti et al. (2022), Eq. 1.
constexpr std::array kMemory = {
    Entry{"model state", Kind::kRatio, 1.0, 0.5},
    // What a framework keeps besides: gradients in single precision, copies.
    Entry{"parameters", Kind::kRatio, 0.02, 1.0},
    Entry{"gradients", Kind::kRatio, 0.02, 1.0},
    Entry{"optimizer state", Kind::kRatio, 0.1, 1.0},
    Entry{"activations", Kind::kPerSequence, 0.22, 1.0},
    // 2 bytes of the 34, and what is recomputed.
    Entry{"checkpoints", Kind::kPerSequence, 0.014, 1.0},
    // A layer's activations and the logits.
    Entry{"one microbatch", Kind::kPerSequence, 0.025, 1.0},
    Entry{"constant", Kind::kAbsolute, 0.04, 0.8},
};

std::optional<TypicalValue> Find(std::span<const Entry> entries,
                                 std::string_view term,
                                 double sequences) {
  for (const Entry& entry : entries) {
    if (entry.term != term) {
      continue;
    }
    double value = entry.value;
    if (entry.kind == Kind::kPerStep) {
      value /= sequences;
    } else if (entry.kind == Kind::kPerSequence) {
      value *= sequences;
    }
    return TypicalValue{
        std::log(value), entry.log_stddev, entry.kind == Kind::kAbsolute};
  }
  return std::nullopt;
}

}  // namespace

std::optional<TypicalValue> TypicalTimeCoefficient(std::string_view term,
                                                   double sequences) {
  return Find(kTime, term, sequences);
}

std::optional<TypicalValue> TypicalMemoryCoefficient(std::string_view term,
                                                     double sequences) {
  return Find(kMemory, term, sequences);
}

}  // namespace surrogates
