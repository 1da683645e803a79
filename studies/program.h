// The main function of a study.

#ifndef STUDIES_PROGRAM_H_
#define STUDIES_PROGRAM_H_

#include <exception>
#include <functional>
#include <iostream>
#include <string_view>

#include "studies/output.h"

namespace studies {

// Runs the study and returns the program's exit code: 2 with one line on
// standard error for wrong arguments and for an error.
inline int RunProgram(bool arguments_are_valid, std::string_view usage,
                      const std::function<int(const Sink&)>& study) {
  if (!arguments_are_valid) {
    std::cerr << "usage: " << usage << '\n';
    return 2;
  }
  try {
    return study({std::cout, std::cerr});
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}

}  // namespace studies

#endif  // STUDIES_PROGRAM_H_
