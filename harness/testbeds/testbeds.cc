#include "harness/testbeds/testbeds.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/error.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "harness/predictions/predictions.h"
#include "harness/spec.h"
#include "harness/testbeds/program.h"
#include "harness/testbeds/replayed.h"
#include "harness/testbeds/simulated.h"

namespace harness {

const std::vector<TestbedEntry>& TestbedTypes() {
  static const std::vector<TestbedEntry> testbeds = {
      {"simulator", "a GPU cluster in software", MakeSimulator},
      {"replay", "a table of measured configurations", MakeReplay, true, true},
      {"command", "a training program of your own", MakeCommand, false},
      {"client", "a client of `oppa serve`, such as a Python program",
       MakeClient, false},
      {"trainer", "the training program of this project", MakeTrainer, false},
  };
  return testbeds;
}

std::vector<std::string> TestbedNames() {
  return common::NamesIn(TestbedTypes(), &TestbedEntry::name);
}

const TestbedEntry* FindTestbed(std::string_view name) {
  const auto found =
      std::ranges::find(TestbedTypes(), name, &TestbedEntry::name);
  return found == TestbedTypes().end() ? nullptr : &*found;
}

bool IsSimulated(const ProblemSpec& problem) {
  const TestbedEntry* entry =
      FindTestbed(problem.backend.GetString("type", ""));
  return entry == nullptr || entry->simulated;
}

Testbed MakeTestbed(const ProblemSpec& problem) {
  const std::string type =
      problem.backend.RequireOneOf("type", "backend", TestbedNames());
  const TestbedEntry* entry = FindTestbed(type);
  Testbed testbed = WithPlace(problem.backend, "backend",
                              [&] { return entry->make(problem); });
  testbed.type = type;
  testbed.valuation.objective = problem.objective;
  if (const std::string why = testbed.valuation.ProblemOn(testbed.machine);
      !why.empty()) {
    throw common::InputError(
        fmt::format("{}: {}", problem.cluster.Where(), why));
  }
  testbed.simulated = entry->simulated;
  // A plan uses the whole machine.
  testbed.runs_plans = testbed.runs_plans && !testbed.machine.resizable();
  testbed.predictions = Memoized(PredictionsOf(problem, testbed));
  CheckPlanners(problem, testbed);
  testbed.gpu_power_w = problem.cluster.GetPositive("power_per_gpu_w", 0.0);
  for (const common::TomlTable* table :
       {&problem.backend, &problem.noise, &problem.workload, &problem.cluster,
        &problem.space, &problem.predictions}) {
    table->RejectUnknownKeys();
  }
  return testbed;
}

Testbed& Testbeds::Of(const ProblemSpec& problem) const {
  const auto found = made_.find(&problem);
  return found != made_.end()
             ? found->second
             : made_.emplace(&problem, MakeTestbed(problem)).first->second;
}

}  // namespace harness
