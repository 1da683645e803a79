// The ledger of the claims that papers make, decided by records and tables.

#ifndef STUDIES_CLAIMS_H_
#define STUDIES_CLAIMS_H_

#include <filesystem>
#include <vector>

#include "common/error.h"
#include "studies/output.h"

namespace studies {

// claims.{csv,md}, a row per claim and method. The comment at the head of
// experiments/studies/claims.csv describes the format of the file; `results`
// has the evidence.
//
// Errors: throws InputError "file:line: ..." for a claim that cannot be
// understood, and for evidence that is damaged. Evidence that is missing is a
// verdict.
[[nodiscard]] std::vector<Output> JudgeClaims(
    const std::filesystem::path& path, const std::filesystem::path& results);

}  // namespace studies

#endif  // STUDIES_CLAIMS_H_
