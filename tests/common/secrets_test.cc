#include "common/secrets.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/process.h"

namespace common::secrets_test {

using Words = std::vector<std::string>;

// Each has "s3cr3t-value" once, or several times.
const std::vector<Words> kWithSecrets = {
    {"--api-key", "s3cr3t-value"},
    {"--api-key=s3cr3t-value"},
    {"--api_key", "s3cr3t-value", "--steps", "4"},
    {"HF_TOKEN=s3cr3t-value"},
    {"WANDB_API_KEY=s3cr3t-value"},
    {"--hub_token", "s3cr3t-value"},
    {"--token", "s3cr3t-value"},
    {"--hub-token=s3cr3t-value with spaces s3cr3t-value"},
    {"--use_auth_token", "s3cr3t-value"},
    {"++exp_manager.wandb_logger_kwargs.api_key=s3cr3t-value"},
    {"trainer.logger.apiKey=s3cr3t-value"},
    {"-password", "s3cr3t-value"},
    {"--db.password", "s3cr3t-value s3cr3t-value"},
    {"MLFLOW_TRACKING_PASSWORD=s3cr3t-value"},
    {"--password", "12345-s3cr3t-value"},
    {"AWS_SECRET_ACCESS_KEY=s3cr3t-value"},
    {"AWS_ACCESS_KEY_ID=s3cr3t-value"},
    {"AWS_SESSION_TOKEN=s3cr3t-value"},
    {"--client-secret", "s3cr3t-value"},
    {"https://me:s3cr3t-value@example.org/repo.git"},
    {"--tracking-uri=postgres://me:s3cr3t-value@host:5432/db"},
    {"https://example.org/data?split=a&token=s3cr3t-value&n=3"},
    {"https://account.blob/x?sp=r&sig=s3cr3t-value"},
    {"-H", "Authorization: Bearer s3cr3t-value"},
    {"-H", "Authorization: Basic s3cr3t-value"},
    {"--header=X-Api-Key:s3cr3t-value"},
    {R"({"wandb": {"api_key": "s3cr3t-value", "project": "x"}})"},
    {R"({"api_key":"s3cr3t-value"})"},
    {"sh", "-c", "HF_TOKEN=s3cr3t-value python a.py --api-key 's3cr3t-value'"},
    {"bash", "-lc", "sh -c \"run --password s3cr3t-value\""},
    {"--ssh-private-key", "s3cr3t-value"},
    {"--passphrase", "s3cr3t-value"},
    {"--wandb-key", "s3cr3t-value"},
    {"NGC_API_KEY=s3cr3t-value", "python"},
    {"--neptune-api-token", "s3cr3t-value"},
    {"--passwords=s3cr3t-value"},
    {"--api-keys", "s3cr3t-value"},
    {"--credentials", "s3cr3t-value"},
    {"PGPASSWORD=s3cr3t-value"},
    {"MYSQL_PWD=s3cr3t-value"},
    {"--authtoken", "s3cr3t-value"},
    {"--ngc-key", "s3cr3t-value"},
    {"--password", "$s3cr3t-value!"},
    {"--dsn", "postgresql://me:p@s3cr3t-value@host/db"},
    {R"(--config={"password":"a, \" s3cr3t-value"})"},
    {"--hook=https://hooks.slack.com/services/T0/B0/s3cr3t-value"},
    {"curl", "-u", "me:s3cr3t-value", "https://example.org"},
    {"--user", "me:s3cr3t-value"},
    {"--pass", "s3cr3t-value"},
    {"--key", "0123456789abcdefs3cr3tvalue"},
    {"--smtp-pass", "s3cr3t-value"},
    {"DB_PASS=s3cr3t-value"},
    {"--proxy-user", "me:s3cr3t-value"},
    {"sh", "-c", "wandb login --relogin 0123456789abcdefs3cr3tvalue && a.py"},
    {"-H", "Cookie: a=s3cr3t-value; b=s3cr3t-value"},
    {"--pwd", "s3cr3t-value"},
    {"--conn", "Server=x;Uid=y;Pwd=s3cr3t-value;"},
    {"--kw={'hf_token': 's3cr3t-value', 'lr': 1}"},
    {"--kw", "{'model': {'api_key':'s3cr3t-value'}}"},
    {"--cfg", "wandb:{key: s3cr3t-value}"},
    {"--cfg", "wandb: {project: x, api_key: s3cr3t-value}"},
    {"--cfg", R"({"wandb": {"key": "s3cr3t-value"}})"},
    {"--cfg", "password = s3cr3t-value"},
    {"--passwort", "s3cr3t-value"},
    {"--pw", "s3cr3t-value"},
    {"--db-pw=s3cr3t-value"},
    {"--pin", "s3cr3t-value"},
    {"--bearer", "s3cr3t-value"},
    {"api-key s3cr3t-value"},
    {"sh", "-c", "set password s3cr3t-value"},
};

