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

const CollectiveConstants& constants_of(CollectiveKind kind, const KernelConstants& all) {
  switch (kind) {
  case CollectiveKind::all_reduce: return all.all_reduce;
  case CollectiveKind::all_to_all: return all.exchange;
  case CollectiveKind::send_recv: return all.send;
  default: return all.gather;
  }
}

// What waits for the step before it, one after another, among n that a level joins. The messages of an
// exchange overlap, but for what their number costs.
double ring_steps(CollectiveKind kind, double n) {
  if (kind == CollectiveKind::all_reduce) return 2 * (n - 1);
  if (kind == CollectiveKind::all_to_all) return std::pow(n - 1, 0.3);
  return kind == CollectiveKind::send_recv ? 1 : n - 1;
}
// Up and down a binary tree; PAT gathers and scatters in as many steps.
double tree_steps(CollectiveKind kind, double n) {
  return std::ceil(std::log2(n)) * (kind == CollectiveKind::all_reduce ? 2 : 1);
}

// The part of a collective that one level of links carries.
struct Part {
  const Link* link;
  const std::string* name;
  double groups;           // of the level below that it joins
  double bytes, rate;      // over its links, and what these can do
  double net() const { return bytes / rate; }
};

struct Cost {
  double latency = 0, transfer = 0;
  std::string_view protocol, algorithm;
  double seconds() const { return latency + transfer; }
};

// Of the innermost level: a protocol that flags each word (NCCL's LL) up to some size, then one that
// hands over filled buffers (Simple), or sums inside the switch (NVLS).
Cost inner_cost(const Collective& c, const Part& p, const CollectiveConstants& k) {
  const double n = p.groups, steps = ring_steps(c.kind, n);
  const double ramp = k.ramp * c.bytes / (c.bytes + k.ramp_bytes);
  const Cost small{k.call + steps * k.hop * (1 + ramp), p.net() / k.rate, "LL", ""};
  const bool in_switch = c.kind == CollectiveKind::all_reduce && p.link->in_network_reduction && n >= k.switch_from;
  const double share = in_switch ? k.switch_rate : k.bulk_rate / (1 + k.pair / (n - 1));
  const double fill = k.bulk_hop * c.bytes / (c.bytes + k.fill_bytes) + k.step;
  const Cost large{k.bulk_call + (in_switch ? 2 : steps) * fill, p.net() / share, in_switch ? "NVLS" : "Simple", in_switch ? "nvls" : ""};
  return small.seconds() <= k.preference * large.seconds() ? small : large;
}

// Of further levels, whose messages go through network cards: a ring or a tree over the groups.
Cost outer_cost(const Collective& c, const Part& p, const KernelConstants& k) {
  const double hop = p.link->latency ? p.link->latency->value : k.network_hop;
  const double steps = ring_steps(c.kind, p.groups), tree = tree_steps(c.kind, p.groups);
  const bool rings = c.kind == CollectiveKind::all_to_all || c.kind == CollectiveKind::send_recv;
  const Cost ring{hop * steps, p.net() / k.network_rate, {}, {}};
  const Cost branches{hop * tree, p.net() / (k.network_rate * k.network_tree), {}, "tree"};
  return !rings && branches.seconds() < ring.seconds() ? branches : ring;
}

}  // namespace

CollectiveModel::CollectiveModel(const Hardware& hardware, TimeModel model)
    : kernel_(model == TimeModel::kernel), constants_(kernel_constants(hardware)) {
  for (const auto& [name, link] : link_levels(hardware))
    if (link->bandwidth) levels_.push_back({name, *link});
}

CollectiveTime CollectiveModel::time(const Collective& c, const KernelConstants* constants, Explanation* explanation) const {
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
  const bool message = c.kind == CollectiveKind::send_recv;
  double latency = 0, transfer = 0;
  for (size_t i = 0; i < levels_.size(); ++i) {
    const auto& [name, link] = levels_[i];
    inside = link.size > 0 ? inside * static_cast<double>(link.size) : 1e18;
    const double reach = message ? (stride < inside ? 2 : 1) : std::clamp(std::floor(inside / stride), 1.0, ranks);
    if (reach <= together) continue;
    // All-to-all: what goes to ranks that this level is the first to reach. Rings: each group below
    // sends once what all its ranks together pass on.
    const double bytes = c.kind == CollectiveKind::all_to_all ? c.bytes * (reach - together) / ranks : t.wire_bytes / together;
    const double peer = message && link.peer_bandwidth ? link.peer_bandwidth->value : link.bandwidth->value;
    const Part part{&link, &name, reach / together, bytes, std::min(link.bandwidth->value, peer)};
    together = reach;
    if (!t.net || part.net() > *t.net) t.net = part.net(), t.link = name;
    if (!constants) {
      if (explanation) explanation->push_back({name, part.net(), format_bytes(bytes) + " at " + format_rate(part.rate, "B")});
    } else {
      const Cost cost = i == 0 ? inner_cost(c, part, constants_of(c.kind, *constants)) : outer_cost(c, part, *constants);
      latency += cost.latency, transfer = std::max(transfer, cost.transfer);
      if (!cost.algorithm.empty() && t.link == name) t.algorithm = cost.algorithm;
      if (explanation) {
        explanation->push_back({name + " steps", cost.latency, std::string(cost.protocol.empty() ? "between groups" : cost.protocol) + ", " + std::string(t.algorithm)});
        explanation->push_back({name, cost.transfer, format_bytes(bytes) + " at " + format_rate(bytes / std::max(1e-30, cost.transfer), "B")});
      }
    }
    if (together >= ranks || message) break;
  }
  if (together < (message ? 2 : ranks)) t.net.reset();
  t.seconds = t.net;
  if (constants && t.net) t.seconds = latency + transfer;
  return t;
}

CollectiveTime collective_time(const Collective& c, const Hardware& hardware, TimeModel model, Explanation* explanation) {
  return CollectiveModel(hardware, model)(c, explanation);
}

}  // namespace roofcast
