#include "trainer/job.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/fakes/temporary_folder.h"
#include "trainer/tests/tiny.h"
#include "trials/workload.h"

namespace trainer::job_test {

using ::testing::HasSubstr;
using testing::TinyJob;

// The message that rejects a job, or "".
std::string Problem(const Job& job) {
  try {
    CheckJob(job);
  } catch (const common::InputError& e) {
    return e.what();
  }
  return "";
}

TEST(CheckJob, NamesWhatTheTrainerLacks) {
  const std::vector<std::pair<std::function<void(trials::Model&)>, std::string>>
      cases = {
          {[](trials::Model& m) { m.kv_rank = 1; },
           "multi-head latent attention"},
          {[](trials::Model& m) { m.qk_norm = true; },
           "norms of queries and keys"},
          {[](trials::Model& m) { m.window = 1; }, "attention to a window"},
          {[](trials::Model& m) { m.parallel_layers = true; },
           "parallel attention"},
          {[](trials::Model& m) { m.norms = 1; }, "without exactly two norms"},
          {[](trials::Model& m) { m.norms = 4; }, "without exactly two norms"},
          {[](trials::Model& m) { m.rotary_share = 0.5; }, "rotated in part"},
          {[](trials::Model& m) { m.shared_ffn_size = 1; }, "shared experts"},
          {[](trials::Model& m) { m.dense_layers = 1; }, "dense blocks before"},
          {[](trials::Model& m) { m.ffn_bias = true; }, "experts with biases"},
          {[](trials::Model& m) { m.router_bias = true; },
           "experts with biases"}};
  const Job job = TinyJob("mixtral");
  EXPECT_EQ(Problem(job), "");
  for (const auto& [change, text] : cases) {
    Job changed = job;
    change(changed.model);
    EXPECT_THAT(Problem(changed), HasSubstr(text));
  }
  Job one_expert = job;
  one_expert.model.experts = one_expert.model.experts_per_token = 1;
  one_expert.model.ffn_bias = true;
  EXPECT_THAT(Problem(one_expert), HasSubstr("experts with biases"));
  // Only experts lack biases.
  EXPECT_TRUE(TinyJob("gpt2").model.ffn_bias);
  EXPECT_EQ(Problem(TinyJob("gpt2")), "");
}

TEST(CheckJob, ASequenceMayHaveAsManyTokensAsTheModelHasPositions) {
  Job job = TinyJob("gpt2");
  job.model.max_positions = job.sequence_length;
  EXPECT_EQ(Problem(job), "");
  job.model.max_positions = job.sequence_length - 1;
  EXPECT_THAT(Problem(job),
              HasSubstr("invalid sequence length 16: the model has "
                        "15 positions"));
  job.model.max_positions = 1;
  EXPECT_THAT(Problem(job), HasSubstr("the model has 1 positions"));
  job.model.max_positions = 0;  // none are learned
  EXPECT_EQ(Problem(job), "");
}

TEST(CheckJob, NamesTheSizeThatDoesNotFit) {
  EXPECT_THAT(Problem(TinyJob("llama", "dp=3")),
              HasSubstr("invalid configuration dp=3"));
  Job job = TinyJob("llama", "tp=2");
  EXPECT_EQ(Problem(job), "");
  job.model.ffn_size = 49;
  EXPECT_THAT(Problem(job),
              HasSubstr("tp must divide the feed-forward size (tp = 2, size = "
                        "49"));
  job.model.head_size = 3;
  EXPECT_THAT(Problem(job), HasSubstr("invalid head size 3"));
}

TEST(Scale, DividesBucketsAsMatrices) {
  Job job = TinyJob("llama");
  job.bucket_unit_bytes = 1 << 20;
  EXPECT_EQ(Scale(job, 1).bucket_unit_bytes, 1 << 20);
  EXPECT_EQ(Scale(job, 1).model, job.model);
  EXPECT_EQ(Scale(job, 0).model, job.model);
  EXPECT_EQ(Scale(job, 2).bucket_unit_bytes, 1 << 18);
  EXPECT_EQ(Scale(job, 2).sequence_length,
            trials::Scaled({.name = "",
                            .model = job.model,
                            .batch_size = job.batch_size,
                            .sequence_length = job.sequence_length},
                           2)
                .sequence_length);
  job.bucket_unit_bytes = 3;
  EXPECT_EQ(Scale(job, 2).bucket_unit_bytes, 1);
}

ModelConstants Read(const std::string& json) {
  const fakes::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "config.json";
  std::ofstream(path) << json;
  return ReadModelConstants(path);
}

void Expect(const std::string& json, double norm_epsilon, double rotary_base) {
  const ModelConstants constants = Read(json);
  EXPECT_DOUBLE_EQ(constants.norm_epsilon, norm_epsilon) << json;
  EXPECT_DOUBLE_EQ(constants.rotary_base, rotary_base) << json;
}

// The defaults of each model's configuration class in transformers.
TEST(ModelConstants, MissingOnesAreThoseOfTheModelsClass) {
  Expect(R"({"model_type": "gpt2"})", 1e-5, 1e4);
  Expect(R"({"model_type": "bert"})", 1e-12, 1e4);
  Expect(R"({"model_type": "vit"})", 1e-12, 1e4);
  Expect(R"({"model_type": "mixtral"})", 1e-5, 1e6);
  Expect(R"({"model_type": "llama"})", 1e-6, 1e4);
  Expect(R"({"model_type": "qwen2"})", 1e-6, 1e4);
}

TEST(ModelConstants, TheFileNamesThemAsTheModelsClassDoes) {
  Expect(R"({"model_type": "gpt2", "layer_norm_epsilon": 0.5})", 0.5, 1e4);
  Expect(R"({"model_type": "bert", "layer_norm_eps": 0.5})", 0.5, 1e4);
  Expect(R"({"model_type": "vit", "layer_norm_eps": 0.5})", 0.5, 1e4);
  Expect(R"({"model_type": "llama", "rms_norm_eps": 0.5, "rope_theta": 7.0})",
         0.5, 7.0);
  Expect(R"({"model_type": "llama", "rope_parameters": {"rope_theta": 7.0}})",
         1e-6, 7.0);
}

TEST(ModelConstants, TheBaseOfRotaryPositionsIsPositive) {
  Expect(R"({"model_type": "llama", "rope_theta": 0.05})", 1e-6, 0.05);
  for (const char* base : {"0", "-1"}) {
    EXPECT_THROW((void)Read(R"({"model_type": "llama", "rope_theta": )" +
                            std::string(base) + "}"),
                 common::InputError);
  }
}

}  // namespace trainer::job_test
