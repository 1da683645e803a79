// Hidden states between two stages that divide a microbatch differently.

#ifndef TRIALS_SIMULATOR_RESHARDING_H_
#define TRIALS_SIMULATOR_RESHARDING_H_

#include "trials/cluster.h"

namespace trials {

// How the ranks of one stage hold the hidden states of a microbatch: rank
//
//   first_rank + (d * cp + c) * tp + t
//
// has the d-th of dp parts of the sequences and the c-th of cp parts of the
// tokens; of these all tp ranks have a copy or, under sequence parallelism, the
// t-th of tp parts of the tokens.
struct HiddenStates {
  const Cluster* cluster = nullptr;
  int first_rank = 0;
  int dp = 1;
  int tp = 1;
  int cp = 1;
  bool sp = false;
};

// What moving a microbatch takes: latency_s + seconds_per_byte * n, n being the
// bytes of all its sequences in one of the cp parts.
struct Resharding {
  double seconds_per_byte = 0.0;
  double latency_s = 0.0;
  double received_share = 0.0;  // of n, what the busiest rank receives
};

// Every rank of `to` fetches what it needs from ranks of `from` that have it;
// the copies that tensor parallelism makes take turns. With bytes(x) being what
// crosses x for n = 1,
//
//   seconds_per_byte = max over x of bytes(x) / bandwidth(x),
//
// x being the links of each GPU, the uplinks of PCIe switches and the network
// cards of hosts, each way; a rank's messages follow one another, so the
// latency is that of the most messages of one rank. Slicing and joining in the
// GPU's memory is not counted. Stages of equal sizes get what MessageTime
// gives.
//
// Source: Liu et al. (2024), Aceso, Sec. 3.1 and 4.2, charges resharding where
// tp and dp change; the volumes follow from who has what.
// Precondition: from.cp = to.cp.
[[nodiscard]] Resharding Reshard(const HiddenStates& from,
                                 const HiddenStates& to);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_RESHARDING_H_
