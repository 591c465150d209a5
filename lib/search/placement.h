// How a value lies on the ranks of one mesh axis, and which ways an op may split its loops there.
//
//   MatMul b.. m k, b.. k n -> b.. m n over 8 ranks
//     n: R, S(1) -> S(last)       column-parallel
//     k: S(last), S(0) -> P       row-parallel: partial sums
// Placements and their conversions: N. Shazeer et al., "Mesh-TensorFlow", NeurIPS 2018; Y. Xu et al.,
// "GSPMD", arXiv 2105.04663.
#pragma once

#include "ops/op_info.h"

#include <compare>
#include <optional>
#include <string>
#include <vector>

namespace roofcast {

struct Placement {
  enum class Kind : uint8_t { replicated, sharded, partial } kind = Kind::replicated;
  uint8_t dim = 0;
  uint16_t ways = 1;   // sharded: pieces; fewer than the axis has ranks: each piece lies on several
  uint16_t parts = 1;  // the dim is so many parts, each of them split (Q, K and V of one projection)

  auto operator<=>(const Placement&) const = default;
  bool is_replicated() const { return kind == Kind::replicated; }
  bool is_sharded() const { return kind == Kind::sharded; }
  bool is_partial() const { return kind == Kind::partial; }
  std::string text() const;  // "R", "S(1)", "P"

  static Placement sharded(size_t dim, int64_t ways, int64_t parts = 1) {
    return {Kind::sharded, static_cast<uint8_t>(dim), static_cast<uint16_t>(ways), static_cast<uint16_t>(parts)};
  }
  static Placement partial() { return {Kind::partial}; }
};

// One way to run an op on an axis: loops split, operands as they must lie, outputs as they come.
struct Choice {
  struct Split {
    uint8_t factor = 0;
    int64_t ways = 1;
  };
  std::vector<Split> splits;               // empty: every rank computes all
  std::vector<Placement> inputs, outputs;
  double state_bytes = 0;                  // of an online line's state, all-reduced
};

// What decides which loops of an op may be split.
struct SplitRules {
  int64_t ranks = 1;
  bool additive = false;    // sums over its reduced factors; maxima and the like are not split
  bool linear = false;      // partial sums in give partial sums out
  bool online_state = false;  // a line may be split, its state all-reduced
  std::vector<int64_t> parts; // dims may also be split part by part, for ops that take them apart
};

// All choices of an op, "every rank computes all" first. `sizes`: of the access's factors here.
std::vector<Choice> choices_of(const Access& access, const std::vector<int64_t>& sizes, size_t inputs, size_t outputs,
                               const SplitRules& rules);

// The problem of one rank. Sizes that do not divide are rounded up.
Problem split(const Problem& problem, const std::vector<Choice::Split>& splits);

// What brings a value of `bytes` from one placement to another on `ranks` ranks; absent: nothing can.
// `scatter`: partial sums may be resolved to shards (reduce-scatter).
struct Reshard {
  CollectiveKind kind = CollectiveKind::none;
  double bytes = 0;
  int64_t ranks = 1;
};
std::optional<Reshard> reshard(const Placement& from, const Placement& to, double bytes, int64_t ranks, bool scatter);

}  // namespace roofcast
