#include "trials/config_file.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::config_file_test {

using ::testing::HasSubstr;

class ConfigFileTest : public testing::Test {
 protected:
  [[nodiscard]] ConfigFile Of(const std::string& text) const {
    fakes::WriteFile(folder_.path() / "config.json", text);
    return ConfigFile(folder_.path() / "config.json");
  }

  fakes::TemporaryFolder folder_;
};

TEST_F(ConfigFileTest, ValuesAreFoundByTheirPath) {
  const ConfigFile file =
      Of(R"({"a": 1, "n": null, "o": {"x": 2, "n": null}, "f": false, "z": 0,
             "e": [], "rest": "r", "text_config": {"a": 3, "b": 4}})");
  EXPECT_EQ(*file.Find("a"), 3);
  EXPECT_EQ(*file.Find("root.a"), 1);
  EXPECT_EQ(*file.Find("root.o.x"), 2);
  for (const char* key : {"n", "o.x", "root.n", "root.o.n", "root.o.y", "x"}) {
    EXPECT_EQ(file.Find(key), nullptr) << key;
  }
  EXPECT_THAT(file.UnreadKeys(),
              testing::ElementsAre("rest", "text_config", "b"));
}

TEST_F(ConfigFileTest, AFileOfUnreasonableSizeIsNotRead) {
  fakes::WriteFile(folder_.path() / "config.json", "{}");
  std::filesystem::resize_file(folder_.path() / "config.json", 1ULL << 40U);
  EXPECT_THAT(
      fakes::ErrorOf([&] { ConfigFile(folder_.path() / "config.json"); }),
      HasSubstr("has 1099511627776 bytes, and at most 16777216 are read"));
}

TEST_F(ConfigFileTest, NumbersAreFromZero) {
  const ConfigFile file =
      Of(R"({"a": 0, "b": 0.5, "c": -1e-9, "d": "1", "o": {"x": 0.25}})");
  EXPECT_EQ(file.Number("a", 7.0), 0.0);
  EXPECT_EQ(file.Number("b", 7.0), 0.5);
  EXPECT_EQ(file.Number("z", 7.0), 7.0);
  EXPECT_EQ(file.Number("o.x", 7.0), 0.25);
  EXPECT_EQ(file.Number("o.y", 7.0), 7.0);
  EXPECT_EQ(file.Number("a.x", 7.0), 7.0);
  for (const char* key : {"c", "d"}) {
    EXPECT_THAT(fakes::ErrorOf([&] { return file.Number(key, 7.0); }),
                HasSubstr("must be a number, 0 or more"));
  }
}

TEST_F(ConfigFileTest, TextsHaveTheirType) {
  const ConfigFile file = Of(R"({"a": true, "b": "x"})");
  EXPECT_EQ(file.Text("b", "y"), "x");
  EXPECT_EQ(file.Text("z", "y"), "y");
  EXPECT_THAT(fakes::ErrorOf([&] { return file.Text("a", ""); }),
              HasSubstr("must be text"));
}

// A multimodal model has the sizes of its language model in an object.
TEST_F(ConfigFileTest, TheLanguageModelOfAMultimodalOneIsRead) {
  const ConfigFile file = Of(
      R"({"_name_or_path": "me/it", "model_type": "gemma3", "layers": 1,
          "text_config": {"layers": 2, "model_type": "gemma3_text"}})");
  EXPECT_EQ(*file.Find("layers"), 2);
  EXPECT_EQ(file.Text("model_type", ""), "gemma3_text");
  EXPECT_EQ(file.Name(), "me/it");
}

TEST_F(ConfigFileTest, AFolderIsRefusedWithWhatIsInIt) {
  const auto open = [&] { return ConfigFile(folder_.path()); };
  EXPECT_THAT(fakes::ErrorOf(open), HasSubstr("without a config.json"));
  (void)Of("{}");
  EXPECT_THAT(fakes::ErrorOf(open), HasSubstr("name the config.json in it"));
  EXPECT_THAT(
      fakes::ErrorOf([&] { return ConfigFile(folder_.path() / "none.json"); }),
      HasSubstr("no such file"));
  EXPECT_THAT(fakes::ErrorOf([&] { return Of("[]"); }),
              HasSubstr("a JSON object"));
}

}  // namespace trials::config_file_test
