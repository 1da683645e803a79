// What a rank keeps is what the simulator counts for it.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/tests/tiny.h"
#include "trials/simulator/trainer_memory.h"
#include "trials/simulator/trainer_store.h"
#include "trials/simulator/trainer_units.h"

namespace trainer::testing::memory_test {

trials::Workload WorkloadOf(const Job& job) {
  return {.name = job.model.name,
          .model = job.model,
          .batch_size = job.batch_size,
          .sequence_length = job.sequence_length,
          .precision = trials::Precision::kFp32};
}

// Random configurations of a model, a few for each seed.
class MemoryOfRanks
    : public ::testing::TestWithParam<std::tuple<std::string_view, int>> {};

TEST_P(MemoryOfRanks, IsWhatTheSimulatorCountsByRegion) {
  constexpr int kConfigs = 3;
  const auto [type, seed] = GetParam();
  std::mt19937_64 engine(seed);
  for (int i = 0; i < kConfigs; ++i) {
    Job job = TinyJob(type, 2);
    job.bucket_unit_bytes = 1 << 20;
    job.config = DrawConfig(job, engine);
    const TrialResult result = Train(job, CpuPrecision::kFloat);
    ASSERT_EQ(result.reason, EndReason::kNone) << result.message;
    for (const RankResult& rank : result.ranks) {
      if (type == "vit" && job.config.cp > 1 && rank.rank > 0) {
        continue;  // the first rank has the class tokens
      }
      const TrainerLedger ledger =
          TrainerMemory(WorkloadOf(job), job.config,
                        Mesh(job.config, rank.rank).pp_index, Framework());
      const std::string place = std::string(type) + " " +
                                trials::ToString(job.config) + ", rank " +
                                std::to_string(rank.rank);
      EXPECT_EQ(rank.peak_bytes, ledger.total_peak) << place;
      EXPECT_EQ(rank.region_peak_bytes, ledger.peak) << place;
      EXPECT_EQ(rank.at_peak_bytes, ledger.at_peak) << place;
    }
  }
}

// Loads of Mixtral's experts depend on the data.
INSTANTIATE_TEST_SUITE_P(Memory, MemoryOfRanks,
                         ::testing::Combine(::testing::Values("gpt2", "bert",
                                                              "llama", "qwen2",
                                                              "vit"),
                                            ::testing::Range(11, 21)));

// Units of a Llama with 4 heads of 16 columns, of which 2 are key-value heads,
// for 2 sequences of 64 tokens. Blocks of the ledger are multiples of 64
// elements in fp32.
class TrainerUnitsTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kTokens = 128;
  static constexpr std::int64_t kHidden = 64;

  TrainerUnitsTest() {
    trials::Model& m = workload_.model;
    m.layers = 2;
    m.hidden_size = 64;
    m.attention_heads = 4;
    m.kv_heads = 2;
    m.head_size = 16;
    m.ffn_size = 192;
    m.vocab_size = 512;
    m.gated_ffn = true;
    workload_.batch_size = 2;
    workload_.sequence_length = 64;
    workload_.precision = trials::Precision::kFp32;
  }

  [[nodiscard]] TrainerUnits Units() {
    return {workload_, config_, framework_, ledger_};
  }

  // Elements in use, and at the peak since the last call.
  [[nodiscard]] std::int64_t Used(TrainerRegion region) const {
    return ledger_.used[region] / 4;
  }
  [[nodiscard]] std::int64_t Kept() const {
    return Used(TrainerRegion::kActivations);
  }
  [[nodiscard]] std::int64_t Peak(TrainerRegion region) const {
    return ledger_.peak[region] / 4;
  }

