// The registered methods and their options as text, for `oppa methods`.

#ifndef HARNESS_MANIFEST_METHOD_TEXT_H_
#define HARNESS_MANIFEST_METHOD_TEXT_H_

#include <string>

namespace harness {

// All methods, one per line; or the options of one method.
// Errors: throw InputError for an unknown name.
[[nodiscard]] std::string MethodsText(const std::string& name = "");
[[nodiscard]] std::string MethodsJson(const std::string& name = "");

// Every method and option, as a page.
[[nodiscard]] std::string MethodsMarkdown();

}  // namespace harness

#endif  // HARNESS_MANIFEST_METHOD_TEXT_H_
