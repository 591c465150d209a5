#include "search/pieces.h"

#include <algorithm>
#include <set>

namespace roofcast {
namespace {

constexpr uint32_t least_period = 4;  // shorter runs are no blocks of a model

class Builder {
public:
  Builder(Costing& costing, Sharding& sharding, bool training, const PieceOptions& options)
      : costing_(costing), m_(costing.module()), s_(sharding), training_(training), options_(options) {}

  Pieces run() {
    cut();
    find_core();
    for (const Sharding::Site& site : s_.sites()) add(site);
    out_.communications.insert(out_.communications.begin(), s_.communications().begin(), s_.communications().end());
    hide_rings();
    for (Communication& c : out_.communications) {
      if (c.axis == ep_axis) continue;
      Piece& piece = piece_at(c.position);
      const double seconds = time_of(c.what);
      if (c.steps == 1) c.exposed = seconds;
      (c.phase == Phase::forward ? piece.wire_forward : piece.wire_backward) += c.exposed * static_cast<double>(c.steps);
      piece.t_net += seconds * static_cast<double>(c.steps);
    }
    find_boundaries();
    for (ValueId v : m_.main().inputs) {
      if (!v.valid()) continue;
      out_.inputs += s_.local_bytes(v);
      if (m_[v].type && m_[v].type->is_tensor() && is_float(m_[v].type->dtype) && m_[v].type->dims.size() >= 3) out_.cache += s_.local_bytes(v);
    }
    double most = 0;
    for (const auto& [type, flops] : matrix_)
      if (flops > most) most = flops, out_.matrix_peak = matrix_rate(costing_.hardware(), type).value_or(0);
    return std::move(out_);
  }

private:
  // Blocks that repeat are pieces of their own; what stands between them is one piece each time.
  void cut() {
    std::set<uint32_t> cuts{0, static_cast<uint32_t>(m_.main().nodes.size())};
    for (const Repeat& r : s_.repeats()) {
      if (r.period < least_period || r.count < 2) continue;
      for (uint32_t k = 0; k <= r.count; ++k) cuts.insert(r.first + k * r.period);
    }
    std::vector<uint32_t> at(cuts.begin(), cuts.end());
    piece_of_.assign(m_.main().nodes.size(), UINT32_MAX);
    for (size_t k = 0; k + 1 < at.size(); ++k) {
      // A block in the middle is stood for by another.
      const uint32_t begin = at[k], end = at[k + 1];
      if (s_.site_at(begin).position != begin) continue;
      Piece piece;
      piece.begin = begin, piece.end = end, piece.times = s_.site_at(begin).times;
      for (const Repeat& r : s_.repeats()) piece.block |= r.period >= least_period && begin >= r.first && end <= r.end();
      for (uint32_t p = begin; p < end; ++p) piece_of_[p] = static_cast<uint32_t>(out_.all.size());
      out_.all.push_back(piece);
    }
  }
  Piece& piece_at(uint32_t position) { return out_.all[piece_of_[s_.site_at(position).position]]; }

  double time_of(const Collective& c) {
    return costing_.collectives()(c).seconds.value_or(0);
  }

  // What goes round a ring is hidden by the work on all pieces but the first.
  void hide_rings() {
    std::map<std::pair<uint32_t, Phase>, double> passed;
    for (const Communication& c : out_.communications)
      if (c.steps > 1) passed[{c.position, c.phase}] += time_of(c.what) * static_cast<double>(c.steps);
    for (Communication& c : out_.communications) {
      if (c.steps == 1) continue;
      const Sharding::Site& site = s_.site_at(c.position);
      double work = 0;
      if (c.phase == Phase::forward) work = s_.seconds(site.local);
      else
        for (const BackwardProblem& b : Sharding::backward(site, site.local)) work += s_.seconds(b.problem);
      const double all = passed[{c.position, c.phase}], steps = static_cast<double>(c.steps);
      c.exposed = all > 0 ? time_of(c.what) * std::max(0.0, 1 - work * steps / (steps + 1) / all) : 0;
    }
  }

