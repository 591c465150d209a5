#include "search/placement.h"

#include <algorithm>
#include <numeric>

namespace roofcast {
namespace {

// Where factor `f` meets an operand: as the outermost loop of a dim, inside of one, or not at all.
struct Meeting {
  enum { none, outer, inner, window } how = none;
  size_t dim = 0;
  int64_t outside = 1;  // product of the loops outside of it
};

Meeting meet(const OperandMap& map, uint8_t f, const std::vector<int64_t>& sizes) {
  for (size_t d = 0; d < map.dims.size(); ++d) {
    int64_t outside = 1;
    for (uint8_t g : map.dims[d].factors) {
      if (g == f) {
        if (map.dims[d].kind == DimMap::Kind::window) return {Meeting::window, d};
        return {outside == 1 ? Meeting::outer : Meeting::inner, d, outside};
      }
      outside *= sizes[g];
    }
  }
  return {};
}

// The factor that stands right inside of `f` wherever `f` does not fill its dim; none: −1.
int companion(const Access& access, uint8_t f, const std::vector<int64_t>& sizes) {
  int found = -1;
  auto look = [&](const std::vector<OperandMap>& maps) {
    for (const OperandMap& map : maps)
      for (const DimMap& d : map.dims)
        for (size_t k = 0; k + 1 < d.factors.size(); ++k) {
          if (d.factors[k] != f) continue;
          size_t next = k + 1;
          while (next < d.factors.size() && sizes[d.factors[next]] == 1) ++next;
          if (next == d.factors.size()) continue;
          if (found >= 0 && found != d.factors[next]) return false;
          found = d.factors[next];
        }
    return true;
  };
  return look(access.inputs) && look(access.outputs) ? found : -1;
}

bool alone_in_dims(const Access& access, uint8_t f, const std::vector<int64_t>& sizes) {
  auto test = [&](const std::vector<OperandMap>& maps) {
    for (const OperandMap& map : maps)
      for (const DimMap& d : map.dims)
        for (uint8_t g : d.factors)
          if (g == f)
            for (uint8_t other : d.factors)
              if (other != f && sizes[other] != 1) return false;
    return true;
  };
  return test(access.inputs) && test(access.outputs);
}

// Operands' placements for `splits`; absent if an output could not be laid out so.
std::optional<Choice> place(const Access& access, const std::vector<int64_t>& sizes, std::vector<Choice::Split> splits,
                            size_t inputs, size_t outputs, const SplitRules& rules, int64_t parts = 1) {
  Choice c;
  c.inputs.resize(inputs), c.outputs.resize(outputs);
  bool state = false, partial = false;
  for (const Choice::Split& s : splits) {
    if (access.factors[s.factor].role == Role::online) state = true;
    if (access.factors[s.factor].role == Role::reduce || access.factors[s.factor].role == Role::lookup) partial = true;
  }
  auto lay = [&](const OperandMap& map, Placement& at) {
    std::optional<size_t> dim;
    int64_t ways = 1, strided = parts;
    for (size_t k = 0; k < splits.size(); ++k) {
      Meeting m = meet(map, splits[k].factor, sizes);
      // A companion is inner by nature; its dim is that of the factor before it, split to the end.
      const bool follows = k > 0 && m.how == Meeting::inner && dim && m.dim == *dim && ways == sizes[splits[k - 1].factor];
      if (m.how == Meeting::none) continue;
      if (m.how == Meeting::window) return false;
      if (dim && m.dim != *dim) return false;  // two dims at once: a diagonal
      if (m.how == Meeting::inner && !follows) {
        if (strided != 1 || m.outside > UINT16_MAX) return false;
        strided = m.outside;
      }
      dim = m.dim, ways *= splits[k].ways;
    }
    if (dim) at = Placement::sharded(*dim, ways, strided);
    return true;
  };
  for (size_t i = 0; i < std::min(inputs, access.inputs.size()); ++i)
    if (!lay(access.inputs[i], c.inputs[i])) return std::nullopt;
  for (size_t j = 0; j < std::min(outputs, access.outputs.size()); ++j) {
    if (!lay(access.outputs[j], c.outputs[j])) return std::nullopt;
    if (c.outputs[j].is_sharded() || access.outputs[j].outside) continue;
    if (partial) c.outputs[j] = Placement::partial();
    else if (!state) return std::nullopt;  // each rank would know a part of it only
  }
  if (outputs > access.outputs.size()) return std::nullopt;
  if (state && !rules.online_state) return std::nullopt;
  if (state) {
    double lines = 1;
    for (size_t f = 0; f < sizes.size(); ++f)
      if (access.factors[f].role == Role::pass) lines *= static_cast<double>(sizes[f]);
    c.state_bytes = lines * 8;  // a maximum and a sum, or two moments, in fp32
  }
  c.splits = std::move(splits);
  return c;
}

}  // namespace

std::string Placement::text() const {
  if (is_partial()) return "P";
  if (is_replicated()) return "R";
  return "S(" + std::to_string(dim) + (parts > 1 ? " in " + std::to_string(parts) : "") + ")";
}

std::vector<Choice> choices_of(const Access& access, const std::vector<int64_t>& sizes, size_t inputs, size_t outputs,
                               const SplitRules& rules) {
  std::vector<Choice> all(1);
  all[0].inputs.resize(inputs), all[0].outputs.resize(outputs);
  if (access.empty() || rules.ranks <= 1) return all;
  const int64_t n = rules.ranks;
  for (size_t k = 0; k < access.factors.size(); ++k) {
    const auto f = static_cast<uint8_t>(k);
    const int64_t size = sizes[k];
    const Role role = access.factors[k].role;
    if (size <= 1 || role == Role::window || role == Role::whole || role == Role::ordered) continue;
    if (role == Role::reduce && !rules.additive) continue;
    auto add = [&](std::vector<Choice::Split> splits, int64_t parts = 1) {
      if (auto c = place(access, sizes, std::move(splits), inputs, outputs, rules, parts)) all.push_back(std::move(*c));
    };
    const bool alone = alone_in_dims(access, f, sizes);
    if (size % n == 0) {
      add({{f, n}});
      for (int64_t parts : rules.parts)
        if (alone && size % (n * parts) == 0) add({{f, n}}, parts);
      continue;
    }
    const int64_t common = std::gcd(size, n);
    const int inner = companion(access, f, sizes);
    if (common > 1 && common == size) {
      // Fewer parts than ranks: what lies inside splits the rest (heads of a group), or ranks repeat.
      if (inner >= 0 && sizes[static_cast<size_t>(inner)] % (n / common) == 0)
        add({{f, common}, {static_cast<uint8_t>(inner), n / common}});
      add({{f, common}});
    } else if (alone && size > n) {
      add({{f, n}});  // padded
    } else if (common > 1) {
      add({{f, common}});
    }
  }
  if (rules.linear) {
    Choice c;
    c.inputs.resize(inputs), c.outputs.assign(outputs, Placement::partial());
    for (size_t i = 0; i < inputs; ++i)
      if (i < access.inputs.size() && !access.inputs[i].outside) c.inputs[i] = Placement::partial();
    all.push_back(std::move(c));
  }
  return all;
}

Problem split(const Problem& problem, const std::vector<Choice::Split>& splits) {
  Problem p = problem;
  for (const Choice::Split& s : splits) {
    if (s.factor >= p.factors.size()) continue;  // an order that does not change has no loops left
    FactorSize& f = p.factors[s.factor];
    const int64_t local = (f.size + s.ways - 1) / s.ways;
    const double share = f.size > 0 ? static_cast<double>(local) / static_cast<double>(f.size) : 1;
    f.size = local;
    p.matrix_flops *= share, p.vector_flops *= share;
    size_t input = 0, output = 0;
    for (OperandSize& o : p.operands) {
      const size_t bit = o.is_output ? 16 + output++ : input++;
      if (bit < 32 && (f.operands >> bit & 1)) o.bytes *= share;
    }
  }
  if (!splits.empty()) {
    p.bytes_read = p.bytes_written = 0;
    for (const OperandSize& o : p.operands) (o.is_output ? p.bytes_written : p.bytes_read) += o.bytes;
  }
  return p;
}

std::optional<Reshard> reshard(const Placement& from, const Placement& to, double bytes, int64_t ranks, bool scatter) {
  if (from == to || (from.is_replicated() && to.is_sharded())) return Reshard{};
  if (to.is_partial()) return std::nullopt;
  if (from.is_partial()) {
    if (to.is_sharded() && scatter && to.ways == ranks) return Reshard{CollectiveKind::reduce_scatter, bytes, ranks};
    return Reshard{CollectiveKind::all_reduce, bytes, ranks};
  }
  if (to.is_replicated()) return Reshard{CollectiveKind::all_gather, bytes, from.ways};
  // Pieces that lie on several ranks have no direct way to another dim: the value is gathered and cut again.
  if (from.dim != to.dim || from.parts != to.parts) {
    if (from.ways == ranks && to.ways == ranks) return Reshard{CollectiveKind::all_to_all, bytes / from.ways, ranks};
    return Reshard{CollectiveKind::all_gather, bytes, from.ways};
  }
  if (to.ways > from.ways) return Reshard{};
  return Reshard{CollectiveKind::all_gather, bytes / to.ways, from.ways / std::max<int64_t>(1, to.ways)};
}

}  // namespace roofcast