  // Of a block: elements that are in use after its forward, with its output,
  // and the peaks of its forward and of its backward.
  struct Elements {
    std::int64_t kept = 0;
    std::int64_t kept_communication = 0;
    std::int64_t forward_workspace = 0;
    std::int64_t forward_communication = 0;
    std::int64_t backward_workspace = 0;
    std::int64_t backward_communication = 0;
    std::int64_t backward_activations = 0;  // beyond what is kept
  };
  [[nodiscard]] Elements Block() {
    ledger_ = {};
    const TrainerUnits units = Units();
    Elements elements;
    TrainerKept kept;
    {
      const TrainerBlock y = units.BlockForward(units.Hidden(), kept);
      elements.kept = Kept();
    }
    elements.kept_communication = Used(TrainerRegion::kCommunication);
    elements.forward_workspace = Peak(TrainerRegion::kWorkspace);
    elements.forward_communication = Peak(TrainerRegion::kCommunication);
    ledger_.peak = ledger_.used;
    const std::int64_t before = Kept();
    {
      const TrainerBlock dx = units.BlockBackward(units.Hidden(), kept);
      EXPECT_EQ(ledger_.total, dx.empty() ? 0 : 4 * Kept());
    }
    EXPECT_EQ(ledger_.total, 0);
    elements.backward_workspace = Peak(TrainerRegion::kWorkspace);
    elements.backward_communication = Peak(TrainerRegion::kCommunication);
    elements.backward_activations = Peak(TrainerRegion::kActivations) - before;
    return elements;
  }

  trials::Workload workload_;
  trials::ParallelConfig config_;
  Framework framework_;
  TrainerLedger ledger_;
};

constexpr std::int64_t kHalf = 2 * 128 + 2 * 128 * 64;  // statistics, in, norm

// Attention: q, k and v, result, probabilities; the gated layer: gate and up,
// and their product. Backward of the gated layer needs gradients of both, and
// of attention those of the result and of q, k and v, and two blocks of 64
// rows of scores.
TEST_F(TrainerUnitsTest, ABlockKeepsWhatItsBackwardNeeds) {
  const std::int64_t attention =
      kHalf + kTokens * (64 + 2 * 32) + kTokens * 64 + kTokens * 4 * 64;
  Elements block = Block();
  EXPECT_EQ(block.kept,
            attention + kHalf + kTokens * (384 + 192) + kTokens * kHidden);
  EXPECT_EQ(block.forward_workspace, 2 * 64 * 64);
  EXPECT_EQ(block.backward_workspace, kTokens * (192 + 384));
  EXPECT_EQ(block.backward_activations, 2 * kTokens * kHidden);
  EXPECT_EQ(block.forward_communication, 0);
  EXPECT_EQ(block.backward_communication, 0);
  workload_.model.ffn_size = 32;
  workload_.model.gated_ffn = false;
  block = Block();
  EXPECT_EQ(block.kept,
            attention + kHalf + kTokens * (32 + 32) + kTokens * kHidden);
  EXPECT_EQ(block.backward_workspace,
            kTokens * 64 + kTokens * (64 + 2 * 32) + 2 * 64 * 64);
  // A norm after the layer needs the same.
  workload_.model.embedding_norm = true;
  EXPECT_EQ(Block().kept, block.kept);
  EXPECT_EQ(Block().backward_workspace, block.backward_workspace);
  EXPECT_EQ(Block().backward_activations, 2 * kTokens * kHidden);
}

TEST_F(TrainerUnitsTest, RecomputationKeepsTheInputOrNoProbabilities) {
  const std::int64_t whole = Block().kept;
  config_.grad_checkpoint = kRecomputeSelective;
  EXPECT_EQ(Block().kept, whole - kTokens * 4 * 64);
  config_.grad_checkpoint = kRecomputeFull;
  EXPECT_EQ(Block().kept, 2 * kTokens * kHidden);
}

// Half of the tokens of each sequence; keys and values of all are gathered.
TEST_F(TrainerUnitsTest, ContextParallelRanksGatherKeysAndValues) {
  config_.cp = 2;
  const std::int64_t tokens = kTokens / 2;
  const std::int64_t keys = kTokens * 2 * 32;
  workload_.model.ffn_size = 32;
  const Elements block = Block();
  EXPECT_EQ(block.kept, kHalf + tokens * 64 + keys + tokens * 64 +
                            tokens * 4 * 64 + tokens * (64 + 32) +
                            tokens * kHidden);
  EXPECT_EQ(block.forward_communication, keys);
  EXPECT_EQ(block.backward_communication, keys);
  EXPECT_EQ(block.backward_workspace, 2 * tokens * 64 + keys + 2 * 64 * 64);
}

