// The information in another repetition of a query: Figs. 11-13 of the paper.

#ifndef STUDIES_EARLY_TERMINATION_DEMONSTRATION_H_
#define STUDIES_EARLY_TERMINATION_DEMONSTRATION_H_

#include "studies/output.h"

namespace studies {

// A function of one variable on [0, 5], known at three places, is queried
// repeatedly at one further point: one that is not optimal (x = 2), and one
// that is (x = 4.2). The study shows, after 0, 1, 20 and 100 queries, the
// posterior and the distributions of the place and of the value of the maximum.
//
// Source: OPPA App. F.3.1.
[[nodiscard]] Output DemonstrateRepeats();

}  // namespace studies

#endif  // STUDIES_EARLY_TERMINATION_DEMONSTRATION_H_
