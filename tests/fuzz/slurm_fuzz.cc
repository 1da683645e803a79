// Any answer of Slurm's commands, and any file of a submission, is read, or
// refused with an InputError.

#include <cstdlib>

#include "common/error.h"
#include "common/text.h"
#include "harness/slurm/slurm_commands.h"
#include "harness/slurm/slurm_queue.h"
#include "harness/slurm/submission.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string_view text = fuzz::Text(data, size);
  if (harness::ParseJobId(text) < 0 || harness::FindComment(text, "a") < 0 ||
      harness::ParseMaxArraySize(text) <= 0) {
    std::abort();
  }
  for (const auto& [job, entry] : harness::ParseQueue(text)) {
    (void)entry.End();
    (void)entry.IsStuck();
    (void)entry.IsLaunchFailedHold();
    (void)entry.IsHeldByUser();
    (void)entry.WaitsForNodes();
    (void)entry.Explain();
  }
  const auto parts = common::Split(text, '\0');
  if (parts.size() < 2) {
    return 0;
  }
  fuzz::Write(fuzz::Folder() / "submission.json", parts[0]);
  fuzz::Write(fuzz::Folder() / "tasks.jsonl", parts[1]);
  try {
    (void)harness::ReadSubmission(fuzz::Folder());
  } catch (const common::InputError&) {
  }
  try {
    (void)harness::ReadTasks(fuzz::Folder());
  } catch (const common::InputError&) {
  }
  return 0;
}
