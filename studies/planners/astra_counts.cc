// Which assumptions explain the numbers of strategies in Astra's Table 1.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "studies/planners/astra.h"
#include "trials/data_folder.h"
#include "trials/model.h"

namespace studies {
namespace {

struct Published {
  const char* label;
  const char* model;
  std::array<int, 4> strategies;  // on 64, 256, 1,024 and 4,096 GPUs
};
constexpr std::array<int, 4> kGpus = {64, 256, 1024, 4096};
// Llama-3-8B and Llama-3-70B have the numbers of Llama-2-7B and Llama-2-70B.
// The shape of GLM-67B is not published: it is not compared.
constexpr std::array<Published, 4> kTable1 = {{
    {"Llama-2-7B", "llama-2-7b", {23348, 14372, 8856, 4700}},
    {"Llama-2-13B", "llama-2-13b", {23400, 13552, 8920, 4720}},
    {"Llama-2-70B", "llama-2-70b", {53264, 31440, 20152, 10948}},
    {"GLM-130B", "glm-130b", {33540, 18776, 11976, 6040}},
}};
constexpr std::size_t kRows = kTable1.size() * kGpus.size();
using Row = std::array<double, kRows>;  // by model, then GPUs

int DivisorsUpTo(int n, int most) {
  int count = 0;
  for (int i = 1; i <= std::min(n, most); ++i) {
    count += n % i == 0 ? 1 : 0;
  }
  return count;
}

bool IsPowerOfTwo(int n) { return (n & (n - 1)) == 0; }

// One value of an assumption: its name, and what it allows or counts.
struct Filter {
  const char* name;
  bool (*allows)(int size, const trials::Model& model);
};
constexpr std::array<Filter, 5> kTensor = {{
    {"tp 1, 2, 4, 8",
     [](int tp, const trials::Model&) { return tp <= 8 && IsPowerOfTwo(tp); }},
    {"tp any divisor of the GPUs",
     [](int, const trials::Model&) { return true; }},
    {"tp divides the heads",
     [](int tp, const trials::Model& model) {
       return model.attention_heads % tp == 0;
     }},
    {"tp divides the heads, at most 8",
     [](int tp, const trials::Model& model) {
       return tp <= 8 && model.attention_heads % tp == 0;
     }},
    {"tp at most 16", [](int tp, const trials::Model&) { return tp <= 16; }},
}};
constexpr std::array<Filter, 6> kPipeline = {{
    {"pp divides the layers",
     [](int pp, const trials::Model& model) { return model.layers % pp == 0; }},
    {"pp at most the layers",
     [](int pp, const trials::Model& model) { return pp <= model.layers; }},
    {"pp at most 8", [](int pp, const trials::Model&) { return pp <= 8; }},
    {"pp at most 16", [](int pp, const trials::Model&) { return pp <= 16; }},
    {"pp divides the layers, at most 8",
     [](int pp, const trials::Model& model) {
       return pp <= 8 && model.layers % pp == 0;
     }},
    {"pp divides the layers, at most 16",
     [](int pp, const trials::Model& model) {
       return pp <= 16 && model.layers % pp == 0;
     }},
}};

struct Microbatches {
  const char* name;
  int most;
  bool powers;
};
constexpr std::array<Microbatches, 8> kMicrobatches = {{
    {"microbatch 1", 1, true},
    {"microbatch 1, 2", 2, true},
    {"microbatch 1, 2, 4", 4, true},
    {"microbatch 1, 2, 4, 8", 8, true},
    {"microbatch 1 to 16 by 2", 16, true},
    {"microbatch 1 to 4", 4, false},
    {"microbatch 1 to 8", 8, false},
    {"microbatch 1 to 16", 16, false},
}};
constexpr int kAnyBatch = 0;  // no divisibility
constexpr std::array<int, 10> kBatches = {kAnyBatch, 256,  512,  1024, 1536,
                                          2048,      3072, 4096, 6144, 8192};

// Values of a parameter, given the layers of a stage (rounded up), pp and the
// number of microbatches (0: not known).
struct Factor {
  const char* name;
  int (*values)(int layers, int pp, int microbatches);
};
constexpr std::array<Factor, 6> kChunks = {{
    {"no virtual stages", [](int, int, int) { return 1; }},
    {"layers of a virtual stage: divisors of a stage's",
     [](int layers, int pp, int) {
       return pp == 1 ? 1 : DivisorsUpTo(layers, layers);
     }},
    {"the same, where pp divides the microbatches",
     [](int layers, int pp, int microbatches) {
       return pp == 1 || microbatches % pp != 0 ? 1
                                                : DivisorsUpTo(layers, layers);
     }},
    {"layers of a virtual stage: 1 to pp", [](int, int pp, int) { return pp; }},
    {"layers of a virtual stage: divisors up to pp",
     [](int layers, int pp, int) { return DivisorsUpTo(layers, pp); }},
    {"none, and divisors",
     [](int layers, int pp, int) {
       return pp == 1 ? 1 : 1 + DivisorsUpTo(layers, layers);
     }},
}};
constexpr std::array<Factor, 15> kRecompute = {{
    {"no recomputation", [](int, int, int) { return 1; }},
    {"none, full", [](int, int, int) { return 2; }},
    {"none, selective, full", [](int, int, int) { return 3; }},
    {"1 to l layers", [](int l, int, int) { return l; }},
    {"0 to l layers", [](int l, int, int) { return 1 + l; }},
    {"none, selective, 1 to l", [](int l, int, int) { return 2 + l; }},
    {"block and uniform, 1 to l", [](int l, int, int) { return 2 * l; }},
    {"none, block and uniform 1 to l",
     [](int l, int, int) { return 1 + 2 * l; }},
    {"none, selective, block and uniform 1 to l",
     [](int l, int, int) { return 2 + 2 * l; }},
    {"none, uniform by divisors",
     [](int l, int, int) { return 1 + DivisorsUpTo(l, l); }},
    {"none, block 1 to l, uniform by divisors",
     [](int l, int, int) { return 1 + l + DivisorsUpTo(l, l); }},
    // Eqs. 15-16: not more layers than stages.
    {"1 to min(l, pp) layers",
     [](int l, int pp, int) { return std::min(l, pp); }},
    {"none, 1 to min(l, pp)",
     [](int l, int pp, int) { return 1 + std::min(l, pp); }},
    {"none, block and uniform 1 to min(l, pp)",
     [](int l, int pp, int) { return 1 + 2 * std::min(l, pp); }},
    {"none, block and uniform 1 to pp",
     [](int, int pp, int) { return 1 + 2 * pp; }},
}};
// sequence-parallel and use-distributed-optimizer: 1, 2 where the size is above
// 1, always 2.
constexpr std::array<const char*, 3> kFlag = {
    "not counted", "counted where it has an effect", "always counted"};
int FlagValues(std::size_t option, int size) {
  return option == 0 || (option == 1 && size == 1) ? 1 : 2;
}
constexpr std::array<const char*, 3> kOffload = {
    "no offloading", "no-overlap-offload-optimizer counted",
    "offloading off, on, on without overlap"};
constexpr std::array<const char*, 2> kFilled = {"any number of microbatches",
                                                "at least pp microbatches"};
constexpr std::array<const char*, 2> kMemory = {"no memory filter",
                                                "model states fit into 80 GB"};

// The assumptions that multiply the strategies of given sizes.
constexpr std::size_t kVariants =
    kRecompute.size() * kFlag.size() * kFlag.size() * kMemory.size();
struct Variant {
  std::size_t recompute;
  std::size_t sp;
  std::size_t optimizer;
  std::size_t memory;
};
Variant VariantOf(std::size_t i) {
  Variant variant{};
  variant.recompute = i % kRecompute.size();
  i /= kRecompute.size();
  variant.sp = i % kFlag.size();
  i /= kFlag.size();
  variant.optimizer = i % kFlag.size();
  variant.memory = i / kFlag.size();
  return variant;
}

// What a set of assumptions has in addition to a variant and a batch.
struct Sizes {
  std::size_t tp, pp, microbatches, chunks, filled;
};

using Counts = std::vector<double>;  // [kVariants]

// Adds one size of a microbatch.
void AddCounts(const trials::Model& model, const Sizes& sizes, int dp, int tp,
               int pp, int microbatches, bool fits, Counts& counts) {
  const int layers = (model.layers + pp - 1) / pp;
  const int chunks = kChunks[sizes.chunks].values(layers, pp, microbatches);
  std::array<double, kRecompute.size()> recompute{};
  for (std::size_t i = 0; i < recompute.size(); ++i) {
    recompute[i] = chunks * kRecompute[i].values(layers, pp, microbatches);
  }
  std::size_t at = 0;
  for (std::size_t memory = 0; memory < kMemory.size(); ++memory) {
    for (std::size_t z = 0; z < kFlag.size(); ++z) {
      for (std::size_t s = 0; s < kFlag.size(); ++s) {
        const double flags =
            memory == 1 && !fits ? 0.0 : FlagValues(z, dp) * FlagValues(s, tp);
        for (const double values : recompute) {
          counts[at++] += flags * values;
        }
      }
    }
  }
}

Counts CountsOf(const trials::Model& model, int gpus, const Sizes& sizes,
                int batch) {
  constexpr double kBytes = 80e9;
  const auto parameters = static_cast<double>(ParameterCount(model));
  Counts counts(kVariants, 0.0);
  for (int tp = 1; tp <= gpus; tp *= 2) {
    for (int pp = 1; tp * pp <= gpus; pp *= 2) {
      if (!kTensor[sizes.tp].allows(tp, model) ||
          !kPipeline[sizes.pp].allows(pp, model)) {
        continue;
      }
      const int dp = gpus / (tp * pp);
      const bool fits = parameters / (tp * pp) * (6.0 + 12.0 / dp) <= kBytes;
      const Microbatches& list = kMicrobatches[sizes.microbatches];
      for (int size = 1; size <= list.most; size += list.powers ? size : 1) {
        if (batch != kAnyBatch && batch % (dp * size) != 0) {
          continue;
        }
        const int microbatches = batch / (dp * size);
        if (sizes.filled == 1 && batch != kAnyBatch && microbatches < pp) {
          continue;
        }
        AddCounts(model, sizes, dp, tp, pp, microbatches, fits, counts);
      }
    }
  }
  return counts;
}

// A set of assumptions and its distance: the largest |ln(ours / printed)|.
struct Fit {
  double distance = std::numeric_limits<double>::infinity();
  Sizes sizes{};
  std::size_t variant = 0;
  std::size_t offload = 0;
  std::array<std::size_t, kTable1.size()> batch{};  // by model
  Row counts{};
  int exact = 0;
};

// Both searches: one batch for all models, and one for each.
class CountSearch {
 public:
  CountSearch() {
    for (const Published& row : kTable1) {
      models_.push_back(
          trials::ReadModel(trials::ExperimentsFolder() / "workloads" /
                            (std::string(row.model) + ".json")));
    }
  }

