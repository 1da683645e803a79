// Standard output and error without the control characters of others.

#ifndef COMMON_OUTPUT_H_
#define COMMON_OUTPUT_H_

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace common {

// From here on, what is written to stdout, stderr, std::cout and std::cerr is
// Printable: names, titles, messages and logs come from files of others.
void FilterOutput();

// Makes text printable that arrives in pieces.
class PrintableText {
 public:
  // The text that follows the pieces before.
  [[nodiscard]] std::string Take(std::string_view piece);

 private:
  int rest_ = 0;            // bytes that complete a character of UTF-8
  bool is_c1_row_ = false;  // 0xC2 was read: the next byte decides
};

// Where standard output goes.
struct Display {
  bool live = false;        // a terminal on which a line can be replaced
  bool colored = false;     // it has colors, and NO_COLOR is not set
  std::size_t columns = 0;  // of the terminal; 0: there is none
};
[[nodiscard]] Display StandardDisplay();
// Colors, or none, from here on, whatever the terminal is.
void ChooseColor(bool colored);

// Writes a sequence that controls the terminal, past the filter.
void WriteControl(std::FILE* out, std::string_view sequence);

}  // namespace common

#endif  // COMMON_OUTPUT_H_
