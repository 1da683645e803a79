// Writes figures to files.

#ifndef PLOTS_FIGURE_FILES_H_
#define PLOTS_FIGURE_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.h"
#include "plots/figure.h"

namespace plots {

// Figures of one folder.
struct FigureFolder {
  std::filesystem::path folder;
  std::vector<Figure> figures;
};

struct FigureFiles {
  std::vector<std::filesystem::path> files;  // written, in order
  std::string error;  // why pictures are missing, as one line; "": none is
};

// Writes <figure>.csv and <figure>.gp of every figure and draws them in each
// format ("pdf", "svg", "png"). Without a format nothing is drawn, and the
// scripts are for all three. A missing gnuplot is reported in `error`.
//
// Errors: throws InputError when a file cannot be written.
[[nodiscard]] FigureFiles WriteFigures(const std::vector<FigureFolder>& folders,
                                       const std::vector<std::string>& formats);

// "pdf", "svg", "png".
[[nodiscard]] const std::vector<std::string>& AllFormats();

// Writes atomically: a reader never sees a partial table. Errors: as above.
void WriteTextFile(const std::filesystem::path& path,
                   const std::string& content);

}  // namespace plots

#endif  // PLOTS_FIGURE_FILES_H_
