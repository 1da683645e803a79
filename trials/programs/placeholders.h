// Placeholders in the command line of a training program: {tp}, {max_steps}.

#ifndef TRIALS_PROGRAMS_PLACEHOLDERS_H_
#define TRIALS_PROGRAMS_PLACEHOLDERS_H_

#include <map>
#include <string>
#include <string_view>

#include "trials/cluster.h"
#include "trials/knobs.h"
#include "trials/trial_runner.h"

namespace trials {

// The value of a parameter; of one that follows from the others and the batch
// size, the value that it has.
[[nodiscard]] int ValueOf(const Knob& knob, const ParallelConfig& config,
                          int batch_size);

// The values of all placeholders by name: every parameter, {config},
// {max_steps}, {seed}, {gpus}, {nodes} and {gpus_per_node}.
[[nodiscard]] std::map<std::string, std::string> Placeholders(
    const KnobSet& knobs, const Cluster& cluster, const TrialRequest& request,
    int batch_size = 0);

// The word with its placeholders replaced: "--tp={tp}" -> "--tp=4". Braces
// around anything but a name are kept, and "{{name}}" becomes "{name}".
// Errors: throws std::invalid_argument for an unknown name.
[[nodiscard]] std::string Expand(
    std::string_view word, const std::map<std::string, std::string>& values);

}  // namespace trials

#endif  // TRIALS_PROGRAMS_PLACEHOLDERS_H_
