// The registered methods and their options as text, for `oppa methods`.

#pragma once

#include <string>

namespace harness {

// All methods, one per line; or the options of one method.
// Errors: throw InputError for an unknown name.
[[nodiscard]] std::string MethodsText(const std::string& name = "");
[[nodiscard]] std::string MethodsJson(const std::string& name = "");

// Every method and option, as a page.
[[nodiscard]] std::string MethodsMarkdown();

}  // namespace harness
