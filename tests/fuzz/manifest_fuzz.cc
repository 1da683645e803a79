// Any manifest is read, or refused with an InputError.

#include "common/error.h"
#include "harness/manifest.h"
#include "harness/plan.h"
#include "harness/slurm/slurm_options.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::filesystem::path path = fuzz::Folder() / "m.toml";
  fuzz::Write(path, fuzz::Text(data, size));
  try {
    const harness::Manifest manifest = harness::ReadManifest(path);
    for (const harness::ProblemSpec& problem : manifest.problems) {
      for (const harness::MethodSpec& method : manifest.methods) {
        (void)harness::RunHash(manifest, problem, method, {});
      }
    }
    (void)harness::ReadSlurmOptions(manifest.slurm, {});
  } catch (const common::InputError&) {
  }
  return 0;
}
