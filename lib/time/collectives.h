// Time of a collective on the links of a cluster.
//
//   const CollectiveModel time(h100, TimeModel::kernel);       // links and constants, once
//   CollectiveTime t = time({CollectiveKind::all_reduce, 50e6, 8});
//   t.wire_bytes   2·(8 − 1)/8 · 50e6, what one rank sends
//
// `bytes` by the contract (Transfer in ops/work.h). Ranks of one group stand `stride` apart: the axes
// laid inside of theirs take the neighbours. A group may cross levels of links; what each level
// carries follows from how many of its ranks share a group of the level below.
#pragma once

#include "hw/kernel_constants.h"
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

class CollectiveModel {
public:
  CollectiveModel(const Hardware& hardware, TimeModel model);
  CollectiveTime operator()(const Collective& collective, Explanation* explanation = nullptr) const {
    return time(collective, kernel_ ? &constants_ : nullptr, explanation);
  }

  // By these constants; null: the ideal model.
  CollectiveTime time(const Collective& collective, const KernelConstants* constants, Explanation* explanation = nullptr) const;

private:
  std::vector<std::pair<std::string, Link>> levels_;  // innermost first
  bool kernel_;
  KernelConstants constants_;
};

// The same of one collective alone.
CollectiveTime collective_time(const Collective& collective, const Hardware& hardware, TimeModel model,
                               Explanation* explanation = nullptr);

}  // namespace roofcast
