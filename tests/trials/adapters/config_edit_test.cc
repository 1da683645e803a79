#include "trials/adapters/config_edit.h"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace trials {
namespace {

using Type = ConfigValue::Type;

ConfigValue Number(const std::string& text) { return {Type::kNumber, text}; }

const std::string kToml =
    "# a job\n"
    "[training]\n"
    "seq_len = 2048  # tokens\n"
    "dataset = \"c4\"\n"
    "\n"
    "[parallelism]\n"
    "tensor_parallel_degree = 1\n";

TEST(ConfigEdit, ChangesOneValueOfTomlAndKeepsTheRest) {
  EXPECT_EQ(SetConfigKey(
                ConfigFormat::kToml, kToml, "training.seq_len", Number("4096")),
            "# a job\n"
            "[training]\n"
            "seq_len = 4096  # tokens\n"
            "dataset = \"c4\"\n"
            "\n"
            "[parallelism]\n"
            "tensor_parallel_degree = 1\n");
}

TEST(ConfigEdit, AddsKeysAndTablesOfToml) {
  std::string text =
      SetConfigKey(ConfigFormat::kToml, kToml, "training.steps", Number("10"));
  EXPECT_EQ(GetConfigKey(ConfigFormat::kToml, text, "training.steps"), "10");
  EXPECT_NE(text.find("dataset = \"c4\"\nsteps = 10\n\n[parallelism]"),
            std::string::npos);
  text = SetConfigKey(ConfigFormat::kToml,
                      text,
                      "activation_checkpoint.mode",
                      {Type::kString, "full"});
  EXPECT_TRUE(text.ends_with("\n[activation_checkpoint]\nmode = \"full\"\n"));
  EXPECT_EQ(
      GetConfigKey(ConfigFormat::kToml, text, "activation_checkpoint.mode"),
      "full");
}

const std::string kYaml =
    "model:\n"
    "  ddp_bucket_cap_mb: 25\n"
    "  model_config:\n"
    "    hidden_size: 2048  # wide\n"
    "optimizer:\n"
    "  optimizer_factory:\n"
    "    name: adamW\n"
    "  zero_stage: 0\n"
    "parallelism:\n"
    "  dp: 4\n"
    "  tp_mode: REDUCE_SCATTER\n";

TEST(ConfigEdit, ChangesOneValueOfYamlAndKeepsTheRest) {
  std::string text = SetConfigKey(
      ConfigFormat::kYaml, kYaml, "optimizer.zero_stage", Number("1"));
  EXPECT_NE(text.find("    name: adamW\n  zero_stage: 1\nparallelism:"),
            std::string::npos);
  text = SetConfigKey(ConfigFormat::kYaml,
                      text,
                      "model.model_config.hidden_size",
                      Number("64"));
  EXPECT_NE(text.find("    hidden_size: 64  # wide\n"), std::string::npos);
  EXPECT_EQ(GetConfigKey(ConfigFormat::kYaml, text, "parallelism.dp"), "4");
  EXPECT_EQ(GetConfigKey(ConfigFormat::kYaml, text, "parallelism.name"),
            std::nullopt);
}

TEST(ConfigEdit, AddsKeysAndMappingsOfYaml) {
  std::string text = SetConfigKey(
      ConfigFormat::kYaml, kYaml, "model.dtype", {Type::kString, "bfloat16"});
  EXPECT_NE(text.find("# wide\n  dtype: bfloat16\noptimizer:"),
            std::string::npos);
  text = SetConfigKey(
      ConfigFormat::kYaml, text, "tokens.train_steps", Number("7"));
  EXPECT_TRUE(text.ends_with("tokens:\n  train_steps: 7\n"));
}

TEST(ConfigEdit, SetsNestedKeysOfJson) {
  const std::string text = SetConfigKey(ConfigFormat::kJson,
                                        "{\"fp16\": {\"enabled\": true}}",
                                        "zero_optimization.stage",
                                        Number("2"));
  EXPECT_EQ(GetConfigKey(ConfigFormat::kJson, text, "fp16.enabled"), "true");
  EXPECT_EQ(GetConfigKey(ConfigFormat::kJson, text, "zero_optimization.stage"),
            "2");
}

TEST(ConfigEdit, RemovesKeysAndLeavesTextsWithoutThem) {
  EXPECT_EQ(RemoveConfigKey(ConfigFormat::kYaml, kYaml, "no.such"), kYaml);
  EXPECT_EQ(GetConfigKey(ConfigFormat::kYaml,
                         RemoveConfigKey(
                             ConfigFormat::kYaml, kYaml, "parallelism.tp_mode"),
                         "parallelism.tp_mode"),
            std::nullopt);
  EXPECT_EQ(RemoveConfigKey(ConfigFormat::kJson, "{\"a\": 1}", "a"), "{}\n");
}

TEST(ConfigEdit, RejectsValuesThatAreNoScalars) {
  EXPECT_THROW((void)SetConfigKey(ConfigFormat::kYaml,
                                  "parallelism: {dp: 1}\n",
                                  "parallelism.dp",
                                  Number("2")),
               std::invalid_argument);
  EXPECT_THROW((void)GetConfigKey(ConfigFormat::kToml, "a = [1, 2]\n", "a"),
               std::invalid_argument);
  EXPECT_THROW((void)GetConfigKey(ConfigFormat::kJson, "{\"a\": {}}", "a"),
               std::invalid_argument);
}

}  // namespace
}  // namespace trials
