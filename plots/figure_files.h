// Figures as files.

#ifndef PLOTS_FIGURE_FILES_H_
#define PLOTS_FIGURE_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.h"
#include "plots/figure.h"

namespace plots {

// Figures that lie in one folder.
struct FigureFolder {
  std::filesystem::path folder;
  std::vector<Figure> figures;
};

struct FigureFiles {
  std::vector<std::filesystem::path> files;  // what was written, in order
  std::string error;  // why there are no pictures, as one line; "" if there are
};

// Writes <figure>.csv and <figure>.gp of every figure and draws them in each
// format ("pdf", "svg", "png"). Without a format nothing is drawn, and the
// scripts are for all three. A missing gnuplot is no exception: see `error`.
//
// Errors: throws trials::InputError when a file cannot be written.
[[nodiscard]] FigureFiles WriteFigures(const std::vector<FigureFolder>& folders,
                                       const std::vector<std::string>& formats);

// A figure as what stands in its files.
struct FigureText {
  std::string name;
  std::string data;
  std::string script;  // for all three formats
};

// Writes <name>.csv and <name>.gp of every figure and draws them. Returns ""
// or, as one line, why there are no pictures. Errors: as above.
[[nodiscard]] std::string DrawFigures(const std::filesystem::path& folder,
                                      const std::vector<FigureText>& figures);

// "pdf", "svg", "png".
[[nodiscard]] const std::vector<std::string>& AllFormats();

// Through a temporary file and a rename: whoever looks at a running experiment
// never sees half a table. Errors: as above.
void WriteTextFile(const std::filesystem::path& path,
                   const std::string& content);

}  // namespace plots

#endif  // PLOTS_FIGURE_FILES_H_
