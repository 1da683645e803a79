#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/fakes/paths.h"
#include "trials/simulator/simulator.h"

// Times and memory of steps under every framework, as tests/golden/steps.txt
// has them. A line is a framework, changes of its constants (- for none) or
// what is offloaded, a model, a precision, a cluster, its hosts, a
// configuration, and the numbers of the report. A test that fails writes the
// file as it would be now; replace the old one if the change of the simulator
// is meant, and say in the commit how far predictions moved. Add a case by
// adding a line without numbers.

namespace trials::golden_test {

namespace fs = std::filesystem;

struct Case {
  std::string framework, constants, model, precision, cluster, config;
  int hosts = 1;

  [[nodiscard]] std::string Text() const {
    return fmt::format("{} {} {} {} {} {} {}", framework, constants, model,
                       precision, cluster, hosts, config);
  }
};

void ChangeConstants(const std::string& constants, Framework& framework) {
  std::istringstream in(constants);
  for (std::string item; std::getline(in, item, ',') && item != "-";) {
    const auto equals = item.find('=');
    const double number = std::stod(item.substr(equals + 1));
    bool found = false;
    VisitFields(framework,
                [&]<typename Type>(std::string_view key, Type& value, auto...) {
                  if (key == std::string_view(item).substr(0, equals)) {
                    value = static_cast<Type>(number);
                    found = true;
                  }
                });
    ASSERT_TRUE(found) << item;
  }
}

StepReport Simulate(const Case& one) {
  const fs::path folder = fakes::SourceFolder() / "experiments";
  Workload workload;
  workload.model = ReadModel(folder / "workloads" / (one.model + ".json"));
  workload.batch_size = 64;
  workload.sequence_length = workload.model.patch_size > 0 ? 197 : 512;
  workload.precision = one.precision == "fp32"   ? Precision::kFp32
                       : one.precision == "fp16" ? Precision::kFp16
                       : one.precision == "fp8"  ? Precision::kFp8
                                                 : Precision::kBf16;
  Cluster cluster = ReadCluster(folder / "clusters" / (one.cluster + ".toml"));
  cluster.nodes = one.hosts;
  Framework framework = FindFramework(one.framework);
  workload.training.offload = {one.constants.starts_with("offload"),
                               one.constants == "offload-all"};
  if (!workload.training.Offloads(Offloaded::kOptimizer)) {
    ChangeConstants(one.constants, framework);
  }
  return Simulator(workload, cluster, {.framework = framework})
      .Simulate(ParseParallelConfig(one.config));
}

std::vector<double> Numbers(const StepReport& report) {
  const auto& [forward, backward, recompute, head, optimizer, tensor, context,
               expert, data, pipeline, bubble, overhead] = report.time;
  std::vector<double> numbers = {forward,   backward, recompute, head,
                                 optimizer, tensor,   context,   expert,
                                 data,      pipeline, bubble,    overhead};
  for (const MemoryBreakdown& memory :
       {report.memory, report.first_stage_memory, report.last_stage_memory}) {
    const auto& [parameters, gradients, states, activations, logits, working,
                 buffers, pending, allocator, libraries] = memory;
    numbers.insert(numbers.end(),
                   {parameters, gradients, states, activations, logits, working,
                    buffers, pending, allocator, libraries});
  }
  return numbers;
}

TEST(Golden, StepsAreThoseOfTheFile) {
  std::ifstream file(fakes::SourceFolder() / "tests/golden/steps.txt");
  std::string now;
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    std::istringstream in(line);
    Case one;
    in >> one.framework >> one.constants >> one.model >> one.precision >>
        one.cluster >> one.hosts >> one.config;
    SCOPED_TRACE(one.Text());
    const std::vector<double> numbers = Numbers(Simulate(one));
    now += fmt::format("{} {:.7g}\n", one.Text(), fmt::join(numbers, " "));
    for (const double number : numbers) {
      double expected = 0.0;
      EXPECT_TRUE(in >> expected);
      EXPECT_NEAR(number, expected, 1e-6 * std::abs(expected) + 1e-15);
    }
  }
  EXPECT_GT(cases, 100);
  if (HasFailure()) {
    const fs::path path = fs::path(testing::TempDir()) / "steps.txt";
    std::ofstream(path) << now;
    ADD_FAILURE() << "the steps of this build: " << path;
  }
}

}  // namespace trials::golden_test
