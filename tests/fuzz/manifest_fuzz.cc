// Any manifest is read, or refused with an InputError.

#include "common/error.h"
#include "harness/experiment.h"
#include "harness/manifest/manifest.h"
#include "harness/manifest/slurm_options.h"
#include "harness/records/inputs.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::filesystem::path path = fuzz::Folder() / "m.toml";
  fuzz::Write(path, fuzz::Text(data, size));
  // Settings are read without a cluster, a model or a space.
  harness::Testbed testbed;
  testbed.predictions = [](const std::string&) {
    return harness::PredictionSource{};
  };
  try {
    const harness::Manifest manifest = harness::ReadManifest(path);
    for (const harness::ProblemSpec& problem : manifest.problems) {
      for (const harness::MethodSpec& method : manifest.methods) {
        (void)harness::InputsOf(manifest, problem, method, testbed);
      }
    }
    (void)harness::ReadSlurmOptions(manifest.slurm, {});
  } catch (const common::InputError&) {
  }
  return 0;
}
