// Transfer of hidden states between stages that divide a microbatch
// differently.

#pragma once

#include "trials/cluster.h"

namespace trials {

// The distribution of a microbatch's hidden states over a stage: rank
//
//   first_rank + (d * cp + c) * tp + t
//
// holds the d-th of dp shares of the sequences and the c-th of cp shares of the
// tokens. All tp ranks hold a copy of it or, under sequence parallelism, the
// t-th of tp shares of the tokens.
struct HiddenStates {
  const Cluster* cluster = nullptr;
  int first_rank = 0;
  int dp = 1;
  int tp = 1;
  int cp = 1;
  bool sp = false;
};

// Moving a microbatch takes latency_s + seconds_per_byte * n, with n the bytes
// of all its sequences in one of the cp shares.
struct Resharding {
  double seconds_per_byte = 0.0;
  double latency_s = 0.0;
  double received_share = 0.0;  // of n, by the busiest rank
};

// Every rank of `to` fetches its share from ranks of `from` that hold it; the
// copies that tensor parallelism makes take turns. With bytes(x) the bytes that
// cross x for n = 1,
//
//   seconds_per_byte = max over x of bytes(x) / bandwidth(x),
//
// x being the links of each GPU, the uplinks of PCIe switches and the network
// cards of hosts, each way; a rank's messages follow one another, so the
// latency is that of the most messages of one rank. Slicing and joining in the
// GPU's memory is not counted. Stages of equal sizes take
// MessageTime.
//
// Source: Liu et al. (2024), Aceso, Sec. 3.1 and 4.2, charges resharding where
// tp and dp change; the volumes follow from the distributions.
// Precondition: from.cp = to.cp.
[[nodiscard]] Resharding Reshard(const HiddenStates& from,
                                 const HiddenStates& to);

}  // namespace trials