  // Attention without a kernel of its own: from a product of two activations to the next one.
  void find_core() {
    core_.assign(s_.sites().size(), 0);
    std::vector<uint8_t> scores(m_.values.size());
    for (size_t i = 0; i < s_.sites().size(); ++i) {
      const Sharding::Site& site = s_.sites()[i];
      const auto inputs = m_.inputs(m_[site.node]), outputs = m_.outputs(m_[site.node]);
      bool weight = false, from_scores = false;
      for (ValueId v : inputs) {
        if (!v.valid()) continue;
        weight |= s_.is_weight(v) && m_[v].type->dims.size() >= 2;
        from_scores |= scores[v.index] != 0;
      }
      const bool product = site.work->kind == Kind::contraction;
      if (product && weight) continue;
      if (!product && !from_scores) continue;
      core_[i] = 1, core_nodes_.insert(site.node.index);
      if (product && from_scores) continue;  // the second product ends it
      for (ValueId v : outputs)
        if (v.valid()) scores[v.index] = 1;
    }
  }

  void add(const Sharding::Site& site) {
    const auto index = static_cast<size_t>(&site - s_.sites().data());
    Piece& piece = piece_at(site.position);
    const auto inputs = m_.inputs(m_[site.node]), outputs = m_.outputs(m_[site.node]);
    const bool experts = site.work->kind == Kind::moe;
    Problem local = site.local;
    if (experts && options_.ep > 1) spread_experts(site, local, piece);
    if (site.has_work && local.has_work()) {
      const double trips = costing_.trips(m_[site.node].region);
      account(piece, local, trips, true, core_[index]);
      if (training_)
        for (const BackwardProblem& b : Sharding::backward(site, local)) {
          account(piece, b.problem, trips, false, false);
          piece.matrix_backward -= b.repeated_flops * trips, piece.matrix_repeated += b.repeated_flops * trips;
        }
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId v = inputs[i];
      if (!v.valid() || m_[v].producer.valid() || m_[v].storage != Storage::weight || !weights_.insert(v.index).second) continue;
      const bool expert = experts && m_[v].type && m_[v].type->dims.size() == 3;
      const double ways = expert ? static_cast<double>(options_.ep) : 1;
      const double elements = m_[v].type ? evaluate_real(m_[v].type->elements(), costing_.values()).value_or(0) : 0;
      const double own = elements / static_cast<double>(s_.pieces(v)) / ways, bytes = s_.local_bytes(v) / ways;
      (expert ? piece.expert_parameters : piece.parameters) += s_.trained(v) ? own : 0;
      (expert ? piece.expert_weight_bytes : piece.weight_bytes) += bytes;
      if (s_.trained(v) && !s_.axes().empty() && s_.partial_gradient(v, 0) && s_.axes()[0].ranks > 1) out_.partial_gradients += own * static_cast<double>(site.times);
    }
    for (ValueId v : outputs) {
      if (!v.valid()) continue;
      piece.largest = std::max(piece.largest, s_.local_bytes(v));
      if (!training_) continue;
      piece.kept += s_.kept_bytes(v);
      // The scores of attention, not what it gives.
      if (core_[index] && s_.kept_bytes(v) > 0 && (site.work->kind != Kind::contraction || is_scores(index))) piece.kept_core += s_.kept_bytes(v);
    }
  }
  bool is_scores(size_t index) const {
    // The first product of a core: no core site feeds it.
    for (ValueId v : m_.inputs(m_[s_.sites()[index].node]))
      if (v.valid() && m_[v].producer.valid() && core_producer(v)) return false;
    return true;
  }
  bool core_producer(ValueId v) const { return core_nodes_.contains(m_[v].producer.index); }

