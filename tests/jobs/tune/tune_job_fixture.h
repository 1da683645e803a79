// Searches in the process of the test, with a shell script as the program.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "jobs/tune/init.h"
#include "jobs/tune/tune_job.h"
#include "tests/fakes/program_test.h"

namespace jobs {

class TuneJobTest : public fakes::ProgramTest {
 protected:
  // The program prints steps of about 0.0M s for M microbatches.
  TuneJobTest() {
    Write("config.json",
          "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_head\": 4, "
          "\"n_layer\": 4, \"n_positions\": 64, \"vocab_size\": 256}");
    WriteProgram("echo \"step $i took 0.0$1$((i % 3 + 1))\"");
    options_.command = {"./train.sh", "{microbatches}", "{max_steps}"};
    options_.folder = Path("");
    options_.manifest = Path("tune.toml");
    options_.model = "config.json";
    options_.gpus = "1x2";
    options_.memory_gib = 8.0;
    options_.batch = 16;
    options_.sequence = 64;
    options_.start = "dp=2,microbatches=8";
    options_.step_time = "took ([0-9.]+)";
    options_.trials = 3;
    options_.steps = 6;
  }

  // A program with that line for each step i. It prints all of them at once:
  // lines that a loaded machine spreads have a time of their own.
  void WriteProgram(const std::string& step, const std::string& before = "") {
    Write("train.sh", "#!/bin/sh\n" + before +
                          "\nsteps=$(for i in $(seq $2); do\n  " + step +
                          "\ndone) || exit\necho \"$steps\"\n");
  }

  std::filesystem::path WriteManifest() {
    Write("tune.toml", ToText(DraftManifest(options_)));
    return options_.manifest;
  }
  TuneJob& Job() { return job_.emplace(WriteManifest(), trial_jobs_, shown_); }

  InitOptions options_;
  MakeTrialJobs trial_jobs_;
  std::string printed_;
  std::vector<std::string> statuses_;
  Reporter shown_ = {
      .print = [this](const auto& text, Tone) { printed_ += text; },
      .status = [this](const auto& text,
                       double) { statuses_.push_back(text); }};
  std::optional<TuneJob> job_;
};

}  // namespace jobs
