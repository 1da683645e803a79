#include "jobs/tune/tune_nodes.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text.h"
#include "common/toml_table.h"
#include "harness/manifest/slurm_options.h"

namespace jobs::tune_nodes_test {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Words(const std::string& line) {
  std::vector<std::string> words;
  for (const auto word : common::Split(line, ' ')) {
    words.emplace_back(word);
  }
  return words;
}

std::string OnNodesLine(const std::string& line) {
  std::string text;
  for (const std::string& word : OnNodes(Words(line))) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

TEST(OnNodes, AddsARendezvousToTorchrunForOneNode) {
  const std::string added =
      "torchrun --nnodes={nodes} --rdzv_id=oppa --rdzv_backend=c10d "
      "--rdzv_endpoint={master_addr}:{master_port} ";
  EXPECT_EQ(OnNodesLine("torchrun --standalone --nproc-per-node=8 t.py"),
            added + "--nproc-per-node=8 t.py");
  EXPECT_EQ(OnNodesLine("env A=1 /opt/torchrun t.py --lr 1"),
            "env A=1 /opt/" + added + "t.py --lr 1");
  for (const char* given :
       {"torchrun --nnodes=2 --rdzv-endpoint=h:1 t.py", "srun python t.py"}) {
    EXPECT_EQ(OnNodesLine(given), given);
  }
}

TEST(RanksLine, StartsACommandOnEachOfSeveralNodes) {
  const ManifestLine line = RanksLine({"torchrun"}, 2);
  EXPECT_EQ(line.key + " = " + line.value, "ranks = \"per-node\"");
  EXPECT_EQ(RanksLine({"torchrun"}, 1).key, "");
  EXPECT_EQ(RanksLine({"/usr/bin/srun", "python"}, 2).key, "");
}

std::string SlurmText(const NodeOptions& options, int cpus = 0) {
  return ToText({"", {SlurmSection(options, cpus)}});
}

TEST(SlurmSection, IsATableForTheOptionsOfSbatch) {
  const std::string text =
      SlurmText({.slurm = "trial",
                 .sbatch = "--partition=a100 --time=1-2:30:00  --account=me "
                           "--constraint=nvlink --mem=0 --exclusive"});
  const auto table = common::TomlTable::ParseString(text, "m.toml");
  const auto options = harness::ReadSlurmOptions(table.GetTable("slurm"), {});
  EXPECT_EQ(options.partition, "a100");
  EXPECT_EQ(options.account, "me");
  EXPECT_EQ(options.constraint, "nvlink");
  EXPECT_EQ(options.time_minutes, 26 * 60 + 30);
  EXPECT_EQ(options.cpus, 0);
  EXPECT_THAT(options.options, ElementsAre("--mem=0", "--exclusive"));
}

TEST(SlurmSection, ReadsTimesAsSbatchDoes) {
  for (const auto& [time, minutes] :
       std::vector<std::pair<std::string, int>>{{"90", 90},
                                                {"90:30", 90},
                                                {"4:00:00", 240},
                                                {"2-0", 2880},
                                                {"1-1:05", 1505},
                                                {"0:0:10", 1}}) {
    EXPECT_THAT(SlurmText({.slurm = "trial", .sbatch = "--time=" + time}),
                HasSubstr("time_minutes = " + std::to_string(minutes) + "\n"))
        << time;
  }
  for (const char* bad : {"--time=soon", "a100", "--time=1-1:1:1:1", "-p x"}) {
    EXPECT_THROW((void)SlurmText({.slurm = "trial", .sbatch = bad}),
                 common::InputError)
        << bad;
  }
}

}  // namespace jobs::tune_nodes_test
