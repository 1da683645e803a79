#include "trainer/model_constants.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/fakes/temporary_folder.h"

namespace trainer::model_constants_test {

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

}  // namespace trainer::model_constants_test
