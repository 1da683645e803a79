#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "common/files.h"
#include "common/parallel.h"
#include "common/process.h"
#include "plots/figure_files.h"

namespace plots {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRemedy =
    "install it (Debian, Ubuntu: apt-get install gnuplot-nox), then run the "
    "report again; the scripts (*.gp) and their data are written";

// Whether a picture ends as its format does.
bool IsComplete(const fs::path& picture) {
  const std::string text = common::ReadFileIfExists(picture).value_or("");
  const std::string format = picture.extension();
  const std::string_view end = format == ".pdf"   ? "%%EOF"
                               : format == ".svg" ? "</svg>"
                                                  : "IEND\xAE\x42\x60\x82";
  const std::size_t last = text.find_last_not_of("\r\n");
  return last != std::string::npos &&
         std::string_view(text).substr(0, last + 1).ends_with(end);
}

// The informative line of gnuplot's output: gnuplot repeats the
// command, marks the place with a caret, and then names file and line.
std::string FirstError(const std::string& output) {
  const std::size_t at = output.find(" line ");
  if (at == std::string::npos) {
    return output.substr(0, output.find('\n'));
  }
  const std::size_t newline = output.rfind('\n', at);
  const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return output.substr(begin, output.find('\n', at) - begin);
}

// Moves the complete ones of the job's pictures into its folder; returns the
// names of the others.
std::vector<std::string> TakePictures(const GnuplotJob& job,
                                      const fs::path& drawing) {
  std::vector<std::string> missing;
  for (const std::string& picture : job.pictures) {
    const fs::path drawn = drawing / picture;
    if (!IsComplete(drawn) || !common::Rename(drawn, job.folder / picture)) {
      missing.push_back(picture);
    }
  }
  return missing;
}

std::string RunOne(const GnuplotJob& job, const std::string& program) {
  fs::path drawing;
  common::Descriptor lock;
  try {
    common::RemoveAbandoned(job.folder);
    lock = common::CreateTemporaryFolder(job.folder / ".drawing", drawing);
  } catch (const std::runtime_error& e) {
    return fmt::format("no pictures: {}", e.what());
  }
  std::vector<std::string> words = {program};
  words.insert(words.end(), job.scripts.begin(), job.scripts.end());
  std::vector<std::string> environment = common::CurrentEnvironment();
  std::erase_if(environment, [](const std::string& variable) {
    return variable.starts_with("GNUPLOT_LIB=");
  });
  environment.emplace_back("GNUPLOT_LIB=..");  // where scripts and data are
  const common::CommandResult result = common::RunCommand(
      common::InFolder(drawing.string(), words), environment);
  const std::vector<std::string> missing = TakePictures(job, drawing);
  lock.Close();
  common::RemoveAbandoned(job.folder);
  constexpr int kNotStarted = 127;
  if (result.exit_code == kNotStarted) {
    return fmt::format("no pictures: {} was not found: {}", program, kRemedy);
  }
  if (result.exit_code != 0) {
    return fmt::format("{} failed in {}: {}; run it there by hand to see more",
                       program, job.folder.string(),
                       FirstError(result.errors + result.output));
  }
  return missing.empty()
             ? ""
             : fmt::format("{} did not complete {} in {}; is the disk full?",
                           program, fmt::join(missing, ", "),
                           job.folder.string());
}

}  // namespace

std::string RunGnuplot(const std::vector<GnuplotJob>& jobs,
                       const std::string& program) {
  std::vector<std::string> errors(jobs.size());
  common::ParallelFor(static_cast<int>(jobs.size()), common::Cores(),
                      [&](int, int i) {
                        const auto at = static_cast<std::size_t>(i);
                        errors[at] = RunOne(jobs[at], program);
                      });
  const auto first =
      std::ranges::find_if(errors, [](const auto& e) { return !e.empty(); });
  return first == errors.end() ? "" : *first;
}

}  // namespace plots
