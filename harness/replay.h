// The replay of a journal when a search resumes.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "harness/records/journal.h"
#include "methods/method.h"
#include "trials/record.h"
#include "trials/search_space.h"
#include "trials/trial.h"

namespace harness {

// The rows of fits.csv for the trial of a suggestion.
[[nodiscard]] std::vector<trials::FitRecord> FitRecords(
    int trial, const methods::Suggestion& suggestion);

// Returns the trials on record, in the order in which they ended.
class Replay {
 public:
  // The method was given the trials up to `adopted` without suggesting them.
  // All must outlive the object.
  Replay(const trials::SearchSpace& space, const methods::History& history,
         Journal& journal, int adopted);

  // The next trial; nullptr after the last.
  [[nodiscard]] const trials::Trial* Next() const;

  // Whether the method need not suggest the next trial: it is imported, ran
  // with other input, or, in a search that is `idle`, was wanted by the user.
  [[nodiscard]] bool IsAdopted(bool idle) const;

  // Whether a suggestion with this place was made before the end of a trial on
  // record: today's limits do not apply to it.
  [[nodiscard]] bool Covers(int place) const { return place <= last_place_; }

  // The place of the next trial among the suggestions.
  [[nodiscard]] int place() const { return PlaceOf(*Next()); }

  // Passes the next trial, an adopted one. Returns it as the method observes
  // it; nothing if it is no candidate or was tried.
  std::optional<trials::Trial> Adopt();

  // Passes the next trial, and returns it. Null: nothing has that place.
  // Errors: throws InputError unless the suggestion explains the record.
  trials::Trial Confirm(const methods::Suggestion* suggestion);

 private:
  [[nodiscard]] static int PlaceOf(const trials::Trial& recorded) {
    return recorded.suggestion.value_or(recorded.number);
  }
  [[nodiscard]] bool HasOtherInput(const trials::Trial& recorded) const;
  [[nodiscard]] bool IsOf(const trials::Trial& recorded,
                          const methods::Suggestion& suggestion) const;

  const trials::SearchSpace& space_;
  const methods::History& history_;
  Journal& journal_;
  int adopted_;
  std::size_t next_ = 0;
  int last_place_ = 0;  // of the trials that are not adopted
};

}  // namespace harness
