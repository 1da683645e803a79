// Losses of tiny models equal those of PyTorch's implementations
// (tests/reference/make_trainer_reference.py).

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/files.h"
#include "common/json.h"
#include "tests/fakes/paths.h"
#include "trainer/tests/tiny.h"

namespace trainer::testing::reference_test {

const std::filesystem::path& Folder() {
  static const std::filesystem::path folder =
      fakes::SourceFolder() / "tests/reference/trainer";
  return folder;
}

common::Json Reference() {
  const auto file = Folder() / "losses.json";
  return common::ParseJson(common::ReadFile(file), file.string());
}

class ReferenceTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ReferenceTest, LossesEqualThoseOfPyTorch) {
  const common::Json reference = Reference();
  const auto losses =
      reference.at("losses").at(GetParam()).get<std::vector<double>>();
  Job job;
  job.model = trials::ReadModel(Folder() / (GetParam() + ".json"));
  job.constants = ReadModelConstants(Folder() / (GetParam() + ".json"));
  job.batch_size = reference.at("batch_size").get<int>();
  job.sequence_length = reference.at("sequence_length").get<int>();
  job.seed = reference.at("seed").get<std::uint64_t>();
  job.adam.learning_rate = reference.at("learning_rate").get<double>();
  job.steps = static_cast<int>(losses.size());
  job.memory_bytes = 64 << 20;
  for (const char* config :
       {"dp=1,tp=1,pp=1", "dp=2,tp=2,pp=2,microbatches=2,zero_stage=1"}) {
    job.config = trials::ParseParallelConfig(config);
    const TrialResult result = Train(job);
    ASSERT_EQ(result.losses.size(), losses.size()) << result.message;
    for (std::size_t step = 0; step < losses.size(); ++step) {
      EXPECT_NEAR(result.losses[step], losses[step], 1e-10 * losses[step])
          << config << ", step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ReferenceTest,
                         ::testing::Values("llama", "gpt2", "bert", "mixtral"));

}  // namespace trainer::testing::reference_test
