// The methods of a manifest.

#ifndef HARNESS_MANIFEST_MANIFEST_METHODS_H_
#define HARNESS_MANIFEST_MANIFEST_METHODS_H_

#include <vector>

#include "common/error.h"
#include "common/toml_table.h"
#include "harness/spec.h"

namespace harness {

// The methods that [experiment] or the command line names, each with its table
// [method.NAME] if there is one. Every list in a method's table makes variants
// of the method, named METHOD-OPTION-VALUE.
// Errors: throws InputError for an unknown method, a name that cannot be a
// folder, a method that is listed twice, and an experiment without methods.
[[nodiscard]] std::vector<MethodSpec> ReadMethods(
    const common::TomlTable& root, const common::TomlTable& experiment,
    const ManifestOverrides& overrides);

}  // namespace harness

#endif  // HARNESS_MANIFEST_MANIFEST_METHODS_H_
