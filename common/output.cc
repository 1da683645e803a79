#include "common/output.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <streambuf>

#include <sys/ioctl.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/files.h"

namespace common {
namespace {

struct Target {
  int fd;
  PrintableText text = {};
};

// The function of a stream of fopencookie(3): 0 is an error.
ssize_t WriteFiltered(void* target, const char* data, std::size_t size) {
  auto* const to = static_cast<Target*>(target);
  try {
    WriteAll(to->fd, "output", to->text.Take({data, size}));
    return static_cast<ssize_t>(size);
  } catch (const std::exception&) {  // errno has the reason
    return 0;
  }
}

std::FILE* Filtered(Target& target, bool lines) {
  std::FILE* const file = ::fopencookie(&target, "w", {.write = WriteFiltered});
  std::setvbuf(file, nullptr, lines ? _IOLBF : _IOFBF, BUFSIZ);
  return file;
}

// Passes what a stream of C++ gets to one of C.
class Passing final : public std::streambuf {
 public:
  explicit Passing(std::FILE* file) : file_(file) {}

 protected:
  int overflow(int c) override { return std::fputc(c, file_); }
  std::streamsize xsputn(const char* data, std::streamsize size) override {
    return static_cast<std::streamsize>(
        std::fwrite(data, 1, static_cast<std::size_t>(size), file_));
  }
  int sync() override { return std::fflush(file_); }

 private:
  std::FILE* file_;
};

}  // namespace

namespace {

// A control character of two bytes is 0xc2 and one of these.
bool IsC1(unsigned char byte) { return byte >= 0x80 && byte < 0xa0; }

bool IsControl(unsigned char byte) {
  return IsC1(byte) || byte == 0x7f ||
         (byte < 0x20 && byte != '\n' && byte != '\t');
}

}  // namespace

std::string PrintableText::Take(std::string_view piece) {
  std::string text;
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_rest = rest_ > 0 && (byte & 0xc0U) == 0x80;
    const bool is_control =
        is_rest ? is_c1_row_ && IsC1(byte) : IsControl(byte);
    if (is_c1_row_ && !is_control) {
      text += '\xc2';
    }
    is_c1_row_ = !is_rest && byte == 0xc2;
    rest_ = is_rest
                ? rest_ - 1
                : (byte < 0xc2 ? 0 : std::min(std::countl_one(byte) - 1, 3));
    if (!is_c1_row_) {
      text += is_control ? '?' : c;
    }
  }
  return text;
}

void FilterOutput() {
  static Target output{STDOUT_FILENO};
  static Target errors{STDERR_FILENO};
  stdout = Filtered(output, ::isatty(STDOUT_FILENO) != 0);
  stderr = Filtered(errors, true);
  static Passing to_output(stdout);
  static Passing to_errors(stderr);
  std::cout.rdbuf(&to_output);
  std::cerr.rdbuf(&to_errors);
}

namespace {

std::optional<bool> chosen_color;

}  // namespace

void ChooseColor(bool colored) { chosen_color = colored; }

Display StandardDisplay() {
  const auto is_set = [](const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  const bool dumb =
      !is_set("TERM") || std::string_view(std::getenv("TERM")) == "dumb";
  Display display{.live = terminal && !dumb,
                  .colored = chosen_color.value_or(terminal && !dumb &&
                                                   !is_set("NO_COLOR"))};
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    constexpr std::size_t kUsual = 80;
    display.columns = size.ws_col == 0 ? kUsual : size.ws_col;
  }
  return display;
}

void WriteControl(std::FILE* out, std::string_view sequence) {
  std::fflush(out);
  const int fd = ::fileno(out);
  (void)!::write(fd < 0 ? STDOUT_FILENO : fd, sequence.data(), sequence.size());
}

}  // namespace common
