#include "plots/gnuplot_process.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <string_view>

#include <fmt/format.h>

#include "common/files.h"
#include "common/parallel.h"
#include "common/process.h"

namespace plots {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRemedy =
    "install it (Debian, Ubuntu: apt-get install gnuplot-nox), then run the "
    "report again; the scripts (*.gp) and their data are written";

// A folder that exists as long as this object.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& parent) {
    std::string name = parent / ".drawing-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      common::ThrowErrno(parent, "create a folder in");
    }
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

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

// The first line of gnuplot's output that says something: it repeats the
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

std::string RunOne(const GnuplotJob& job, const std::string& program) {
  const TemporaryFolder drawing(job.folder);
  std::vector<std::string> words = {program};
  words.insert(words.end(), job.scripts.begin(), job.scripts.end());
  std::vector<std::string> environment = common::CurrentEnvironment();
  std::erase_if(environment, [](const std::string& variable) {
    return variable.starts_with("GNUPLOT_LIB=");
  });
  environment.emplace_back("GNUPLOT_LIB=..");  // where scripts and data are
  const common::CommandResult result =
      common::RunCommand(words, environment, drawing.path());
  constexpr int kNotStarted = 127;
  if (result.exit_code == kNotStarted) {
    return fmt::format("no pictures: {}: {}", result.errors, kRemedy);
  }
  std::string incomplete;
  for (const std::string& picture : job.pictures) {
    if (IsComplete(drawing.path() / picture)) {
      fs::rename(drawing.path() / picture, job.folder / picture);
    } else {
      incomplete += (incomplete.empty() ? "" : ", ") + picture;
    }
  }
  if (result.exit_code != 0) {
    return fmt::format("{} failed in {}: {}; run it there by hand to see more",
                       program,
                       job.folder.string(),
                       FirstError(result.errors + result.output));
  }
  return incomplete.empty()
             ? ""
             : fmt::format("{} did not complete {} in {}; is the disk full?",
                           program,
                           incomplete,
                           job.folder.string());
}

}  // namespace

std::string RunGnuplot(const std::vector<GnuplotJob>& jobs,
                       const std::string& program) {
  std::vector<std::string> errors(jobs.size());
  common::ParallelFor(
      static_cast<int>(jobs.size()), common::Cores(), [&](int, int i) {
        const auto at = static_cast<std::size_t>(i);
        try {
          errors[at] = RunOne(jobs[at], program);
        } catch (const std::exception& e) {
          errors[at] = e.what();
        }
      });
  const auto first = std::find_if(
      errors.begin(), errors.end(), [](const auto& e) { return !e.empty(); });
  return first == errors.end() ? "" : *first;
}

}  // namespace plots