  void Run() {
    Sizes sizes{};
    for (sizes.tp = 0; sizes.tp < kTensor.size(); ++sizes.tp) {
      for (sizes.pp = 0; sizes.pp < kPipeline.size(); ++sizes.pp) {
        for (sizes.microbatches = 0; sizes.microbatches < kMicrobatches.size();
             ++sizes.microbatches) {
          for (sizes.chunks = 0; sizes.chunks < kChunks.size();
               ++sizes.chunks) {
            for (sizes.filled = 0; sizes.filled < kFilled.size();
                 ++sizes.filled) {
              Try(sizes);
            }
          }
        }
      }
    }
  }

  Fit common;
  Fit by_model;
  std::int64_t tried = 0;      // sets of assumptions with one batch
  std::int64_t explained = 0;  // of them, those within 10% in every row

 private:
  void Try(const Sizes& sizes) {
    // [batch][row]
    std::vector<std::array<Counts, kRows>> counts(kBatches.size());
    for (std::size_t b = 0; b < kBatches.size(); ++b) {
      for (std::size_t i = 0; i < kRows; ++i) {
        counts[b][i] = CountsOf(models_[i / kGpus.size()],
                                kGpus[i % kGpus.size()], sizes, kBatches[b]);
      }
    }
    for (std::size_t variant = 0; variant < kVariants; ++variant) {
      for (std::size_t offload = 0; offload < kOffload.size(); ++offload) {
        TryVariant(sizes, variant, offload, counts);
      }
    }
  }

