// What the output of a training program says about its failure.

#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

namespace trials {

// A line of stderr begins so where the ssh of RunRanks failed.
inline constexpr const char* kSshFailure = "ssh to host ";

// Finds the last line of the first traceback of Python: that of the rank that
// failed first, where several ranks print to one pipe, as its failure makes the
// others fail. Lines may begin with the rank, as those of PyTorch ("[rank1]:"),
// torchrun --tee ("[default1]:"), mpirun ("[1,1]<stderr>:") and srun --label
// ("1:") do. If torchrun names a rank without a traceback, which was killed or
// ended by itself, it is its exit code and the last line before the traceback;
// without any traceback, before the lines of the launcher.
class ErrorLine {
 public:
  // The next line of one of the streams of the program.
  void Read(std::string_view line, int stream = 0);

  // The program has begun to train: a traceback before that did not end it.
  void Forget() {
    error_ = {};
    launch_.clear();
  }

  // Whether a whole traceback was read.
  [[nodiscard]] bool has_traceback() const { return error_.number > 0; }
  [[nodiscard]] std::string text() const;
  // The first line in which ssh, srun or mpirun says why it does not start the
  // program, or lost it; "" without one. It is also the text() where no rank
  // left a traceback.
  [[nodiscard]] const std::string& launch() const { return launch_; }
  // The number of lines up to that line, with it.
  [[nodiscard]] std::size_t lines() const {
    return IsSilent() ? last_.number : error_.number;
  }

 private:
  struct Line {
    std::string text;
    std::size_t number = 0;  // from 1; 0: none
  };

  void ReadLaunch(const std::string& text);
  // Reads a line of the launcher.
  void ReadSummary(const std::string& text);

  // The rank that failed first left no traceback.
  [[nodiscard]] bool IsSilent() const {
    return error_.number == 0 || (!failed_rank_.empty() && !ranks_.empty() &&
                                  !ranks_.contains(failed_rank_));
  }

  std::size_t count_ = 0;
  std::set<std::string> open_;   // tracebacks, by stream and rank
  std::set<std::string> ranks_;  // with a traceback; empty: unknown
  Line error_;
  Line last_;  // before the first traceback and the launcher's lines
  bool launcher_ = false;
  std::string launch_;
  std::string failed_rank_;  // the first one, according to torchrun
  std::string exit_;         // how it ended
};

}  // namespace trials
