// The arguments that benchmarks/suggestion.py passes to its programs.

#pragma once

#include <stdexcept>
#include <string>

namespace benchmarks {

// The timed case: `--case NAME --n 50 --candidates 100000 --threads 2 --repeats
// 5`.
struct Arguments {
  std::string name;
  std::string folder;  // for what peers read
  int n = 50;
  int candidates = 100'000;
  int threads = 2;
  int repeats = 5;

  Arguments(int argc, char** argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
      const std::string key = argv[i];
      const std::string value = argv[i + 1];
      if (key == "--case") {
        name = value;
      } else if (key == "--folder") {
        folder = value;
      } else {
        Number(key) = std::stoi(value);
      }
    }
  }

 private:
  int& Number(const std::string& key) {
    if (key == "--n") {
      return n;
    }
    if (key == "--candidates") {
      return candidates;
    }
    if (key == "--threads") {
      return threads;
    }
    if (key == "--repeats") {
      return repeats;
    }
    throw std::invalid_argument("unknown argument " + key);
  }
};

}  // namespace benchmarks
