// The information in another repetition of a query: Figs. 11-13 of the paper.

#ifndef STUDIES_EARLY_TERMINATION_DEMONSTRATION_H_
#define STUDIES_EARLY_TERMINATION_DEMONSTRATION_H_

#include "studies/output.h"

namespace studies {

// A function of one variable on [0, 5], known at three places, is queried
// again and again at one further place: where it is not best (x = 2), and
// where it is (x = 4.2). After 0, 1, 20 and 100 queries: the posterior, where
// the maximum may be, and how large it may be.
//
// Source: OPPA App. F.3.1.
[[nodiscard]] Output DemonstrateRepeats();

}  // namespace studies

#endif  // STUDIES_EARLY_TERMINATION_DEMONSTRATION_H_