// Two ranks have 2 heads, half of the columns and half of the tokens outside.
TEST_F(TrainerUnitsTest, SequenceParallelRanksGatherAllTokens) {
  config_.tp = config_.sp = 2;
  const std::int64_t shard = kTokens / 2;
  const std::int64_t all = kTokens * kHidden;
  const Elements block = Block();
  EXPECT_EQ(block.kept, 2 * (2 * shard + 2 * shard * kHidden) +
                            kTokens * (32 + 2 * 16 + 32 + 2 * 64 + 192 + 96) +
                            shard * kHidden);
  EXPECT_EQ(block.forward_workspace, all + 2 * 64 * 64);
  EXPECT_EQ(block.backward_workspace, 2 * all + kTokens * (96 + 192));
  // Without sequence parallelism nothing is gathered.
  config_.sp = 1;
  EXPECT_EQ(Block().forward_workspace, 2 * 64 * 64);
  EXPECT_EQ(Block().backward_workspace, kTokens * (96 + 192));
}

// Every token goes to 2 of 4 experts: their numbers and places, weights, sorted
// copies before and after the experts.
TEST_F(TrainerUnitsTest, ExpertsKeepSortedCopies) {
  workload_.model.experts = 4;
  workload_.model.experts_per_token = 2;
  framework_.busiest_expert = 1.25;
  const std::int64_t pairs = 2 * kTokens;
  const std::int64_t attention =
      kHalf + kTokens * (64 + 2 * 32) + kTokens * 64 + kTokens * 4 * 64;
  const Elements block = Block();
  EXPECT_EQ(block.kept, attention + kHalf + 3 * pairs + pairs * (384 + 192) +
                            kTokens * kHidden);
  EXPECT_EQ(block.kept_communication, 2 * pairs * kHidden);
  EXPECT_EQ(block.forward_communication, 2 * pairs * kHidden);
  EXPECT_EQ(block.backward_communication, 4 * pairs * kHidden);
  // One of four experts has 1.25 / 4 of the copies.
  EXPECT_EQ(block.backward_workspace, kTokens * 4 + 80 * (192 + 384));
}

// Two of four experts on each of two ranks, of which one has 1.5 times its
// share.
TEST_F(TrainerUnitsTest, ExpertRanksKeepTheRowsTheyReceive) {
  workload_.model.experts = 4;
  workload_.model.experts_per_token = 2;
  workload_.batch_size = 4;
  config_.dp = config_.ep = 2;
  framework_.busiest_expert = 1.25;
  framework_.expert_imbalance = 1.5;
  const std::int64_t pairs = 2 * kTokens;
  const std::int64_t rows = 384;
  const std::int64_t attention =
      kHalf + kTokens * (64 + 2 * 32) + kTokens * 64 + kTokens * 4 * 64;
  const Elements block = Block();
  EXPECT_EQ(block.kept, attention + kHalf + 3 * pairs + rows + rows * kHidden +
                            rows * (384 + 192) + pairs * kHidden +
                            kTokens * kHidden);
  EXPECT_EQ(block.kept_communication, 0);
  EXPECT_EQ(block.forward_communication, 2 * rows * kHidden);
  EXPECT_EQ(block.backward_communication, 2 * rows * kHidden);
  EXPECT_EQ(block.backward_workspace, kTokens * 4 + 160 * (192 + 384));
  config_.tp = config_.sp = 2;  // the copies are of all tokens
  EXPECT_EQ(Block().forward_communication, 2 * rows * kHidden);
}

