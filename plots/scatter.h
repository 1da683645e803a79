// Predicted against measured values, as points about the diagonal.

#ifndef PLOTS_SCATTER_H_
#define PLOTS_SCATTER_H_

#include <filesystem>
#include <string>
#include <vector>

namespace plots {

struct ScatterPoint {
  std::string group;  // colour and legend: "A100: one host"
  std::string label;  // in the data file only: the scenario
  double measured = 0.0;
  double predicted = 0.0;
};

// Logarithmic axes of one unit and range, the diagonal and lines at 20 %
// above and below it.
//
// Source of the form: Aceso, Figs. 15 and 16.
struct Scatter {
  std::string name;  // of its files
  std::string title;
  std::string quantity;              // "step time (s)"
  std::vector<ScatterPoint> points;  // values > 0
};

// The points: group, label, measured, predicted.
[[nodiscard]] std::string DataCsv(const Scatter& scatter);

// A script that draws the figure in each format; run in the data's folder.
[[nodiscard]] std::string Script(const Scatter& scatter,
                                 const std::vector<std::string>& formats);

// Writes <name>.csv and <name>.gp of each figure into the folder and draws
// them as pdf, svg and png. Returns "" or, as one line, why there are no
// pictures.
[[nodiscard]] std::string WriteScatters(const std::filesystem::path& folder,
                                        const std::vector<Scatter>& scatters);

}  // namespace plots

#endif  // PLOTS_SCATTER_H_
