// Figures as gnuplot scripts.

#ifndef PLOTS_FIGURES_GNUPLOT_H_
#define PLOTS_FIGURES_GNUPLOT_H_

#include <string>
#include <vector>

#include "plots/figure.h"

namespace plots {

// A script that draws the figure in each format ("pdf", "svg", "png"); run it
// in the folder of the data.
[[nodiscard]] std::string Script(const Figure& figure,
                                 const std::vector<std::string>& formats);

}  // namespace plots

#endif  // PLOTS_FIGURES_GNUPLOT_H_