  void TryVariant(const Sizes& sizes, std::size_t variant, std::size_t offload,
                  const std::vector<std::array<Counts, kRows>>& counts) {
    const double factor = static_cast<double>(offload) + 1.0;
    Fit chosen;  // the best batch of each model
    chosen.distance = 0.0;
    std::array<double, kTable1.size()> best;
    best.fill(std::numeric_limits<double>::infinity());
    for (std::size_t b = 0; b < counts.size(); ++b) {
      double largest = 0.0;
      for (std::size_t model = 0; model < kTable1.size(); ++model) {
        double distance = 0.0;
        for (std::size_t g = 0; g < kGpus.size(); ++g) {
          const double ours =
              factor * counts[b][model * kGpus.size() + g][variant];
          distance =
              std::max(distance,
                       std::abs(std::log(ours / kTable1[model].strategies[g])));
        }
        if (distance < best[model]) {
          best[model] = distance;
          chosen.batch[model] = b;
        }
        largest = std::max(largest, distance);
      }
      ++tried;
      explained += largest < std::log(1.1) ? 1 : 0;
      if (largest < common.distance) {
        common = {largest, sizes, variant, offload, {}, {}, 0};
        common.batch.fill(b);
        Fill(counts, common);
      }
    }
    const double largest = *std::max_element(best.begin(), best.end());
    if (largest < by_model.distance) {
      by_model = {largest, sizes, variant, offload, chosen.batch, {}, 0};
      Fill(counts, by_model);
    }
  }

