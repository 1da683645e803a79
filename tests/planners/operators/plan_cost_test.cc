#include "planners/operators/plan_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/error.h"
#include "common/files.h"
#include "common/json.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"

namespace planners::plan_cost_test {

// Two operators that repeat between a head and a tail, with round numbers.
constexpr const char* kTable =
    "op_name,mbs,tp,algo,forward-compute,backward-compute,input_size,"
    "output_size,weights,activations,fwd_reserved,bwd_reserved\n"
    "encoder-embedding,1,1,0,100,200,1,4,10,8,2,6\n"
    "enc-1st-layernorm,1,1,0,10,20,4,4,0,16,0,3\n"
    "enc-MLP-GEMM-1,1,1,0,1000,2000,4,4,20,32,5,4\n"
    "gpt-post-process,1,1,0,300,600,4,0,10,64,9,9\n"
    "encoder-embedding,1,2,0,50,100,1,4,5,8,2,6\n"
    "enc-1st-layernorm,1,2,0,10,20,4,4,0,16,0,3\n"
    "enc-MLP-GEMM-1,1,2,0,600,1100,4,2,10,16,5,4\n"
    "gpt-post-process,1,2,0,200,350,4,0,5,32,9,9\n";
constexpr const char* kLinks =
    "p2p_inter_node,1,2,4,8\np2p_inter_node,1,2,3,4\n"
    "p2p_intra_node,1,2,4,8\np2p_intra_node,10,20,30,40\n"
    "prim_tiny_all_gather_2gpus,data_size(MB),time(ms)\n"
    "prim_tiny_all_gather_2gpus,4,0.5\n";

class PlanCostTest : public testing::Test {
 protected:
  std::filesystem::path Write(const std::string& name,
                              const std::string& text) {
    std::ofstream(folder_.path() / name) << text;
    return folder_.path() / name;
  }
  OperatorModel Tiny(const OperatorJob& job) {
    return {OperatorTable::Read(Write("table.csv", kTable), "tiny"),
            LinkTable::Read(Write("links.csv", kLinks), "tiny"), job};
  }

