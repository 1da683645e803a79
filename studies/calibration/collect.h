// Collects the predictions of the surrogates into tables and figures.

#ifndef STUDIES_CALIBRATION_COLLECT_H_
#define STUDIES_CALIBRATION_COLLECT_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "studies/calibration/surrogates.h"
#include "studies/output.h"

namespace studies {

// Scores of every fit, and their means over problems and repeats.
class ScoreTable {
 public:
  void Add(const Fitted& fitted);
  [[nodiscard]] Output Take() const;  // scores.{csv,md}

 private:
  plots::Table scores_;
  std::map<std::pair<std::string, int>, std::vector<Scores>> by_surrogate_;
};

// Predicted against measured, in the first repeat: Figs. 6 and 20-22
// (throughput), Fig. 23 (memory, with confusion matrices).
class PredictionFigures {
 public:
  void Add(const Fitted& fitted);
  [[nodiscard]] Output Take() const;  // out_of_memory.{csv,md}, figures

 private:
  // Panels by variant and number of trials.
  using Panels = std::map<std::pair<std::string, int>, plots::Panel>;

  plots::Table confusion_;
  std::vector<std::string> problems_;  // in order
  std::map<std::string, Panels> throughput_;
  std::map<std::string, Panels> memory_;
};

// The logarithms of the length scales that the paper's OPPA and ours learned
// from 20 trials of the first repeat: Table 5.
class LengthScaleTable {
 public:
  void Add(const Fitted& fitted);
  [[nodiscard]] Output Take() const;  // table5.{csv,md}

 private:
  plots::Table data_;
  std::vector<std::string> fields_;
  std::vector<std::string> columns_;
  std::map<std::pair<std::string, std::string>, double> logs_;
};

}  // namespace studies

#endif  // STUDIES_CALIBRATION_COLLECT_H_
