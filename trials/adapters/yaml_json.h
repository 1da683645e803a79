// YAML as JSON: what Kubernetes reads of it, and the other way round.

#pragma once

#include <string>

#include "common/json.h"

namespace trials {

// A document of YAML, of which JSON is a part, with the types of YAML 1.1, as
// Kubernetes reads it: yes is true, and 0644 is 420. Comments are lost.
// Errors: throws std::invalid_argument, with the line, as ParseConfig.
[[nodiscard]] common::Json JsonOfYaml(const std::string& text);

// In block style, with a newline at the end; texts of several lines as literal
// blocks.
[[nodiscard]] std::string YamlOf(const common::Json& json);

}  // namespace trials