  fakes::TemporaryFolder folder_;
};

OperatorPlan Plan(std::vector<int> first, const std::string& recomputed,
                  int tp_log2 = 0) {
  OperatorPlan plan;
  plan.first = std::move(first);
  for (const char digit : recomputed) {
    plan.choices.push_back(
        {.tp_log2 = static_cast<std::uint8_t>(tp_log2),
         .recomputed = static_cast<std::uint8_t>(digit == '1' ? 1 : 0)});
  }
  return plan;
}

TEST_F(PlanCostTest, LayersRepeatBetweenHeadAndTail) {
  const OperatorModel model = Tiny({.layers = 3, .batch = 4});
  EXPECT_EQ(model.operators(), 1 + 3 * 2 + 1);
}

TEST_F(PlanCostTest, LayersNeedOperatorsThatRepeat) {
  const char* table =
      "op_name,mbs,tp,algo,forward-compute,backward-compute,input_size,"
      "output_size,weights,activations,fwd_reserved,bwd_reserved\n"
      "gpt-post-process,1,1,0,300,600,4,0,10,64,9,9\n";
  const auto operators = [&](int layers) {
    return OperatorModel(OperatorTable::Read(Write("table.csv", table), "tiny"),
                         LinkTable::Read(Write("links.csv", kLinks), "tiny"),
                         {.layers = layers})
        .operators();
  };
  EXPECT_EQ(operators(1), 1);
  EXPECT_THROW((void)operators(2), common::InputError);
  EXPECT_THROW((void)operators(3), common::InputError);
}

// Worked by hand: stage 1 is the embedding and one layer, stage 2 the other
// layer and the head.
TEST_F(PlanCostTest, TimeIsThatOfEquation2) {
  const OperatorModel model =
      Tiny({.layers = 2, .batch = 8, .gpus = 2, .gpus_per_node = 8});
  const PlanCost cost = model.Cost(Plan({0, 3, 6}, "000110"));
  // Transfers: 1 MB in and 4 MB out; 4 MB uses the bandwidth of 2 MB, 20 GB/s.
  const double first = 0.3 + 0.03 + 3.0 + 1 / 10.0 + 4 / 20.0;
  // Recomputed: the layer (10 + 1000 us). Input 4 MB, no output.
  const double second = 0.03 + 3.0 + 0.9 + 1.01 + 4 / 20.0;
  EXPECT_NEAR(cost.stages[0].total_ms(), first, 1e-9);
  EXPECT_NEAR(cost.stages[1].total_ms(), second, 1e-9);
  EXPECT_NEAR(cost.iteration_ms, first + second + 7 * second, 1e-9);
}

TEST_F(PlanCostTest, RecomputationKeepsTheLayersInputOnly) {
  const OperatorModel model =
      Tiny({.layers = 2, .batch = 8, .gpus = 1, .gpus_per_node = 8});
  const PlanCost cost = model.Cost(Plan({0, 6}, "011110"));
  // Kept: embedding 8, the product of the first layer as the input of the
  // second one, that of the second one (its successor is not recomputed), head
  // 64. While a layer is recomputed, its norm and product exist: 16 + 32.
  const double kept = 1 + 8 + 32 + 32 + 64;
  EXPECT_NEAR(cost.memory_mb, 8 * 60 + kept + 48 + 60, 1e-9);
}

// The table for tp = 2 with two sequences as well, one product in its other
// variant, and both collectives of two GPUs.
class ConversionTest : public PlanCostTest {
 protected:
  OperatorModel TwoSequences() {
    std::string table = kTable;
    for (const char* row : {"encoder-embedding,2,2,0,50,100,1,4,5,8,2,6\n",
                            "enc-1st-layernorm,2,2,0,10,20,4,4,0,16,0,3\n",
                            "enc-MLP-GEMM-1,2,2,0,600,1100,4,2,10,16,5,4\n",
                            "gpt-post-process,2,2,0,200,350,4,0,5,32,9,9\n",
                            "enc-MLP-GEMM-1,2,2,1,700,1200,4,2,10,16,5,4\n",
                            "enc-MLP-GEMM-1,2,2,2,700,1200,4,2,10,16,5,4\n"}) {
      table += row;
    }
    return {OperatorTable::Read(Write("table.csv", table), "tiny"),
            LinkTable::Read(
                Write("links.csv", std::string(kLinks) +
                                       "prim_tiny_all_to_all_2gpus,4,0.25\n"),
                "tiny"),
            {.layers = 1, .batch = 8, .gpus = 2, .gpus_per_node = 8}};
  }
};

constexpr OperatorChoice kData = {0, 1};
constexpr OperatorChoice kTensor = {1, 0};

// Gathering takes 0.5 ms, in one of both directions; an exchange takes 0.25 ms
// in each.
TEST_F(ConversionTest, TakesTheTimeOfItsCollectives) {
  const OperatorModel model = TwoSequences();
  EXPECT_EQ(model.ConversionUs(1, 2, kData, kData), 0.0);
  EXPECT_EQ(model.ConversionUs(1, 2, kTensor, kTensor), 0.0);
  EXPECT_EQ(model.ConversionUs(1, 2, kData, kTensor), 500.0);
  EXPECT_EQ(model.ConversionUs(1, 2, kTensor, kData), 500.0);
  EXPECT_EQ(model.ConversionUs(3, 2, kTensor, kData), 500.0);
  // From copies to the split input of the other variant.
  EXPECT_EQ(model.ConversionUs(2, 2, kTensor, {1, 0, 1}), 500.0);
  // Further variants have the layouts of the other one.
  EXPECT_EQ(model.ConversionUs(2, 2, kTensor, {1, 0, 2}), 500.0);
  EXPECT_EQ(model.ConversionUs(3, 2, {1, 0, 2}, kTensor), 0.0);
  // The other variant leaves the copies that the head takes.
  EXPECT_EQ(model.ConversionUs(3, 2, {1, 0, 1}, kTensor), 0.0);
}

// Megatron-LM's split needs no conversion inside a layer; a change of tp for dp
// gathers copies, or moves features to sequences.
TEST(LayoutTest, ConversionsFollowTheLayouts) {
  const Place copies{Layout::kReplicated, 4, 1};
  EXPECT_FALSE(Convert(copies, copies).needed);
  const Conversion split = Convert(copies, {Layout::kReplicated, 2, 2});
  EXPECT_EQ(split.forward, Collective::kSplit);
  EXPECT_EQ(split.backward, Collective::kAllGather);
  EXPECT_EQ(split.ranks, 2);
  const Conversion gather = Convert({Layout::kReplicated, 1, 4}, copies);
  EXPECT_EQ(gather.forward, Collective::kAllGather);
  EXPECT_EQ(gather.backward, Collective::kSplit);
  EXPECT_EQ(gather.ranks, 4);
  const Conversion moved =
      Convert({Layout::kColumns, 4, 1}, {Layout::kColumns, 2, 2});
  EXPECT_EQ(moved.forward, Collective::kAllToAll);
  EXPECT_EQ(moved.ranks, 2);
  EXPECT_FALSE(Convert({Layout::kAny, 1, 1}, copies).needed);
}

TEST_F(PlanCostTest, UnprofiledChoicesAreInfinite) {
  const OperatorModel model =
      Tiny({.layers = 1, .batch = 8, .gpus = 4, .gpus_per_node = 8});
  EXPECT_TRUE(std::isinf(model.Cost(Plan({0, 4}, "0000", 2)).iteration_ms));
}

// The file that Aceso's program writes and its runtime trains.
struct PlanFile {
  OperatorPlan plan;
  int batch = 0;
};
PlanFile ReadPlan(const std::filesystem::path& path) {
  const common::Json json =
      common::ParseJson(common::ReadFile(path), path.string());
  PlanFile file{.batch = json.at("global_batch_size").get<int>()};
  file.plan.micro_batch = json.at("micro_batch_size").get<int>();
  for (std::size_t s = 0; s < json.at("recompute_ops").size(); ++s) {
    const auto list = [&](const char* key) {
      return json.at(key)[s].get<std::vector<int>>();
    };
    const std::vector<int> tp = list("model_parallel_size_of_each_op");
    const std::vector<int> dp = list("data_parallel_size_of_each_op");
    const std::vector<int> variant = list("algo_of_each_op");
    const std::vector<int> recomputed = list("recompute_ops");
    std::vector<OperatorChoice> choices;
    for (std::size_t op = 0; op < tp.size(); ++op) {
      choices.push_back(
          OperatorChoice::Of(tp[op], dp[op], variant[op], recomputed[op] != 0));
    }
    file.plan.Append(static_cast<int>(file.plan.choices.size()), choices);
  }
  file.plan.first.push_back(static_cast<int>(file.plan.choices.size()));
  return file;
}

// The estimates that Aceso's program prints for these plans: the first three
// are in its artifact, the others come from running its search.
struct Published {
  const char* plan;
  const char* model;
  int layers;
  int gpus;
  double seconds;
  double memory_mb;
};

class PublishedPlans : public testing::TestWithParam<Published> {};

TEST_P(PublishedPlans, AreEstimatedAsByTheirProgram) {
  const char* data = std::getenv("OPPA_DATA");
  if (data == nullptr) {
    GTEST_SKIP() << "OPPA_DATA is not set";
  }
  const std::filesystem::path folder(std::string(data) + "/published");
  const Published& published = GetParam();
  const PlanFile file =
      ReadPlan(fakes::SourceFolder() / "tests/planners/operators/plans" /
               (std::string(published.plan) + ".json"));
  const OperatorModel model(
      OperatorTable::Read(folder / "aceso_v100_op_profiles.csv",
                          published.model),
      LinkTable::Read(folder / "aceso_v100_collectives.csv", published.model),
      {.layers = published.layers,
       .batch = file.batch,
       .gpus = published.gpus,
       .gpus_per_node = std::min(8, published.gpus),
       .copies = published.layers > 1 ? StateCopies{2, 4} : StateCopies{0, 2}});
  const PlanCost cost = model.Cost(file.plan);
  EXPECT_NEAR(cost.iteration_ms * 1e-3, published.seconds,
              1e-3 * published.seconds);
  EXPECT_NEAR(cost.memory_mb, published.memory_mb, 1e-2 * published.memory_mb);
}

INSTANTIATE_TEST_SUITE_P(
    Aceso, PublishedPlans,
    testing::ValuesIn(std::vector<Published>{
        {"gpt_350M-1", "gpt_350M", 24, 1, 200.71, 19712.64},
        {"resnet_500M-1", "resnet_500M", 1, 1, 66.986, 19951.41},
        {"t5_770M-1", "t5_770M", 24, 1, 322.605, 23484.97},
        {"gpt_1_3B-4-4stages", "gpt_1_3B", 24, 4, 101.185, 26432.62},
        {"gpt_1_3B-8-8stages", "gpt_1_3B", 24, 8, 52.878, 27808.56},
        {"gpt_6_7B-16-8stages", "gpt_6_7B", 32, 16, 91.458, 27904.86},
        {"gpt_13B-32-8stages", "gpt_13B", 40, 32, 86.681, 27881.19},
        {"gpt_13B-32-mixed", "gpt_13B", 40, 32, 91.922, 42362.24}}),
    [](const auto& plan) {
      std::string name = plan.param.plan;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace planners::plan_cost_test
