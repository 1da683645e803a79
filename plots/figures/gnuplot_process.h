// Runs gnuplot.

#ifndef PLOTS_FIGURES_GNUPLOT_PROCESS_H_
#define PLOTS_FIGURES_GNUPLOT_PROCESS_H_

#include <filesystem>
#include <string>
#include <vector>

namespace plots {

// The scripts of one folder, and the pictures that they draw.
struct GnuplotJob {
  std::filesystem::path folder;
  std::vector<std::string> scripts;   // file names
  std::vector<std::string> pictures;  // file names, with their format
};

// Runs `program` once per job over all its scripts; as many processes at a time
// as there are cores. The pictures are drawn in a temporary folder inside the
// job's and moved when they are complete, so that two reports at once, or a
// full disk, never leave half a picture. Returns "" or, in one line, the error
// and the remedy. Scripts and data are kept in any case.
[[nodiscard]] std::string RunGnuplot(const std::vector<GnuplotJob>& jobs,
                                     const std::string& program = "gnuplot");

}  // namespace plots

#endif  // PLOTS_FIGURES_GNUPLOT_PROCESS_H_
