#include "trials/adapters/config_edit.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace trials::config_edit_test {

using Type = ConfigValue::Type;

ConfigValue Number(const std::string& text) { return {Type::kNumber, text}; }

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
  std::string text = SetConfigKey(ConfigFormat::kYaml, kYaml,
                                  "optimizer.zero_stage", Number("1"));
  EXPECT_NE(text.find("    name: adamW\n  zero_stage: 1\nparallelism:"),
            std::string::npos);
  text = SetConfigKey(ConfigFormat::kYaml, text,
                      "model.model_config.hidden_size", Number("64"));
  EXPECT_NE(text.find("    hidden_size: 64  # wide\n"), std::string::npos);
  EXPECT_EQ(GetConfigKey(ConfigFormat::kYaml, text, "parallelism.dp"), "4");
  EXPECT_EQ(GetConfigKey(ConfigFormat::kYaml, text, "parallelism.name"),
            std::nullopt);
}

TEST(ConfigEdit, QuotesWordsThatYamlReadsAsFalse) {
  const std::string text = SetConfigKey(
      ConfigFormat::kYaml, kYaml, "mixed_precision", {Type::kString, "no"});
  EXPECT_NE(text.find("mixed_precision: 'no'\n"), std::string::npos);
  EXPECT_EQ(GetConfigKey(ConfigFormat::kYaml, text, "mixed_precision"), "no");
}

TEST(ConfigEdit, RejectsValuesThatAreNoScalars) {
  EXPECT_THROW(
      (void)SetConfigKey(ConfigFormat::kYaml, "a: [1]\n", "a", Number("2")),
      std::invalid_argument);
  EXPECT_THROW((void)GetConfigKey(ConfigFormat::kToml, "a = [1, 2]\n", "a"),
               std::invalid_argument);
  EXPECT_THROW((void)GetConfigKey(ConfigFormat::kJson, "{\"a\": {}}", "a"),
               std::invalid_argument);
}

std::string SetToml(const std::string& text, std::string_view path) {
  return SetConfigKey(ConfigFormat::kToml, text, path, Number("7"));
}

std::string SetYaml(const std::string& text, std::string_view path) {
  return SetConfigKey(ConfigFormat::kYaml, text, path, Number("7"));
}

std::optional<std::string> Toml(const std::string& text) {
  return GetConfigKey(ConfigFormat::kToml, text, "a");
}

std::optional<std::string> Yaml(const std::string& text) {
  return GetConfigKey(ConfigFormat::kYaml, text, "a");
}

TEST(ConfigEdit, ReadsValuesWithoutQuotesAndComments) {
  EXPECT_EQ(Toml("a = 1"), "1");
  EXPECT_EQ(Toml("a=1\n"), "1");
  EXPECT_EQ(Toml("a\t=\t1 \t\r\n"), "1");
  EXPECT_EQ(Toml("a = 1# one\n"), "1");
  EXPECT_EQ(Toml("a = \"x # y\"  # one\n"), "x # y");
  EXPECT_EQ(Toml("a = 'x'\n"), "x");
  EXPECT_EQ(Toml("a = ''\n"), "");
  EXPECT_EQ(Toml("\"a\" = 2\n"), "2");
  EXPECT_EQ(Toml("'a' = 2\n"), "2");
  EXPECT_EQ(Toml("# a = 1\nb = 2\n"), std::nullopt);
  EXPECT_EQ(Toml(""), std::nullopt);
  EXPECT_EQ(Yaml("a: x#y\n"), "x#y");  // a comment needs a space
  EXPECT_EQ(Yaml("a: x #y\n"), "x");
  EXPECT_EQ(Yaml("a: # nothing\n"), "");
  EXPECT_EQ(Yaml("a:\n"), "");
  EXPECT_EQ(Toml("a = 1_000\n"), "1000");
  EXPECT_EQ(Yaml("a: \"b: c\"\n"), "b: c");
  EXPECT_EQ(Yaml("---\na: 1\n"), "1");
  EXPECT_THROW((void)Toml("a = 'x\n"), std::invalid_argument);
  EXPECT_THROW((void)Toml("a = \"\n"), std::invalid_argument);
  EXPECT_THROW((void)Toml("a =\n"), std::invalid_argument);
  EXPECT_THROW((void)Toml("a = {b = 1}\n"), std::invalid_argument);
}

