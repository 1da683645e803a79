// The text of a manifest, made of sections.

#pragma once

#include <string>
#include <vector>

namespace jobs {

// key = value  # comment
struct ManifestLine {
  std::string key = {};      // "": the line is a comment, or left out
  std::string value = {};    // in TOML
  std::string comment = {};  // "": none
  bool holds = true;         // false: the line is commented out
};

struct ManifestSection {
  std::string header = {};   // the name of the table
  std::string comment = {};  // lines above it; "": none
  std::vector<ManifestLine> lines = {};
};

struct ManifestDraft {
  std::string comment;  // lines at the top
  std::vector<ManifestSection> sections;
};

// An empty line parts sections; one without a header is left out.
[[nodiscard]] std::string ToText(const ManifestDraft& draft);

// The text as a string in TOML, with its quotes.
// Errors: throws InputError for text that is not UTF-8.
[[nodiscard]] std::string TomlString(const std::string& text);
// A list of such strings.
[[nodiscard]] std::string TomlList(const std::vector<std::string>& texts);

}  // namespace jobs