const Words kFormats = {
    "hf_abcdefghijABCDEFGHIJ0123456789abcd",
    "ghp_abcdefghijABCDEFGHIJ0123456789",
    "github_pat_abcdefghijABCDEFGHIJ0123456789",
    "glpat-abcdefghij0123456789",
    "sk-proj-abcdefghijABCDEFGHIJ0123456789",
    "AKIAABCDEFGHIJKLMNOP",
    "sk-ant-api03-abcdefghijABCDEFGHIJ-0123",
    "AIzaabcdefghijABCDEFGHIJ0123456789abcde",
    "npm_abcdefghijABCDEFGHIJ0123456789",
    "dckr_pat_abcdefghijABCDEFGHIJ",
    "dapi0123456789abcdef0123456789abcdef",
    "sk_live_abcdefghijABCDEF",
    "rk_test_abcdefghijABCDEF0123",
    "pypi-AgEIcHlwaS5vcmcCJDU5ZmM3MTQ1",
    "hvs.abcdefghijABCDEFGHIJ0123",
    "SG.abcdefghij012345.abcdefghij0123456789",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghij",
};

// Of Megatron-LM, transformers, DeepSpeed, NeMo, diffusers, axolotl, torchrun.
const std::vector<Words> kWithoutSecrets = {
    {"--tokenizer", "meta-llama/Llama-2-7b"},
    {"--tokenizer-type", "GPT2BPETokenizer"},
    {"--tokenizer-model=/data/tokenizer.model"},
    {"--tokenizer_name_or_path", "gpt2"},
    {"--token-dispatcher", "alltoall"},
    {"--moe-token-dispatcher-type", "alltoall"},
    {"--moe-token-drop-policy", "probs"},
    {"--max-tokens", "4096"},
    {"--max_new_tokens=64"},
    {"--num-tokens", "1000000"},
    {"--key-value-heads", "8"},
    {"--num_key_value_heads=8"},
    {"--kv-channels", "128"},
    {"--seq-length", "4096"},
    {"--calculate-per-token-loss"},
    {"--eos-token", "</s>"},
    {"--pad_token=<pad>"},
    {"--pad-token", "PAD"},
    {"--bos_token_id", "1"},
    {"--decoder_start_token_id", "0"},
    {"--placeholder_token", "<cat-toy>"},
    {"--initializer_token", "toy"},
    {"--tiktoken-special-tokens", "<unk>", "<s>"},
    {"--json-keys", "text"},
    {"--json-key", "content"},
    {"--text-key=text"},
    {"--train_tokens", "3e11"},
    {"--flops-per-token", "6e9"},
    {"--use_auth_token", "True"},
    {"--token", "$HF_TOKEN"},
    {"--hub_token", "{token}"},
    {"--secretary", "ada"},
    {"--keyword", "word"},
    {"--no-bypass"},
    {"--passes", "3"},
    {"PWD=/home/ada"},
    {"--master_addr=host", "--master_port", "29500"},
    {"--rdzv-endpoint", "host:29500"},
    {"s3://bucket/data@v2"},
    {"https://example.org:8080/a?split=train&n=3"},
    {"git+https://github.com/a/b@main"},
    {"--password-file", "/run/x"},
    {"--token_embedding_dim=64"},
    {"model.tokenizer.sentencepiece_legacy=false"},
    {"--author", "Ada"},
    {"--authentication", "kerberos"},
    {"--monkey", "x"},
    {"--assistant_token", "ASSISTANT"},
    {"--reward_token", "ки"},
    {"--newline_token", "\\n"},
    {"--pos-token", "good", "--neg-token", "bad"},
    {"--lang_token=en"},
    {"--pool-token", "cls"},
    {"--run-name", "sk-baseline-learning-rate-3e-4-warm"},
    {"--run-name", "xoxa-llama-run-17"},
    {"--note", "authorization of this run by a bearer of news"},
    {"OLDPWD=/home/ada"},
    {"--pass", "2"},
    {"--key", "text"},
    {"-u", "1000:1000"},
    {"-u", "train.py"},
    {"--user", "ada"},
    {"ssh", "login", "gpu-node-0123.cluster.example"},
    {"-u", "root:root"},
    {"--user", "$UID:$GID"},
    {"-u", "host7:29500"},
    {"--pass", "backward"},
    {"--first-pass=forward"},
    {"--key", "input_ids_2024_field"},
    {"--key", "checkpoints/llama3/step1000.pt"},
    {"no cookie: retrying"},
    {"--note", "no cookie for this run"},
    {"--api-keyboard", "x"},
    {"--pin-memory"},
    {"--pin_memory", "true"},
    {"--pin", "0"},
    {"--pin", "0-7"},
    {"--cpu-pin=1"},
    {"--pp", "8"},
    {"--pw", "2"},
    {"--pwd", "/data/run1"},
    {"--pwd", "."},
    {"--pwd=runs/first"},
    {"HF_TOKEN=", "torchrun", "train.py"},
    {"--note", "the secret of step-1e4 runs, a password for nobody"},
    {"--cfg", "{model: {tokenizer: gpt2, key: text}}"},
    {"--filter", "token", "step1000"},
    {"dapihelper0123"},
    {"sk_learn_live_test_split"},
};

