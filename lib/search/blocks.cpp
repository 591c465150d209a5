#include "search/blocks.h"

#include <algorithm>

namespace roofcast {
namespace {

class Finder {
public:
  explicit Finder(const Module& module) : m_(module), nodes_(module.main().nodes), position_(module.nodes.size(), UINT32_MAX) {
    for (uint32_t i = 0; i < nodes_.size(); ++i) position_[nodes_[i].index] = i;
  }

  std::vector<Repeat> run() {
    search(0, static_cast<uint32_t>(nodes_.size()), 0);
    std::sort(found_.begin(), found_.end(), [](const Repeat& a, const Repeat& b) { return a.first < b.first; });
    return found_;
  }

private:
  // The node at `i` and the one `period` later do the same in their blocks.
  bool alike(uint32_t i, uint32_t period) const {
    const Node& a = m_[nodes_[i]];
    const Node& b = m_[nodes_[i + period]];
    if (a.instance != b.instance || a.input_count != b.input_count || a.output_count != b.output_count) return false;
    const auto left = m_.inputs(a), right = m_.inputs(b);
    for (size_t k = 0; k < left.size(); ++k) {
      if (left[k] == right[k]) continue;
      if (!left[k].valid() || !right[k].valid()) return false;
      const Value& x = m_[left[k]];
      const Value& y = m_[right[k]];
      if (x.storage != y.storage) return false;
      if (!x.producer.valid() || !y.producer.valid()) {
        if (x.producer.valid() != y.producer.valid() || x.type != y.type) return false;
        continue;
      }
      // The first block's inputs may come from what stands before all blocks.
      const uint32_t from = position_[x.producer.index], to = position_[y.producer.index];
      if (from == UINT32_MAX || to == UINT32_MAX) return false;
      if (to == from + period) continue;
      if (x.type == y.type && from < i && to >= i && to < i + period && starts_block_) continue;
      return false;
    }
    return true;
  }

  // The longest run in [begin, end), then the same in what is left on both sides.
  void search(uint32_t begin, uint32_t end, int depth) {
    if (end - begin < 4 || depth > 16) return;
    // Candidate periods: distances between neighbours that share an Instance, commonest first.
    std::vector<uint32_t> last(m_.instances.size(), UINT32_MAX);
    std::unordered_map<uint32_t, uint32_t> votes;
    for (uint32_t i = begin; i < end; ++i) {
      uint32_t& before = last[m_[nodes_[i]].instance.index];
      if (before != UINT32_MAX) ++votes[i - before];
      before = i;
    }
    std::vector<std::pair<uint32_t, uint32_t>> periods;
    for (const auto& [period, count] : votes) periods.push_back({count * period, period});
    std::sort(periods.rbegin(), periods.rend());
    if (periods.size() > 24) periods.resize(24);
    Repeat best;
    for (const auto& [vote, period] : periods) {
      if (period < 2) continue;
      for (uint32_t i = begin; i + period < end;) {
        starts_block_ = true;
        uint32_t run = i;
        while (run + period < end) {
          if (!alike(run, period)) break;
          ++run;
          // Only the first block may be fed from outside.
          starts_block_ = run < i + period;
        }
        const uint32_t count = (run - i) / period + 1;
        const uint32_t covered = count * period;
        if (count >= 2 && (covered > best.period * best.count || (covered == best.period * best.count && period < best.period)))
          best = {i, period, count};
        i = std::max(run, i + 1);
      }
    }
    if (best.count < 2) return;
    found_.push_back(best);
    search(begin, best.first, depth + 1);
    search(best.end(), end, depth + 1);
  }

  const Module& m_;
  const std::vector<NodeId>& nodes_;
  std::vector<uint32_t> position_;
  std::vector<Repeat> found_;
  bool starts_block_ = false;
};

}  // namespace

std::vector<Repeat> repeated_blocks(const Module& module) { return Finder(module).run(); }

Fold fold_blocks(const Module& m, uint32_t keep) {
  Fold fold;
  fold.keep = keep;
  fold.repeats = repeated_blocks(m);
  const auto& nodes = m.main().nodes;
  fold.site_of.resize(nodes.size());
  fold.canonical.resize(m.values.size());
  for (uint32_t i = 0; i < fold.canonical.size(); ++i) fold.canonical[i] = i;
  auto repeat = fold.repeats.begin();
  for (uint32_t p = 0; p < nodes.size(); ++p) {
    while (repeat != fold.repeats.end() && p >= repeat->end()) ++repeat;
    int64_t times = 1;
    if (repeat != fold.repeats.end() && p >= repeat->first && repeat->count > keep + 1) {
      const uint32_t block = (p - repeat->first) / repeat->period;
      if (block + 1 == keep) times = repeat->count - keep;
      if (block >= keep && block + 1 < repeat->count) {
        const uint32_t like = repeat->first + (keep - 1) * repeat->period + (p - repeat->first) % repeat->period;
        fold.site_of[p] = fold.site_of[like];
        const auto own = m.outputs(m[nodes[p]]), other = m.outputs(m[nodes[like]]);
        for (size_t j = 0; j < own.size(); ++j)
          if (own[j].valid() && other[j].valid()) fold.canonical[own[j].index] = other[j].index;
        const auto in = m.inputs(m[nodes[p]]), like_in = m.inputs(m[nodes[like]]);
        for (size_t i = 0; i < in.size(); ++i)
          if (in[i].valid() && !m[in[i]].producer.valid()) fold.canonical[in[i].index] = fold.canonical[like_in[i].index];
        continue;
      }
    }
    fold.site_of[p] = static_cast<uint32_t>(fold.sites.size());
    fold.sites.push_back({p, times});
  }
  return fold;
}

}  // namespace roofcast
