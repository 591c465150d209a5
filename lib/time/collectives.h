// Time of a collective on the links of a cluster.
//
//   CollectiveTime t = collective_time({CollectiveKind::all_reduce, 50e6, 8}, h100, TimeModel::ideal);
//   t.wire_bytes   2·(8 − 1)/8 · 50e6, what one rank sends
//
// `bytes` by the contract (Transfer in ops/work.h). Ranks of one group stand `stride` apart: the axes
// laid inside of theirs take the neighbours. A group may cross levels of links; what each level
// carries follows from how many of its ranks share a group of the level below.
#pragma once

#include "time/time.h"

namespace roofcast {

struct Collective {
  CollectiveKind kind = CollectiveKind::none;
  double bytes = 0;
  int64_t ranks = 1;
  int64_t stride = 1;
};

struct CollectiveTime {
  std::string_view algorithm;          // "ring"
  std::string link;                    // the level that bounds it
  double wire_bytes = 0;               // sent by one rank
  std::optional<double> net;           // wire bytes over bandwidth alone; absent: no such link known
  std::optional<double> seconds;       // by the model: with latency in the kernel model
};

CollectiveTime collective_time(const Collective& collective, const Hardware& hardware, TimeModel model,
                               Explanation* explanation = nullptr);

}  // namespace roofcast