TEST_F(TrainerUnitsTest, ABatchHasTokensOrPatchesAndLabels) {
  {
    const auto batch = Units().Batch();
    EXPECT_EQ(Kept(), 2 * kTokens);
  }
  workload_.model.patch_size = 12;
  {
    const auto batch = Units().Batch();
    EXPECT_EQ(Kept(), kTokens + kTokens * 12);
  }
  EXPECT_EQ(Peak(TrainerRegion::kWorkspace), kTokens * 12);
}

TEST_F(TrainerUnitsTest, ConstantsAreTheLossAndTheAnglesOfPositions) {
  {
    const auto constants = Units().Constants();
    EXPECT_EQ(Used(TrainerRegion::kWorkspace), 64 + 64 * 16);
  }
  workload_.model.max_positions = 64;
  const auto constants = Units().Constants();
  EXPECT_EQ(Used(TrainerRegion::kWorkspace), 64);  // a block of 256 bytes
}

TEST_F(TrainerUnitsTest, AnEmbeddingKeepsItsNorm) {
  const auto kept_elements = [&] {
    TrainerKept kept;
    const TrainerUnits units = Units();
    const TrainerBlock y = units.EmbeddingForward(kept);
    const std::int64_t elements = Kept();
    units.EmbeddingBackward(units.Hidden(), kept);
    return elements;
  };
  EXPECT_EQ(kept_elements(), kTokens * kHidden);
  EXPECT_EQ(Peak(TrainerRegion::kWorkspace), 0);
  workload_.model.embedding_norm = true;
  EXPECT_EQ(kept_elements(), 2 * kTokens * kHidden + 2 * kTokens);
  workload_.model.embedding_norm = false;
  config_.tp = config_.sp = 2;
  EXPECT_EQ(kept_elements(), kTokens / 2 * kHidden);
  EXPECT_EQ(Peak(TrainerRegion::kWorkspace), kTokens * kHidden);
}

// The logits of a vocabulary, or of the classes of two images.
TEST_F(TrainerUnitsTest, AHeadKeepsItsInputItsNormAndTheLogits) {
  struct Head {
    std::int64_t kept, workspace, activations;
  };
  const auto head = [&] {
    const TrainerUnits units = Units();
    TrainerKept kept;
    units.HeadForward(units.Hidden(), kept);
    Head result{Kept(), 0, 0};
    ledger_.peak = ledger_.used;
    { const TrainerBlock dx = units.HeadBackward(kept); }
    result.workspace = Peak(TrainerRegion::kWorkspace);
    result.activations = Peak(TrainerRegion::kActivations) - result.kept;
    EXPECT_EQ(ledger_.total, 0);
    return result;
  };
  workload_.model.final_norm = false;
  EXPECT_EQ(head().kept, kTokens * kHidden + kTokens * 512);
  EXPECT_EQ(head().workspace, 3 * kTokens);  // maxima, and two sums
  EXPECT_EQ(head().activations, kTokens * kHidden);
  workload_.model.final_norm = true;
  EXPECT_EQ(head().kept, 2 * kTokens * kHidden + 2 * kTokens + kTokens * 512);
  config_.tp = 2;
  EXPECT_EQ(head().kept, 2 * kTokens * kHidden + 2 * kTokens + kTokens * 256);
  config_.sp = 2;
  EXPECT_EQ(head().kept, kTokens * kHidden + kTokens + kTokens * 256);
  EXPECT_EQ(head().workspace, kTokens * kHidden);
  config_ = {};
  workload_.model.pooler = true;
  EXPECT_EQ(head().kept, 5 * kTokens * kHidden + 4 * kTokens + kTokens * 512);
  EXPECT_EQ(head().workspace, 2 * kTokens * kHidden);
  workload_.model.pooler = workload_.model.final_norm = false;
  workload_.model.classes = 64;
  EXPECT_EQ(head().kept, kTokens * kHidden + 2 * 64);
  // Rows of the two images, and those spread over all tokens.
  EXPECT_EQ(head().activations, 2 * kHidden + kTokens * kHidden);
  // Labels, maxima and sums of two images are a block of 256 bytes each.
  EXPECT_EQ(head().workspace, 3 * 64);
}