TEST(Secrets, AreHiddenInWords) {
  for (const Words& words : kWithSecrets) {
    const Words hidden = WithoutSecrets(words);
    const std::string line = ShellLine(hidden);
    EXPECT_EQ(line.find("s3cr3t"), std::string::npos) << line;
    EXPECT_NE(line.find("***"), std::string::npos) << line;
    EXPECT_EQ(hidden.size(), words.size()) << line;
  }
  for (const std::string& word : kFormats) {
    EXPECT_THAT(WithoutSecrets({"--x", word}),
                testing::ElementsAre("--x", "***"));
  }
}

TEST(Secrets, AreHiddenInLinesOfAShell) {
  for (const Words& words : kWithSecrets) {
    const std::string line = WithoutSecrets(ShellLine(words));
    EXPECT_EQ(line.find("s3cr3t"), std::string::npos) << line;
    const std::string list =
        WithoutSecrets("[\"" + words.front() + "\", \"" + words.back() + "\"]");
    if (words.front().find('"') == std::string::npos &&
        words.back().find('"') == std::string::npos) {
      EXPECT_EQ(list.find("s3cr3t"), std::string::npos) << list;
    }
  }
}

// As the values of a manifest are written.
TEST(Secrets, AreHiddenInQuotedWords) {
  EXPECT_THAT(
      WithoutSecrets({"\"--api-key\"", "\"s3cr3t-value\"", "\"--steps\""}),
      testing::ElementsAre("\"--api-key\"", "***", "\"--steps\""));
}

TEST(Secrets, OfNamesThatAreOtherThingsAreHiddenInQuotesToo) {
  const std::string key = "\"0123456789abcdefs3cr3tvalue\"";
  EXPECT_EQ(WithoutSecrets(Words{"\"--key\"", key})[1], "***");
  EXPECT_EQ(WithoutSecrets(Words{"\"wandb\"", "\"login\"", key})[2], "***");
  EXPECT_EQ(WithoutSecrets(Words{"\"-u\"", "\"me:s3cr3t-value\""})[1], "***");
}

TEST(Secrets, LeaveUsualWordsAsTheyAre) {
  for (const Words& words : kWithoutSecrets) {
    EXPECT_EQ(WithoutSecrets(words), words);
    const std::string line = ShellLine(words);
    EXPECT_EQ(WithoutSecrets(line), line);
  }
}

TEST(Secrets, LeaveTheRestOfALineAsItIsWritten) {
  EXPECT_EQ(WithoutSecrets("# a 'b c'\nHF_TOKEN=x torchrun \\\n  a.py \"$@\""),
            "# a 'b c'\nHF_TOKEN=*** torchrun \\\n  a.py \"$@\"");
  EXPECT_EQ(WithoutSecrets("can't open 'a': it's gone"),
            "can't open 'a': it's gone");
  EXPECT_EQ(WithoutSecrets("a --api-key \\\n    s3cr3t-value \\"),
            "a --api-key \\\n    *** \\");
  EXPECT_EQ(WithoutSecrets(""), "");
}

}  // namespace common::secrets_test
