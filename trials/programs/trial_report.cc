#include "trials/programs/trial_report.h"

#include <algorithm>
#include <stdexcept>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "common/error.h"
#include "common/json.h"

namespace trials {
namespace {

using common::Json;

constexpr std::string_view kWord = "oppa";
constexpr std::string_view kSpaces = " \t";
constexpr std::size_t kShown = 200;  // bytes of a report in a message
constexpr int kMostBroken = 8;       // per line, after which the rest is output
constexpr int kRecentLines = 8;

// A number of a report; above 0 where `least` is.
double Number(const Json& value, std::string_view key, double least,
              double most) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= least) || !(number <= most)) {
    throw std::invalid_argument(fmt::format(
        "{} = {}: must be a number {} 0, from {:g} to {:g}", key,
        common::ToText(value), least > 0.0 ? ">" : ">=", least, most));
  }
  return number;
}

Outcome Status(const Json& value) {
  if (value == "out_of_memory") {
    return Outcome::kOutOfMemory;
  }
  if (value == "failed") {
    return Outcome::kFailed;
  }
  if (value == "diverged") {
    return Outcome::kDiverged;
  }
  throw std::invalid_argument(fmt::format(
      "status = {}: must be \"out_of_memory\", \"failed\" or \"diverged\"",
      common::ToText(value)));
}

TrialReport FromJson(const Json& json) {
  TrialReport report;
  for (const auto& [key, value] : json.items()) {
    if (key == "step_time_s") {
      report.step_time_s =
          Number(value, key, kLeastStepSeconds, kMostStepSeconds);
    } else if (key == "peak_memory_bytes") {
      report.peak_memory_bytes = Number(value, key, 0.0, kMostMemoryBytes);
    } else if (key == "loss") {
      report.loss = value.is_number() ? value.get<double>() : kUnknown;
    } else if (key == "skipped") {
      report.is_skipped = value == true;
    } else if (key == "status") {
      report.status = Status(value);
    } else if (key == "message") {
      report.message =
          value.is_string() ? value.get<std::string>() : common::ToText(value);
      std::ranges::replace(report.message, '\n', ' ');  // it is one line
    } else {
      throw std::invalid_argument(
          fmt::format("unknown key '{}'; known: step_time_s, "
                      "peak_memory_bytes, loss, skipped, status, message",
                      key));
    }
  }
  return report;
}

// The object at the beginning of the text, up to the brace that closes it;
// empty if none does.
std::string_view ObjectAt(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      quoted = c != '"';
      i += c == '\\' ? 1 : 0;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return text.substr(0, i + 1);
    }
  }
  return {};
}

// The JSON of an object; nothing if it is not valid JSON.
std::optional<Json> Parse(std::string_view object) {
  try {
    return common::ParseJson(object, "report");
  } catch (const common::InputError&) {
    return std::nullopt;
  }
}

// A step or a peak whose word got lost.
bool LooksLikeReport(std::string_view object) {
  const std::size_t begin = object.find_first_not_of(kSpaces, 1);
  const std::string_view key = object.substr(std::min(begin, object.size()));
  return key.starts_with("\"step_time_s\"") ||
         key.starts_with("\"peak_memory_bytes\"");
}

// The word as a part of a path or of a longer name.
bool IsPartOfName(std::string_view line, std::size_t word) {
  constexpr std::string_view kJoins = "/._-";
  const std::size_t end = word + kWord.size();
  return (word > 0 && kJoins.find(line[word - 1]) != std::string_view::npos) ||
         (end < line.size() &&
          kJoins.find(line[end]) != std::string_view::npos);
}

}  // namespace

std::size_t ReportReader::NextBrace(std::string_view line, std::size_t at,
                                    bool& has_word) {
  while (true) {
    const std::size_t word = line.find(kWord, at);
    const std::size_t brace = line.find('{', at);
    if (word == std::string_view::npos &&
        (brace == std::string_view::npos || words_ == 0)) {
      return std::string_view::npos;
    }
    has_word = word < brace;
    if (!has_word) {
      if (words_ > 0 && LooksLikeReport(line.substr(brace))) {
        return brace;
      }
      at = brace + 1;
      continue;
    }
    at = word + kWord.size();
    const std::size_t next = line.find_first_not_of(kSpaces, at);
    if (next != std::string_view::npos && line[next] == '{') {
      return next;
    }
    if (!IsPartOfName(line, word)) {
      ++words_;
      lines_since_ = 0;
    }
  }
}

ReportReader::Line ReportReader::Read(std::string_view line) {
  Line found;
  int broken = 0;
  if (++lines_since_ > kRecentLines) {
    words_ = 0;
  }
  bool has_word = false;
  std::size_t brace = NextBrace(line, 0, has_word);
  for (std::size_t at = 0;
       broken < kMostBroken && brace != std::string_view::npos;
       brace = NextBrace(line, at, has_word)) {
    at = brace + 1;
    const std::string_view object = ObjectAt(line.substr(brace));
    const std::optional<Json> json =
        object.empty() ? std::nullopt : Parse(object);
    if (!json) {
      ++broken;
      if (found.broken.empty()) {
        found.broken = line.substr(brace, kShown);
      }
      continue;
    }
    at = brace + object.size();
    words_ -= has_word ? 0 : 1;
    try {
      found.reports.push_back(FromJson(*json));
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument(fmt::format(
          "invalid report '{}': {}", object.substr(0, kShown), e.what()));
    }
  }
  return found;
}

void LineReader::Take(std::string_view piece, const OnLine& on_line) {
  while (!piece.empty()) {
    const std::size_t end = piece.find_first_of("\r\n");
    const std::string_view text = piece.substr(0, end);
    line_ += text.substr(0, kLongest - std::min(line_.size(), kLongest));
    if (end == std::string_view::npos) {
      return;
    }
    Finish(on_line);
    piece.remove_prefix(end + 1);
  }
}

void LineReader::Finish(const OnLine& on_line) {
  if (!line_.empty()) {
    on_line(line_);
    line_.clear();
  }
}

std::filesystem::path TemporaryFolder() {
  std::error_code error;
  auto folder = std::filesystem::temp_directory_path(error);
  return error ? "/tmp" : folder;
}

ReportFile::ReportFile(const std::filesystem::path& path)
    : path_(std::filesystem::absolute(path)) {
  try {
    file_ = common::CreateFile(path_, O_RDONLY);
  } catch (const std::runtime_error&) {
    file_ = common::CreateTemporary(TemporaryFolder() / "oppa-report", O_RDONLY,
                                    path_);
  }
}

ReportFile::~ReportFile() { common::Remove(path_); }

std::string ReportFile::Read() {
  constexpr std::size_t kPiece = 1 << 20;
  std::string text(std::min(left_, kPiece), '\0');
  const ssize_t got = ::read(file_.get(), text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  left_ -= text.size();
  return text;
}

}  // namespace trials
