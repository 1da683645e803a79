// Words as exec(3) and posix_spawn(3) want them.

#ifndef TRIALS_COMMAND_ARGV_H_
#define TRIALS_COMMAND_ARGV_H_

#include <string>
#include <vector>

namespace trials {

// Pointers into `words`, a null pointer last. They hold as long as `words`
// stays as it is.
inline std::vector<char*> Argv(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace trials

#endif  // TRIALS_COMMAND_ARGV_H_
