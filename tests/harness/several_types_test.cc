// Problems on clusters with several GPU types.

#include <algorithm>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/manifest/manifest.h"
#include "harness/registry.h"
#include "harness/testbeds/testbeds.h"
#include "tests/fakes/experiment_folder.h"
#include "tests/harness/manifest_checks.h"

namespace harness::several_types_test {

using testing::AllOf;
using testing::HasSubstr;

class SeveralTypes : public testing::Test {
 protected:
  // The small experiment on 8 A100 and 8 H100, with these lines in [cluster]
  // and these at the end.
  Manifest Read(const std::string& cluster, const std::string& more = "") {
    std::string text =
        fakes::SmallManifest(R"("random")", "trials = 3\nq_max = 4\n\n" + more);
    const std::string file = "file = \"clusters/a5000-8.toml\"\n";
    text.replace(text.find(file), file.size(), cluster);
    fakes::WriteFile(path_, text);
    return ReadManifest(path_, {});
  }

  Testbed Make(const std::string& cluster) {
    return MakeTestbed(Read(cluster).problems.front());
  }

  std::string ErrorOf(const std::string& cluster,
                      const std::string& more = "") {
    return harness::ErrorOf([&] {
      const Manifest manifest = Read(cluster, more);
      const Testbed testbed = MakeTestbed(manifest.problems.front());
      for (const MethodSpec& method : manifest.methods) {
        (void)MakeMethod(method, ProblemOf(testbed, 4), 1);
      }
      (void)testbed.predictions("");
    });
  }

  fakes::ExperimentFolder folder_;
  std::filesystem::path path_ = folder_.path() / "m.toml";
};

constexpr const char* kBoth = "file = \"clusters/a100-h100.toml\"\n";

TEST_F(SeveralTypes, HaveNeitherPartsNorASinglePrice) {
  (void)Read(std::string(kBoth) + "price_per_gpu_hour = 2\n");
  const auto error_with = [this](const std::string& setting) {
    return harness::ErrorOf([&] {
      return MakeTestbed(
          ReadManifest(path_, {.settings = {setting}}).problems.front());
    });
  };
  EXPECT_THAT(error_with("space.gpus=[8, 16]"),
              HasSubstr("the cluster has 2 GPU types, which are used together: "
                        "choose one, [cluster] gpu_type = \"a100\""));
  EXPECT_THAT(error_with("experiment.objective=\"money\""),
              HasSubstr("this cluster has 2 GPU types"));
}

TEST_F(SeveralTypes, EveryCandidateHasStagesOfOneTypeAndCanBeTried) {
  const Testbed testbed = Make(kBoth);
  EXPECT_EQ(testbed.machine.gpus(), 16);
  ASSERT_EQ(testbed.machine.gpu_types().size(), 2U);
  EXPECT_EQ(testbed.machine.gpu_types()[1].name, "h100");
  EXPECT_GT(testbed.machine.gpu_types()[1].half_flop_per_s,
            testbed.machine.gpu_types()[0].half_flop_per_s);
  EXPECT_EQ(testbed.machine.memory_bytes(),
            std::min(testbed.machine.gpu_types()[0].memory_bytes,
                     testbed.machine.gpu_types()[1].memory_bytes));
  ASSERT_GT(testbed.space->size(), 50);
  for (const trials::ParallelConfig& config : testbed.space->configs()) {
    EXPECT_EQ(config.dp * config.cp * config.tp * config.pp, 16);
    EXPECT_EQ(8 % (config.dp * config.cp * config.tp), 0);
    EXPECT_TRUE(testbed.exact->ExactThroughput(config));
  }
}

TEST_F(SeveralTypes, TheRecordsDependOnTheFilesOfAllTypes) {
  const Testbed testbed = Make(kBoth);
  for (const char* name :
       {"a100-h100.toml", "a100-selene.toml", "h100-infiniband.toml",
        "a100-sxm-80gb.toml", "h100-sxm.toml", "hopper.toml"}) {
    EXPECT_EQ(std::count_if(testbed.inputs.begin(), testbed.inputs.end(),
                            [&](const std::filesystem::path& file) {
                              return file.filename() == name;
                            }),
              1)
        << name;
  }
}

TEST_F(SeveralTypes, OneTypeIsTheClusterThatItIsLike) {
  const Testbed group = Make(std::string(kBoth) + "gpu_type = \"h100\"\n");
  const Testbed alone = Make("file = \"clusters/h100-infiniband.toml\"\n");
  EXPECT_FALSE(group.machine.mixed());
  ASSERT_EQ(group.space->configs(), alone.space->configs());
  for (const trials::ParallelConfig& config : group.space->configs()) {
    EXPECT_EQ(group.exact->ExactThroughput(config),
              alone.exact->ExactThroughput(config));
  }
}

TEST_F(SeveralTypes, ErrorsNameThePlaceAndTheRemedy) {
  EXPECT_EQ(ErrorOf(kBoth, "[predictions]\nplanner = \"astra\"\n"), "no error");
  EXPECT_THAT(ErrorOf(std::string(kBoth) + "gpu_type = \"h200\"\n"),
              AllOf(HasSubstr("m.toml:"), HasSubstr("no GPU type 'h200'"),
                    HasSubstr("known: a100, h100")));
  EXPECT_THAT(ErrorOf(std::string(kBoth) + "gpus = 24\n"),
              AllOf(HasSubstr("m.toml:"), HasSubstr("use a multiple of 16")));
  EXPECT_THAT(ErrorOf(kBoth), HasSubstr("add cluster = \"NAME\""));
  // Predictions for all GPUs of one type with the framework of the trials.
  EXPECT_THAT(ErrorOf(kBoth, "[predictions]\ncluster = \"h100-infiniband\"\n"),
              HasSubstr("the ground truth"));
  EXPECT_EQ(ErrorOf(kBoth,
                    "[predictions]\ncluster = \"h100-infiniband\"\n"
                    "framework = \"megatron-core\"\n"),
            "no error");
  EXPECT_THAT(ErrorOf(kBoth,
                      "[predictions]\nplanner = \"astra\"\n"
                      "[method.random]\nbase = \"aceso\"\njudge = \"plan\"\n"),
              AllOf(HasSubstr("m.toml:"), HasSubstr("GPUs of one type")));
}

}  // namespace harness::several_types_test
