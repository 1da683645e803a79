// Families that a search has used, for leaving an exhausted neighborhood.

#ifndef METHODS_OPPA_FAMILIES_H_
#define METHODS_OPPA_FAMILIES_H_

#include <vector>

#include "methods/history.h"
#include "trials/families.h"

namespace methods {

// For every candidate 1 if a member of its family gave a throughput or it was
// tried itself, [N]; empty once that leaves no candidate. A family of which all
// trials failed is not used: a member with less memory may fit.
[[nodiscard]] std::vector<char> UsedFamilies(const trials::Families& families,
                                             const History& history);

}  // namespace methods

#endif  // METHODS_OPPA_FAMILIES_H_
