// Families that a search has used, for leaving an exhausted neighborhood.

#ifndef METHODS_OPPA_FAMILIES_H_
#define METHODS_OPPA_FAMILIES_H_

#include <vector>

#include "methods/history.h"
#include "trials/families.h"

namespace methods {

// For every candidate, 1 if a member of its family has a throughput or if the
// candidate itself was tried, [N]; empty if no candidate is left. A family of
// which all trials failed is not used: a member with less memory may fit.
[[nodiscard]] std::vector<char> UsedFamilies(const trials::Families& families,
                                             const History& history);

}  // namespace methods

#endif  // METHODS_OPPA_FAMILIES_H_
