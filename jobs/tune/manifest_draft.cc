#include "jobs/tune/manifest_draft.h"

#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/json.h"
#include "common/ranges.h"
#include "common/text.h"

namespace jobs {
namespace {

std::string CommentLines(const std::string& comment) {
  std::string text;
  const std::string printable = common::Printable(comment);
  for (const std::string_view line : common::Split(printable, '\n')) {
    text += line.empty() ? "" : fmt::format("# {}\n", line);
  }
  return text;
}

std::string LineText(const ManifestLine& line) {
  return line.key.empty()
             ? CommentLines(line.comment)
             : fmt::format("{}{} = {}{}{}\n", line.holds ? "" : "# ", line.key,
                           line.value, line.comment.empty() ? "" : "  # ",
                           common::Printable(line.comment));
}

}  // namespace

std::string ToText(const ManifestDraft& draft) {
  std::string text = CommentLines(draft.comment);
  for (const ManifestSection& section : draft.sections) {
    if (!section.header.empty()) {
      text += fmt::format("\n{}[{}]\n{}", CommentLines(section.comment),
                          section.header,
                          fmt::join(common::Map(section.lines, LineText), ""));
    }
  }
  return text;
}

std::string TomlString(const std::string& text) {
  try {
    std::string quoted = common::Json(text).dump();
    for (std::size_t at = 0; (at = quoted.find('\x7f', at)) != quoted.npos;) {
      quoted.replace(at, 1, "\\u007f");
    }
    return quoted;
  } catch (const common::Json::exception&) {
    throw common::InputError(fmt::format("'{}' is not UTF-8 text", text));
  }
}

std::string TomlList(const std::vector<std::string>& texts) {
  return fmt::format("[{}]", fmt::join(common::Map(texts, TomlString), ", "));
}

}  // namespace jobs
