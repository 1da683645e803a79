// The problems of the experiments: every one can be made, and a new knob leaves
// their spaces as they are.

#include <gtest/gtest.h>

#include "common/files.h"
#include "common/toml_table.h"
#include "harness/manifest/manifest.h"
#include "harness/testbeds/problem_parts.h"
#include "harness/testbeds/testbeds.h"
#include "tests/fakes/paths.h"
#include "trials/knobs.h"
#include "trials/search_space.h"

namespace harness::spaces_test {

int SizeOf(const ProblemSpec& problem, const trials::KnobSet& knobs) {
  int gpus = 0;
  for (const trials::Cluster& cluster : ReadClusters(problem.cluster)) {
    gpus += cluster.gpus();
  }
  return trials::SearchSpace::Enumerate(
             trials::ReadWorkload(problem.workload), gpus,
             trials::ReadSearchSpaceOptions(problem.space, problem.rules_folder,
                                            knobs))
      .size();
}

TEST(Spaces, OfEveryExperimentStayTheSameWithANewKnob) {
  const trials::KnobSet& before = trials::BuiltInKnobs();
  const trials::KnobSet after = before.With(trials::FlagKnob(
      {.name = "overlap_tp", .group = trials::KnobGroup::kSharding}));
  int compared = 0;
  for (const auto& path :
       common::ListFolder(fakes::SourceFolder() / "experiments")) {
    if (path.extension() != ".toml") {
      continue;
    }
    const Manifest manifest = ReadManifest(path);
    const ProblemSpec& problem = manifest.problems.front();
    if (problem.backend.GetString("type", "") == "simulator") {
      EXPECT_EQ(SizeOf(problem, after), SizeOf(problem, before)) << path;
      ++compared;
    }
  }
  EXPECT_GT(compared, 20);
}

TEST(Spaces, EverySimulatedProblemOfAnExperimentCanBeMade) {
  for (const auto& path :
       common::ListFolder(fakes::SourceFolder() / "experiments")) {
    if (path.extension() != ".toml") {
      continue;
    }
    for (const ProblemSpec& problem : ReadManifest(path).problems) {
      if (problem.backend.GetString("type", "") == "simulator") {
        EXPECT_NO_THROW((void)MakeTestbed(problem))
            << path << ": " << problem.name;
      }
    }
  }
}

}  // namespace harness::spaces_test
