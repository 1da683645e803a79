// Writes figures to files.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

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

// A script that draws the figure in each format ("pdf", "svg", "png"); run it
// in the folder of the data.
[[nodiscard]] std::string Script(const Figure& figure,
                                 const std::vector<std::string>& formats);

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

// Writes atomically: a reader never sees a partial table. Errors: as above.
void WriteTextFile(const std::filesystem::path& path,
                   const std::string& content);

}  // namespace plots