TEST(ConfigEdit, ReplacesTheValueOnly) {
  EXPECT_EQ(SetToml("a = 'x'  # one\n", "a"), "a = 7  # one\n");
  EXPECT_EQ(SetToml("# b\n[t]\na = 2048  # c\nd = 'x'\n", "t.a"),
            "# b\n[t]\na = 7  # c\nd = 'x'\n");
  EXPECT_EQ(SetToml("a=1\n", "a"), "a= 7\n");
  EXPECT_EQ(SetYaml("a:\nb: 1\n", "a"), "a: 7\nb: 1\n");
  EXPECT_EQ(SetYaml("a: 12345\n", "a"), "a: 7\n");
  EXPECT_EQ(
      SetConfigKey(ConfigFormat::kToml, "a = 1\n", "a", {Type::kString, "x"}),
      "a = \"x\"\n");
  EXPECT_EQ(
      SetConfigKey(ConfigFormat::kYaml, "a: 1\n", "a", {Type::kString, "x"}),
      "a: x\n");
}

TEST(ConfigEdit, IsNotMisledByValuesOfSeveralLines) {
  EXPECT_EQ(SetToml("[t]\nb = \"\"\"\na = 1\n[u]\n\"\"\"\na = 2\n", "t.a"),
            "[t]\nb = \"\"\"\na = 1\n[u]\n\"\"\"\na = 7\n");
  EXPECT_EQ(SetToml("[t]\nb = '''\n[u]\na = 1'''\n", "t.a"),
            "[t]\nb = '''\n[u]\na = 1'''\na = 7\n");
  EXPECT_EQ(SetToml("b = \"\"\"x\"\"\"\na = 2\n", "a"),
            "b = \"\"\"x\"\"\"\na = 7\n");
  EXPECT_EQ(SetToml("a = \"\"\"\n1\n\"\"\"  # b\n", "a"), "a = 7  # b\n");
  EXPECT_THROW((void)SetToml("b = \"\"\"\n", "a"), std::invalid_argument);
  for (const std::string value :
       {">\n  1", "|\n  1\n", "1\n  2", "&x 1", "!!int 1", "\"1\n  2\"", "~"}) {
    EXPECT_EQ(SetYaml("a: " + value + "\nb: 1\n", "a"), "a: 7\nb: 1\n")
        << value;
  }
  EXPECT_THROW((void)SetYaml("b: &x 1\na: *x\n", "a"), std::invalid_argument);
}

// Written by a line editor, none of these has the value at its key.
TEST(ConfigEdit, FindsKeysAsTheParserDoes) {
  EXPECT_EQ(SetYaml("note: \"first\n  a: 7 # old\"\na: 1\n", "a"),
            "note: \"first\n  a: 7 # old\"\na: 7\n");
  EXPECT_EQ(SetYaml("t: {b: 1, a: 2}  # c\n", "t.a"), "t: {b: 1, a: 7}  # c\n");
  EXPECT_EQ(SetYaml("t: {b: 1}\n", "t.u.a"), "t: {b: 1, u: {a: 7}}\n");
  EXPECT_EQ(SetYaml("t: {}\nb: 1\n", "t.a"), "t: {a: 7}\nb: 1\n");
  EXPECT_EQ(SetYaml("t: ~\n", "t.a"), "t:  {a: 7}\n");
  EXPECT_EQ(SetYaml("t:\r\n  b: 1\r\n", "t.a"), "t:\r\n  b: 1\r\n  a: 7\r\n");
  EXPECT_EQ(SetYaml("\xEF\xBB\xBF"
                    "a: 1\n",
                    "a"),
            "a: 7\n");
  EXPECT_EQ(SetYaml("é: é\na: 1\n", "a"), "é: é\na: 7\n");
  EXPECT_EQ(SetYaml("b: |\n  x\n  a: 1\n", "a"), "b: |\n  x\n  a: 1\na: 7\n");
  EXPECT_EQ(SetYaml("o: &o {a: 1}\nt:\n  <<: *o\n  b: 2\n", "t.a"),
            "o: &o {a: 1}\nt:\n  <<: *o\n  a: 7\n  b: 2\n");
  EXPECT_EQ(SetToml("t.b = 1\n[u]\n", "t.a"), "t.b = 1\nt.a = 7\n[u]\n");
  EXPECT_EQ(SetToml("t.a = 1\n", "t.a"), "t.a = 7\n");
  EXPECT_EQ(SetToml("t = {b = 1, a = 2}\n", "t.a"), "t = {b = 1, a = 7}\n");
  EXPECT_EQ(SetToml("t = {b = 1}\n", "t.a"), "t = {b = 1, a = 7}\n");
  EXPECT_EQ(SetToml("t = {}\n", "t.u.a"), "t = {u.a = 7}\n");
  EXPECT_EQ(SetToml("[\"t\"]\nb = [\n[1],\n]\n", "t.a"),
            "[\"t\"]\nb = [\n[1],\n]\na = 7\n");
  EXPECT_EQ(SetToml("[ t . 'u' ]\r\nb = 1\r\n", "t.u.a"),
            "[ t . 'u' ]\r\nb = 1\r\na = 7\r\n");
  EXPECT_EQ(SetToml("[t.u]\nb = 1\n", "t.a"), "[t.u]\nb = 1\n\n[t]\na = 7\n");
  EXPECT_EQ(SetToml("\xEF\xBB\xBF[t]\na = 1\n", "t.a"), "[t]\na = 7\n");
}