  static void Fill(const std::vector<std::array<Counts, kRows>>& counts,
                   Fit& fit) {
    for (std::size_t i = 0; i < kRows; ++i) {
      const std::size_t model = i / kGpus.size();
      fit.counts[i] = (static_cast<double>(fit.offload) + 1.0) *
                      counts[fit.batch[model]][i][fit.variant];
      fit.exact +=
          fit.counts[i] == kTable1[model].strategies[i % kGpus.size()] ? 1 : 0;
    }
  }

  std::vector<trials::Model> models_;
};

std::string BatchText(std::size_t batch) {
  return kBatches[batch] == kAnyBatch
             ? "any batch"
             : fmt::format("batch {}", kBatches[batch]);
}

std::string TextOf(const Fit& fit) {
  const Variant variant = VariantOf(fit.variant);
  return fmt::format(
      "{}; {}; {}; {}; {}; recomputation: {}; sequence-parallel {}; "
      "use-distributed-optimizer {}; {}; {}",
      kTensor[fit.sizes.tp].name, kPipeline[fit.sizes.pp].name,
      kMicrobatches[fit.sizes.microbatches].name, kFilled[fit.sizes.filled],
      kChunks[fit.sizes.chunks].name, kRecompute[variant.recompute].name,
      kFlag[variant.sp], kFlag[variant.optimizer], kOffload[fit.offload],
      kMemory[variant.memory]);
}

}  // namespace

Output AstraCounts() {
  CountSearch search;
  search.Run();
  Output output;
  output.name = "astra_counts";
  output.table.header = {"model",   "GPUs",
                         "printed", "one batch for all",
                         "ratio",   "a batch for each model",
                         "ratio",   "its batch"};
  output.csv = plots::CsvRow(output.table.header);
  for (std::size_t i = 0; i < kRows; ++i) {
    const Published& row = kTable1[i / kGpus.size()];
    const int printed = row.strategies[i % kGpus.size()];
    output.table.rows.push_back(
        {row.label, fmt::format("{}", kGpus[i % kGpus.size()]),
         fmt::format("{}", printed),
         fmt::format("{:.0f}", search.common.counts[i]),
         fmt::format("{:.2f}", search.common.counts[i] / printed),
         fmt::format("{:.0f}", search.by_model.counts[i]),
         fmt::format("{:.2f}", search.by_model.counts[i] / printed),
         BatchText(search.by_model.batch[i / kGpus.size()])});
    output.csv += plots::CsvRow(output.table.rows.back());
  }
  output.conclusion = fmt::format(
      "{} sets of assumptions were tried with one batch for all models, and of "
      "each with another batch for every model the best: {} explain every row "
      "within 10%. Nearest with one batch ({}): at most a factor of {:.2f} "
      "off, "
      "{} of {} rows exact: {}. Nearest with a batch for each model: at most a "
      "factor of {:.2f} off, {} rows exact: {}.",
      search.tried, search.explained, BatchText(search.common.batch.front()),
      std::exp(search.common.distance), search.common.exact, kRows,
      TextOf(search.common), std::exp(search.by_model.distance),
      search.by_model.exact, TextOf(search.by_model));
  return output;
}

}  // namespace studies
