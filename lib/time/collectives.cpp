#include "time/collectives.h"

#include "support/units.h"

#include <algorithm>
#include <cmath>

namespace roofcast {
namespace {

// Bytes that one rank sends: rings, and pairwise exchange.
// R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in
// MPICH", IJHPCA 19(1), 2005.
double sent(const Collective& c) {
  const double n = static_cast<double>(c.ranks), share = (n - 1) / n;
  switch (c.kind) {
  case CollectiveKind::all_reduce: return 2 * share * c.bytes;
  case CollectiveKind::all_gather: case CollectiveKind::reduce_scatter: case CollectiveKind::all_to_all: return share * c.bytes;
  case CollectiveKind::send_recv: case CollectiveKind::broadcast: return c.bytes;
  case CollectiveKind::none: break;
  }
  return 0;
}

}  // namespace

CollectiveTime collective_time(const Collective& c, const Hardware& hardware, TimeModel, Explanation* explanation) {
  CollectiveTime t;
  t.algorithm = c.kind == CollectiveKind::all_to_all ? "pairwise" : c.kind == CollectiveKind::send_recv ? "p2p" : "ring";
  if (c.ranks <= 1) {
    t.net = t.seconds = 0;
    return t;
  }
  t.wire_bytes = sent(c);
  // Devices that the levels up to one join, and how many of the group's ranks are among them.
  double inside = 1, together = 1;
  const double ranks = static_cast<double>(c.ranks), stride = static_cast<double>(c.stride);
  for (const auto& [name, link] : link_levels(hardware)) {
    if (!link->bandwidth) continue;
    inside = link->size > 0 ? inside * static_cast<double>(link->size) : 1e18;
    const double reach = c.kind == CollectiveKind::send_recv ? (stride < inside ? 2 : 1)
                                                             : std::clamp(std::floor(inside / stride), 1.0, ranks);
    if (reach > together) {
      // All-to-all: what goes to ranks that this level is the first to reach. Rings: each group below
      // sends once what all its ranks together pass on.
      const double bytes = c.kind == CollectiveKind::all_to_all ? c.bytes * (reach - together) / ranks
                                                                : t.wire_bytes / together;
      const double rate = c.kind == CollectiveKind::send_recv && link->peer_bandwidth
                              ? std::min(link->bandwidth->value, link->peer_bandwidth->value) : link->bandwidth->value;
      const double seconds = bytes / rate;
      if (!t.net || seconds > *t.net) t.net = seconds, t.link = name;
      if (explanation) explanation->push_back({name, seconds, format_bytes(bytes) + " at " + format_rate(rate, "B")});
      together = reach;
    }
    if (together >= ranks || (c.kind == CollectiveKind::send_recv && together > 1)) break;
  }
  if (together < (c.kind == CollectiveKind::send_recv ? 2 : ranks)) t.net.reset();
  t.seconds = t.net;
  return t;
}

}  // namespace roofcast