std::string Refusal(ConfigFormat format, const std::string& text,
                    const std::string& path) {
  try {
    (void)SetConfigKey(format, text, path, Number("7"));
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST(ConfigEdit, RefusesWhatWouldChangeMoreWithTheLine) {
  EXPECT_EQ(
      Refusal(ConfigFormat::kYaml, "b: 1\nt: &t\n  a: 1\nu: *t\n", "t.a"),
      "line 3: it cannot be changed there ('u.a' would change with it): "
      "write KEY: VALUE on a line of its own, without anchors and aliases");
  for (const char* text :
       {"a: 1\na: 2\n", "a: 1\n---\na: 2\n", "a: [1\n", "t.a: 1\n", "t: 1\n",
        "t: *x\n", "a: 1\n\tb: 2\n", "t: &t\n  a: &x [*x]\n"}) {
    EXPECT_NE(Refusal(ConfigFormat::kYaml, text, "t.a"), "") << text;
  }
  for (const char* text : {"a = 1\na = 2\n", "[[t]]\na = 1\n", "[\n", "t = 1\n",
                           "\"t.a\" = 1\n", "a = \"\xff\"\n"}) {
    EXPECT_NE(Refusal(ConfigFormat::kToml, text, "t.a"), "") << text;
  }
  // Eight levels of nine aliases.
  std::string laughs = "l0: &l0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (char level = '1'; level < '9'; ++level) {
    const std::string below = std::string("*l") + static_cast<char>(level - 1);
    laughs += std::string("l") + level + ": &l" + level + " [" + below;
    for (int i = 0; i < 8; ++i) {
      laughs += ", " + below;
    }
    laughs += "]\n";
  }
  EXPECT_NE(Refusal(ConfigFormat::kYaml, laughs, "a").find("too many"),
            std::string::npos);
}

TEST(ConfigEdit, RefusesNumbersThatAreNoDecimalsToYaml) {
  for (const char* value : {"010", "0x10", "1_0", "1:30"}) {
    EXPECT_THROW((void)Yaml(std::string("a: ") + value), std::invalid_argument);
    EXPECT_EQ(Yaml(std::string("a: '") + value + "'"), value);
  }
}

TEST(ConfigEdit, ReadsTheCommentsOfHjsonInJson) {
  const std::string text =
      "{\n  // one\n  \"a\": 1, # two\n  /* three,\n } */ \"u\": \"http://x "
      "#y\",\n"
      "  \"b\": [1, \"\\\"//\", ],\n}\n";
  EXPECT_EQ(GetConfigKey(ConfigFormat::kJson, text, "a"), "1");
  EXPECT_EQ(GetConfigKey(ConfigFormat::kJson, text, "u"), "http://x #y");
  EXPECT_EQ(
      SetConfigKey(ConfigFormat::kJson, text, "a", Number("7")),
      "{\n  \"a\": 7,\n  \"u\": \"http://x #y\",\n  \"b\": [\n    1,\n    "
      "\"\\\"//\"\n  ]\n}\n");
  EXPECT_EQ(Refusal(ConfigFormat::kJson, "{\n  // one\n  a: 1\n}", "a"),
            "line:3:3: this is not valid JSON: of Hjson, comments and commas "
            "before a bracket are read: put keys and texts in double quotes, "
            "and a comma between values");
}

TEST(ConfigEdit, AddsAKeyOfTomlToTheEndOfItsTable) {
  EXPECT_EQ(SetToml("", "a"), "a = 7\n");
  EXPECT_EQ(SetToml("", "t.a"), "\n[t]\na = 7\n");
  EXPECT_EQ(SetToml("b = 1\n\n[t]\nc = 2\n", "a"),
            "b = 1\na = 7\n\n[t]\nc = 2\n");
  EXPECT_EQ(SetToml("[t]\n# none\n[u]\nc = 2\n", "t.a"),
            "[t]\na = 7\n# none\n[u]\nc = 2\n");
  EXPECT_EQ(SetToml("[t]\nb = 1\n\n[u]\na = 2\n", "t.a"),
            "[t]\nb = 1\na = 7\n\n[u]\na = 2\n");
  EXPECT_EQ(SetToml("[ t.u ]  # two\nb = 1\n", "t.u.a"),
            "[ t.u ]  # two\nb = 1\na = 7\n");
}

TEST(ConfigEdit, AddsAKeyOfYamlAfterItsSiblings) {
  EXPECT_EQ(SetYaml("", "a"), "a: 7\n");
  EXPECT_EQ(SetYaml("", "t.u.a"), "t: {u: {a: 7}}\n");
  EXPECT_EQ(SetYaml("---\n# top\nb: 1\n", "a"), "---\n# top\nb: 1\na: 7\n");
  EXPECT_EQ(SetYaml("t:\n    b: 1\n\n# end\nu: 2\n", "t.a"),
            "t:\n    b: 1\n    a: 7\n\n# end\nu: 2\n");
  EXPECT_EQ(SetYaml("t:\nu: 2\n", "t.a"), "t: {a: 7}\nu: 2\n");
  EXPECT_EQ(SetYaml("t:\n  u:\n", "t.u.a"), "t:\n  u: {a: 7}\n");
  EXPECT_EQ(SetYaml("t:\n  u:\n    a: 1\n  a: 2\n", "t.a"),
            "t:\n  u:\n    a: 1\n  a: 7\n");
  EXPECT_THROW((void)SetYaml("t: 1\n", "t.a"), std::invalid_argument);
  EXPECT_THROW((void)SetYaml("t: 1\n", "t.u.a"), std::invalid_argument);
}

TEST(ConfigEdit, PrintsJsonWithTwoSpaces) {
  EXPECT_EQ(
      SetConfigKey(ConfigFormat::kJson, "{\"b\": [1]}", "t.a", Number("7")),
      "{\n  \"b\": [\n    1\n  ],\n  \"t\": {\n    \"a\": 7\n  }\n}\n");
  EXPECT_EQ(SetConfigKey(ConfigFormat::kJson, " \n", "a", {Type::kString, "x"}),
            "{\n  \"a\": \"x\"\n}\n");
  EXPECT_EQ(RemoveConfigKey(ConfigFormat::kJson, "{\"a\": 1, \"b\": 2}", "a"),
            "{\n  \"b\": 2\n}\n");
  EXPECT_EQ(RemoveConfigKey(ConfigFormat::kJson, "{\"a\":1}", "b"),
            "{\"a\":1}");
  EXPECT_EQ(RemoveConfigKey(ConfigFormat::kJson, "{\"a\":1}", "t.b"),
            "{\"a\":1}");
  EXPECT_EQ(GetConfigKey(ConfigFormat::kJson, "{\"a\": \"x\"}", "a"), "x");
  EXPECT_EQ(GetConfigKey(ConfigFormat::kJson, "{}", "t.a"), std::nullopt);
  EXPECT_EQ(GetConfigKey(ConfigFormat::kJson, "{}", "a"), std::nullopt);
  EXPECT_THROW((void)GetConfigKey(ConfigFormat::kJson, "[]", "a"),
               std::invalid_argument);
  EXPECT_THROW((void)GetConfigKey(ConfigFormat::kJson, "{\"t\": 1}", "t.a"),
               std::invalid_argument);
}

TEST(ConfigEdit, RemovesALineOfTomlAndYaml) {
  EXPECT_EQ(RemoveConfigKey(ConfigFormat::kToml, "a = 1\nb = 2\n", "a"),
            "b = 2\n");
  EXPECT_EQ(RemoveConfigKey(ConfigFormat::kYaml, "b: 2\na: 1\n", "a"),
            "b: 2\n");
  EXPECT_EQ(RemoveConfigKey(ConfigFormat::kYaml, "a: 1\n", "a"), "{}\n");
  EXPECT_EQ(RemoveConfigKey(ConfigFormat::kYaml, "t:\n  a: 1\nb: 2\n", "t.a"),
            "t:\n  {}\nb: 2\n");
  EXPECT_EQ(RemoveConfigKey(ConfigFormat::kYaml, "t: {a: 1, b: 2}\n", "t.b"),
            "t: {a: 1}\n");
  EXPECT_EQ(
      RemoveConfigKey(ConfigFormat::kYaml, "t:\n- a: 1\n  b: 2\na: 1\n", "a"),
      "t:\n- a: 1\n  b: 2\n");
  EXPECT_EQ(RemoveConfigKey(ConfigFormat::kToml, "t = {a = 1, b = 2}\n", "t.a"),
            "t = {b = 2}\n");
  EXPECT_EQ(RemoveConfigKey(ConfigFormat::kToml, "a = [\n1,\n]\nb = 2\n", "a"),
            "b = 2\n");
  EXPECT_EQ(RemoveConfigKey(ConfigFormat::kYaml, kYaml, "no.such"), kYaml);
  EXPECT_THROW((void)RemoveConfigKey(ConfigFormat::kYaml,
                                     "o: &o {a: 1}\nt: *o\n", "t.a"),
               std::invalid_argument);
}

}  // namespace trials::config_edit_test
