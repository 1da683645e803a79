// Lists of a [space] table that restrict nothing.

#ifndef TRIALS_INERT_LISTS_H_
#define TRIALS_INERT_LISTS_H_

#include <string>

#include "trials/search_space.h"

namespace trials {

// A sentence that names the parameters whose listed values have no effect in
// any configuration of the space: "the list of model_chunks has no effect: no
// configuration has pp > 1". "" if there are none, or if the only value is the
// default.
[[nodiscard]] std::string InertLists(const SearchSpaceOptions& options,
                                     const SearchSpace& space);

}  // namespace trials

#endif  // TRIALS_INERT_LISTS_H_
