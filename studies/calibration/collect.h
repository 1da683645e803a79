// Collects the predictions of the surrogates into tables and figures.

#ifndef STUDIES_CALIBRATION_COLLECT_H_
#define STUDIES_CALIBRATION_COLLECT_H_

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "studies/calibration/held_out.h"
#include "studies/calibration/scores.h"
#include "studies/output.h"

namespace studies {

// Scores of every fit, and their means over problems and repeats.
class ScoreTable {
 public:
  void Add(const Fitted& fitted);
  [[nodiscard]] Output Take() const;  // scores.{csv,md}

 private:
  struct Sum {
    Scores total{};
    std::array<int, kScoreNames.size()> count{};
  };
  plots::Table scores_;
  std::map<std::pair<std::string, int>, Sum> sums_;
};

// Predicted against measured, after 10 and 20 trials of the first repeat:
// Figs. 6 and 20-22 (throughput), Fig. 23 (memory, with confusion matrices).
class PredictionFigures {
 public:
  void Add(const Fitted& fitted);
  [[nodiscard]] Output Take() const;  // predictions.{csv,md}, figures

 private:
  // Panels by variant and number of trials.
  using Panels = std::map<std::pair<std::string, int>, plots::Panel>;

  plots::Table drawn_;
  plots::Table confusion_;
  std::vector<std::string> problems_;  // in order
  std::map<std::string, Panels> throughput_;
  std::map<std::string, Panels> memory_;
};

// The logarithms of the length scales that "ours" learned from 20 trials of
// the first repeat: Table 5.
class LengthScaleTable {
 public:
  void Add(const Fitted& fitted);
  [[nodiscard]] Output Take() const;  // table5.{csv,md}

 private:
  std::vector<std::string> problems_;
  std::vector<std::string> fields_;
  std::map<std::pair<std::string, std::string>, double> logs_;
};

}  // namespace studies

#endif  // STUDIES_CALIBRATION_COLLECT_H_