  void account(Piece& piece, const Problem& p, double trips, bool forward, bool core) {
    const double seconds = s_.seconds(p) * trips;
    (forward ? piece.forward : piece.backward) += seconds;
    (forward ? piece.matrix_forward : piece.matrix_backward) += p.matrix_flops * trips;
    if (core) piece.core += seconds, piece.matrix_core += p.matrix_flops * trips;
    const Hardware& hardware = costing_.hardware();
    const double matrix = matrix_rate(hardware, p.math).value_or(0), vector = vector_rate(hardware, p.math).value_or(0);
    double math = 0;
    if (matrix > 0) math = p.matrix_flops / matrix;
    if (vector > 0) math = std::max(math, p.vector_flops / vector);
    piece.t_math += math * trips;
    if (const auto rate = memory_bandwidth(hardware)) piece.t_hbm += (p.bytes_read + p.bytes_written) / *rate * trips;
    if (p.matrix_flops > 0) matrix_[p.math] += p.matrix_flops * trips * static_cast<double>(piece.times);
  }

  // Each rank holds a share of the experts; tokens go to them and come back, backward as forward.
  void spread_experts(const Sharding::Site& site, Problem& local, Piece& piece) {
    const auto ways = static_cast<double>(options_.ep);
    size_t i = 0;
    for (OperandSize& o : local.operands) {
      const auto inputs = m_.inputs(m_[site.node]);
      if (!o.is_output && i < inputs.size() && inputs[i].valid() && m_[inputs[i]].type && m_[inputs[i]].type->dims.size() == 3 && s_.is_weight(inputs[i])) {
        local.bytes_read -= o.bytes * (1 - 1 / ways);
        o.bytes /= ways;
      }
      ++i;
    }
    const double whole = evaluate_real(site.work->routed_bytes, costing_.values()).value_or(0);
    const DType type = m_[m_.inputs(m_[site.node])[0]].type->dtype;
    const double dispatched = options_.dispatch_bits ? whole * static_cast<double>(options_.dispatch_bits) / bits(type) : whole;
    auto exchange = [&](double bytes, Phase phase, std::string_view reason) {
      const Collective c{CollectiveKind::all_to_all, bytes, options_.ep, options_.ep_stride};
      out_.communications.push_back({c, site.position, m_[m_.inputs(m_[site.node])[0]].producer, ep_axis, phase, reason, 1, time_of(c)});
      const double seconds = time_of(c);
      (phase == Phase::forward ? piece.wire_forward : piece.wire_backward) += seconds;
      piece.t_net += seconds;
    };
    exchange(dispatched, Phase::forward, "tokens go to their experts");
    exchange(whole, Phase::forward, "experts' results come back");
    if (!training_) return;
    exchange(whole, Phase::backward, "gradients go to the experts");
    exchange(dispatched, Phase::backward, "gradients come back");
  }

  // What a piece makes that a later one reads.
  void find_boundaries() {
    const auto& nodes = m_.main().nodes;
    std::vector<uint32_t> position(m_.nodes.size(), UINT32_MAX), last(m_.values.size());
    for (uint32_t p = 0; p < nodes.size(); ++p) position[nodes[p].index] = p;
    for (uint32_t p = 0; p < nodes.size(); ++p)
      for (ValueId v : m_.inputs(m_[nodes[p]]))
        if (v.valid()) last[v.index] = p;
    for (Piece& piece : out_.all)
      for (uint32_t p = piece.begin; p < piece.end; ++p)
        for (ValueId v : m_.outputs(m_[nodes[p]]))
          if (v.valid() && last[v.index] >= piece.end && m_[v].storage == Storage::activation && !costing_.free(nodes[p])) piece.boundary += s_.local_bytes(v);
  }

  static constexpr uint8_t ep_axis = 255;

  Costing& costing_;
  const Module& m_;
  Sharding& s_;
  bool training_;
  const PieceOptions& options_;
  Pieces out_;
  std::vector<uint32_t> piece_of_;
  std::vector<uint8_t> core_;   // by site
  std::set<uint32_t> core_nodes_;
  std::set<uint32_t> weights_;
  std::map<MathType, double> matrix_;
};

}  // namespace

Pieces pieces_of(Costing& costing, Sharding& sharding, bool training, const PieceOptions& options) {
  return Builder(costing, sharding, training, options).run();
}

}  // namespace roofcast
