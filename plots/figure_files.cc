#include "plots/figure_files.h"

#include <cstddef>

#include <fmt/format.h>

#include "common/error.h"
#include "common/files.h"

namespace plots {
namespace {

namespace fs = std::filesystem;

void Write(const fs::path& path, const std::string& content,
           FigureFiles& written) {
  WriteTextFile(path, content);
  written.files.push_back(path);
}

// Adds the remedy to what cannot be written.
void WithRemedy(const auto& write) {
  try {
    write();
  } catch (const std::runtime_error& e) {
    throw common::InputError(
        fmt::format("{}; choose another folder (--results)", e.what()));
  }
}

// Writes data and script of one figure; adds the script to the job.
void WriteFigure(const Figure& figure, const std::vector<std::string>& formats,
                 GnuplotJob& job, FigureFiles& written) {
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    Write(job.folder / DataFileName(figure, i), DataCsv(figure.panels[i]),
          written);
  }
  job.scripts.push_back(figure.name + ".gp");
  Write(job.folder / job.scripts.back(), Script(figure, formats), written);
  for (const std::string& format : formats) {
    job.pictures.push_back(figure.name + "." + format);
  }
}

}  // namespace

void WriteTextFile(const fs::path& path, const std::string& content) {
  WithRemedy([&] { common::ReplaceFile(path, content); });
}

FigureFiles WriteFigures(const std::vector<FigureFolder>& folders,
                         const std::vector<std::string>& formats) {
  // A script without a format would draw nothing.
  const std::vector<std::string>& script_formats =
      formats.empty() ? AllFormats() : formats;
  FigureFiles written;
  std::vector<GnuplotJob> jobs;
  for (const FigureFolder& of_folder : folders) {
    if (of_folder.figures.empty()) {
      continue;
    }
    GnuplotJob& job = jobs.emplace_back();
    job.folder = of_folder.folder;
    WithRemedy([&job] { common::CreateFolders(job.folder); });
    for (const Figure& figure : of_folder.figures) {
      WriteFigure(figure, script_formats, job, written);
    }
  }
  if (formats.empty()) {
    return written;
  }
  written.error = RunGnuplot(jobs);
  for (const GnuplotJob& job : jobs) {
    for (const std::string& picture : job.pictures) {
      if (written.error.empty()) {
        written.files.push_back(job.folder / picture);
      }
    }
  }
  return written;
}

const std::vector<std::string>& AllFormats() {
  static const std::vector<std::string> formats = {"pdf", "svg", "png"};
  return formats;
}

}  // namespace plots
