// Runs gnuplot.

#ifndef PLOTS_GNUPLOT_PROCESS_H_
#define PLOTS_GNUPLOT_PROCESS_H_

#include <filesystem>
#include <string>
#include <vector>

namespace plots {

// Scripts of one folder.
struct GnuplotJob {
  std::filesystem::path folder;
  std::vector<std::string> scripts;  // file names; leave nothing behind
};

// Runs `program` once per job, in the job's folder, over all its scripts; as
// many processes at a time as there are cores. Returns "" or, as one line, what
// went wrong and the remedy. Scripts and data stay in any case.
[[nodiscard]] std::string RunGnuplot(const std::vector<GnuplotJob>& jobs,
                                     const std::string& program = "gnuplot");

}  // namespace plots

#endif  // PLOTS_GNUPLOT_PROCESS_H_
