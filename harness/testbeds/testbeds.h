// The list of testbeds, which a manifest selects by name.

#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/testbed.h"

namespace harness {

// A testbed that a manifest can select as its backend.
struct TestbedEntry {
  std::string name;
  std::string description;
  std::function<Testbed(const ProblemSpec&)> make;
  // The clock is virtual, and the result of a trial is a function of the
  // request. Other testbeds need the cluster and real time.
  bool simulated = true;
  // Its measurements are of one job, whatever [workload] and [cluster] say.
  bool measured = false;
};

[[nodiscard]] const std::vector<TestbedEntry>& TestbedTypes();
[[nodiscard]] std::vector<std::string> TestbedNames();
[[nodiscard]] const TestbedEntry* FindTestbed(std::string_view name);

// TestbedEntry::simulated of the problem's backend; true for an unknown one.
[[nodiscard]] bool IsSimulated(const ProblemSpec& problem);

// Makes the testbed of a problem and rejects unknown keys in its tables.
// Errors: throws InputError with the place in the manifest.
[[nodiscard]] Testbed MakeTestbed(const ProblemSpec& problem);

// The testbeds of problems, each made when it is first needed. Their problems
// must not move. One thread at a time may use an object.
class Testbeds {
 public:
  // Errors: as MakeTestbed.
  [[nodiscard]] Testbed& Of(const ProblemSpec& problem) const;

 private:
  mutable std::map<const ProblemSpec*, Testbed> made_;
};

}  // namespace harness