TEST_F(TrainerUnitsTest, AModelMayHaveOneExpertAndOneClass) {
  workload_.model.experts = workload_.model.experts_per_token = 1;
  const std::int64_t attention =
      kHalf + kTokens * (64 + 2 * 32) + kTokens * 64 + kTokens * 4 * 64;
  EXPECT_EQ(Block().kept, attention + kHalf + 3 * kTokens +
                              kTokens * (384 + 192) + kTokens * kHidden);
  // Attention, its output, two norms, the router and two matrices of the
  // expert.
  EXPECT_EQ(Units().BlockParameters().size(), 2U + 2 + 1 + 2);
  workload_.model.classes = 1;
  workload_.model.final_norm = false;
  ledger_ = {};
  TrainerKept kept;
  const TrainerUnits units = Units();
  units.HeadForward(units.Hidden(), kept);
  EXPECT_EQ(Kept(), kTokens * kHidden + 64);  // two logits
  EXPECT_EQ(Peak(TrainerRegion::kWorkspace), 2 * kHidden);
}

// Tensor-parallel ranks see a part of the tokens: of norms with sequence
// parallelism, and of the router's gradients in any case.
TEST_F(TrainerUnitsTest, GradientsOfPartsOfTheTokensAreSummed) {
  workload_.model.experts = 4;
  const auto partial = [&] {
    int count = 0;
    for (const TrainerParameter& parameter : Units().BlockParameters()) {
      count += parameter.share == TrainerShare::kPartial ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(partial(), 0);
  config_.tp = 2;
  EXPECT_EQ(partial(), 1);  // the router
  config_.sp = 2;
  EXPECT_EQ(partial(), 1 + 2);  // and two norms
}

// A table of 512 x 64 weights over 1000 ranks: 33 weights each, 33000 in all,
// in blocks of 64.
TEST_F(TrainerUnitsTest, ZeroPadsBucketsToPartsOfEqualSize) {
  config_.dp = 1000;
  const auto states = [&](int zero_stage) {
    config_.zero_stage = zero_stage;
    ledger_ = {};
    const TrainerUnits units = Units();
    TrainerStore store(units, config_);
    store.AddUnit(TrainerUnitKind::kEmbedding, 0);
    store.Allocate();
    return std::vector<std::int64_t>{Used(TrainerRegion::kParameters),
                                     Used(TrainerRegion::kGradients),
                                     Used(TrainerRegion::kOptimizer)};
  };
  using States = std::vector<std::int64_t>;
  EXPECT_EQ(states(0), (States{32768, 32768, 3 * 32768}));
  EXPECT_EQ(states(1), (States{33024, 33024, 3 * 64}));
  EXPECT_EQ(states(2), (States{33024, 64, 3 * 64}));
  EXPECT_EQ(states(3), (States{64, 64, 3 * 64}));
  // 32768 is 7 x 4681 + 1, and a multiple of 8.
  config_.dp = 7;
  EXPECT_EQ(states(1)[0], 32768 + 64);
  config_.dp = 8;
  EXPECT_EQ(states(1)[0], 32768);
}

// Tables of 0.5 MiB, of the embedding and of the head.
TEST_F(TrainerUnitsTest, ABucketHoldsAsManyParametersAsFit) {
  trials::Model& m = workload_.model;
  m.final_norm = false;
  config_.zero_bucket_mb = config_.dp_bucket_mb = 8;
  const auto buckets = [&](int vocabulary, int zero_stage) {
    m.vocab_size = vocabulary;
    config_.zero_stage = zero_stage;
    (zero_stage == 0 ? config_.dp_bucket_mb : config_.zero_bucket_mb) = 1;
    const TrainerUnits units = Units();
    TrainerStore store(units, config_);
    store.AddUnit(TrainerUnitKind::kEmbedding, 0);
    store.AddUnit(TrainerUnitKind::kHead, 0);
    const auto& of_head = store.units()[1].buckets;
    EXPECT_EQ(of_head.size(), 1U);
    std::vector<std::int64_t> elements = {of_head.front()->elements};
    if (of_head.front() != store.units()[0].buckets.front()) {
      elements.insert(elements.begin(),
                      store.units()[0].buckets.front()->elements);
    }
    config_.zero_bucket_mb = config_.dp_bucket_mb = 8;
    return elements;
  };
  using Sizes = std::vector<std::int64_t>;
  for (const int zero_stage : {0, 1, 3}) {
    EXPECT_EQ(buckets(2048, zero_stage), (Sizes{2 * 2048 * 64}));
    EXPECT_EQ(buckets(2049, zero_stage), (Sizes{2049 * 64, 2049 * 64}));
  }
  // Which both use where they share it.
  m.tied_embeddings = true;
  EXPECT_EQ(buckets(2049, 1), (Sizes{2049 * 64}));
}

// Gradients of experts are reduced over the ranks that hold the same ones.
TEST_F(TrainerUnitsTest, ZeroSplitsExpertsOverTheRanksThatShareThem) {
  workload_.model.experts = 4;
  workload_.model.experts_per_token = 2;
  workload_.batch_size = 16;
  config_.dp = 4;
  config_.cp = 2;
  config_.ep = 2;
  config_.zero_stage = 3;
  const TrainerUnits units = Units();
  TrainerStore store(units, config_);
  store.AddUnit(TrainerUnitKind::kBlock, 0);
  store.Allocate();
  for (const TrainerStore::Bucket* bucket : store.units()[0].buckets) {
    EXPECT_EQ(bucket->replicas, bucket->share == TrainerShare::kExpert ? 4 : 8);
  }
}

// ZeRO 3 gathers the two tables in turn, with overlap the next one as well; a
// bucket stays where the next unit needs it.
TEST_F(TrainerUnitsTest, ZeroGathersWhatAUnitAndTheNextOneNeed) {
  workload_.model.vocab_size = 4096;  // a bucket of 1 MiB for each table
  workload_.model.final_norm = false;
  config_.zero_bucket_mb = 1;
  constexpr std::int64_t kTable = 4096 * 64;
  for (const bool overlap : {false, true}) {
    config_.overlap_zero_allgather = overlap;
    for (const int zero_stage : {2, 3}) {
      config_.zero_stage = zero_stage;
      ledger_ = {};
      const TrainerUnits units = Units();
      TrainerStore store(units, config_);
      store.AddUnit(TrainerUnitKind::kEmbedding, 0);
      store.AddUnit(TrainerUnitKind::kHead, 0);
      store.Allocate();
      const auto gathered = [&] {
        return Used(TrainerRegion::kCommunication) / kTable;
      };
      store.Acquire(0, 1);
      EXPECT_EQ(gathered(), zero_stage < 3 ? 0 : overlap ? 2 : 1);
      store.Release(0, 1);
      EXPECT_EQ(gathered(), zero_stage < 3 ? 0 : overlap ? 1 : 0);
      store.Acquire(1, std::nullopt);
      EXPECT_EQ(gathered(), zero_stage < 3 ? 0 : 1);
      store.Release(1, 1);
      EXPECT_EQ(gathered(), zero_stage < 3 ? 0 : 1);
      store.Release(1, std::nullopt);
      EXPECT_EQ(gathered(), 0);
    }
  }
}

// Gradients of ZeRO 2 and 3 are freed when they are reduced; with overlap of
// several ranks, the last one is still on its way.
TEST_F(TrainerUnitsTest, ZeroReducesOneBucketAtATime) {
  workload_.model.vocab_size = 4096;
  workload_.model.final_norm = false;
  config_.zero_bucket_mb = 1;
  constexpr std::int64_t kTable = 4096 * 64;
  for (const int dp : {1, 2}) {
    for (const bool overlap : {false, true}) {
      for (const int zero_stage : {1, 2, 3}) {
        config_.dp = dp;
        config_.overlap_zero_comm = overlap;
        config_.zero_stage = zero_stage;
        ledger_ = {};
        const TrainerUnits units = Units();
        TrainerStore store(units, config_);
        store.AddUnit(TrainerUnitKind::kEmbedding, 0);
        store.AddUnit(TrainerUnitKind::kHead, 0);
        store.Allocate();
        const auto buckets = [&] {
          return Used(TrainerRegion::kCommunication) / kTable;
        };
        const int own = zero_stage < 2 ? 0 : 1;
        const int under_way = dp > 1 && overlap ? own : 0;
        for (int microbatch = 0; microbatch < 2; ++microbatch) {
          store.BeginBackward(1);
          // The embedding's of the microbatch before.
          EXPECT_EQ(buckets(), own + (microbatch > 0 ? under_way : 0));
          store.EndBackward(1);
          EXPECT_EQ(buckets(), under_way);
          store.BeginBackward(0);
          EXPECT_EQ(buckets(), own + under_way);
          store.EndBackward(0);
          EXPECT_EQ(buckets(), under_way);
        }
        store.FinishReduces(0);
        EXPECT_EQ(buckets(), 0);
      }
    }
  }
}

// A bucket that both units use is reduced when both are done; the next
// microbatch waits for it.
TEST_F(TrainerUnitsTest, ASharedBucketIsReducedAfterItsLastUnit) {
  workload_.model.tied_embeddings = true;
  workload_.model.vocab_size = 4096;
  workload_.model.final_norm = false;
  config_.dp = 2;
  config_.zero_stage = 2;
  config_.overlap_zero_comm = true;
  const TrainerUnits units = Units();
  TrainerStore store(units, config_);
  store.AddUnit(TrainerUnitKind::kEmbedding, 0);
  store.AddUnit(TrainerUnitKind::kHead, 0);
  store.Allocate();
  const TrainerStore::Bucket& bucket = *store.units()[0].buckets.front();
  EXPECT_EQ(&bucket, store.units()[1].buckets.front());
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    store.BeginBackward(1);
    store.EndBackward(1);
    EXPECT_FALSE(bucket.reducing);
    EXPECT_EQ(bucket.pending, 1U);
    store.BeginBackward(0);
    EXPECT_EQ(Used(TrainerRegion::kCommunication), 4096 * 64);
    store.EndBackward(0);
    EXPECT_TRUE(bucket.reducing);
    EXPECT_EQ(bucket.pending, 2U);
  }
}

// Only a pipeline interleaves chunks.
TEST_F(TrainerUnitsTest, OneStageHasOneChunk) {
  workload_.batch_size = 8;
  config_.microbatches = 4;
  const TrainerLedger whole = TrainerMemory(workload_, config_, 0, framework_);
  config_.model_chunks = 2;
  const TrainerLedger chunks = TrainerMemory(workload_, config_, 0, framework_);
  EXPECT_EQ(chunks.peak, whole.peak);
  EXPECT_EQ(chunks.at_peak, whole.at_peak);
}

TEST(TrainerUnits, ParametersAreThoseOfTheModel) {
  for (const std::string_view type : kModels) {
    const Job job = TinyJob(type);
    const trials::Workload workload = WorkloadOf(job);
    const trials::ParallelConfig config;
    const Framework framework;
    TrainerLedger ledger;
    const TrainerUnits units(workload, config, framework, ledger);
    const auto sum = [](const std::vector<TrainerParameter>& parameters) {
      std::int64_t elements = 0;
      for (const TrainerParameter& parameter : parameters) {
        elements += parameter.elements;
      }
      return elements;
    };
    std::int64_t elements = sum(units.EmbeddingParameters()) +
                            job.model.layers * sum(units.BlockParameters()) +
                            sum(units.HeadParameters());
    if (units.tied()) {
      elements -= units.Table().elements;
    }
    // BERT's head has a norm after its dense layer and a bias, ViT no pooler.
    const std::int64_t extra =
        job.model.pooler ? 2 * job.model.hidden_size + job.model.vocab_size : 0;
    EXPECT_EQ(elements, trials::ParameterCount(job.model) + extra) << type;
  }
}

}  // namespace trainer::testing::memory_test
