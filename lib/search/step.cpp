#include "search/step.h"

#include <algorithm>
#include <cmath>

namespace roofcast {
namespace {

// Seconds of one microbatch that a piece adds to its stage's backward by computing again.
double repeated(const Piece& p, const std::string& recompute) {
  if (!p.block) return 0;
  if (recompute == "full") return p.forward + p.wire_forward;
  return recompute == "selective" ? p.core : 0;
}
double repeated_flops(const Piece& p, const std::string& recompute) {
  if (!p.block) return 0;
  if (recompute == "full") return p.matrix_forward;
  return recompute == "selective" ? p.matrix_core : 0;
}

}  // namespace

CollectiveTime StepModel::wire(CollectiveKind kind, double bytes, int64_t ranks, int64_t stride) {
  auto [at, is_new] = wires_.try_emplace({static_cast<int>(kind), bytes, ranks, stride});
  if (is_new) at->second = collectives_({kind, bytes, ranks, stride});
  return at->second;
}

const std::vector<StepModel::Stage>& StepModel::stages_of(const Pieces& pieces, const Layout& layout) {
  auto [at, is_new] = stages_.try_emplace({&pieces, layout.pp, layout.recompute});
  if (!is_new) return at->second;
  auto weight = [&](const Piece& p) {
    return p.forward + p.wire_forward + p.backward + p.wire_backward + repeated(p, layout.recompute);
  };
  double total = 0, longest = 0;
  for (const Piece& p : pieces.all) total += weight(p) * static_cast<double>(p.times), longest = std::max(longest, weight(p));
  const int64_t count = layout.pp;
  // The least limit under which a greedy cut needs no more stages than there are.
  auto needed = [&](double limit) {
    int64_t stages = 1;
    double sum = 0;
    for (const Piece& p : pieces.all) {
      const double w = weight(p);
      int64_t left = p.times;
      while (left > 0) {
        const int64_t fit = w > 0 ? std::min<int64_t>(left, static_cast<int64_t>(std::floor((limit - sum) / w * (1 + 1e-12)))) : left;
        if (fit > 0) sum += w * static_cast<double>(fit), left -= fit;
        else if (sum == 0) return INT64_MAX;
        if (left > 0) ++stages, sum = 0;
      }
    }
    return stages;
  };
  double low = std::max(longest, total / static_cast<double>(count)), high = total + longest;
  for (int k = 0; k < 40 && needed(low) > count; ++k) {
    const double middle = (low + high) / 2;
    if (needed(middle) <= count) high = middle;
    else low = middle;
    if (high - low < 1e-9 * high) break;
  }
  const double limit = needed(low) <= count ? low : high;
  std::vector<Stage>& stages = at->second;
  stages.emplace_back();
  double sum = 0, boundary = 0;
  auto put = [&](const Piece& p, int64_t n) {
    Stage& s = stages.back();
    const auto k = static_cast<double>(n);
    s.forward += (p.forward + p.wire_forward) * k, s.exposed += (p.wire_forward + p.wire_backward) * k;
    s.backward += (p.backward + p.wire_backward + repeated(p, layout.recompute)) * k;
    s.matrix += (p.matrix_forward + p.matrix_backward) * k, s.recomputed += (repeated_flops(p, layout.recompute) + p.matrix_repeated) * k;
    s.t_math += p.t_math * k, s.t_hbm += p.t_hbm * k, s.t_net += p.t_net * k;
    s.parameters += p.parameters * k, s.expert_parameters += p.expert_parameters * k;
    s.weight_bytes += p.weight_bytes * k, s.expert_weight_bytes += p.expert_weight_bytes * k;
    s.largest = std::max(s.largest, p.largest);
    s.pieces += n;
    s.of.push_back({static_cast<uint32_t>(&p - pieces.all.data()), n});
    if (layout.recompute == "full" && p.block) {
      // Of each piece only what comes in is kept; one piece at a time is whole again.
      s.kept += boundary + p.boundary * (k - 1);
      s.working = std::max(s.working, p.kept);
    } else {
      s.kept += (p.kept - (layout.recompute == "selective" ? p.kept_core : 0)) * k;
      if (layout.recompute == "selective") s.working = std::max(s.working, p.kept_core);
    }
    boundary = p.boundary;
    s.boundary = p.boundary;
  };
  for (const Piece& p : pieces.all) {
    const double w = weight(p);
    int64_t left = p.times;
    while (left > 0) {
      int64_t fit = w > 0 ? std::min<int64_t>(left, static_cast<int64_t>(std::floor((limit - sum) / w * (1 + 1e-9)))) : left;
      const bool last = static_cast<int64_t>(stages.size()) == count;
      if (last) fit = left;
      if (fit > 0) put(p, fit), sum += w * static_cast<double>(fit), left -= fit;
      if (left > 0) stages.emplace_back(), sum = 0;
    }
  }
  return stages;
}

Step StepModel::step(const Pieces& pieces, const Layout& l, bool details) {
  Step out;
  const std::vector<Stage>& stages = stages_of(pieces, l);
  const auto m = static_cast<double>(l.microbatches), v = static_cast<double>(l.interleave);
  const int64_t tp_stride = 1, cp_stride = l.tp, pp_stride = l.tp * l.cp * l.dp;
  out.matrix_peak = pieces.matrix_peak;

  // Pipeline: what the slowest stage does for each microbatch, and the others once to fill and drain.
  size_t slowest = 0;
  double fill = 0;
  auto time_of = [](const Stage& s) { return s.forward + s.backward; };
  for (size_t k = 0; k < stages.size(); ++k)
    if (time_of(stages[k]) > time_of(stages[slowest])) slowest = k;
  const Stage& slow = stages[slowest];
  for (size_t k = 0; k < stages.size(); ++k)
    if (k != slowest) fill += time_of(stages[k]);
  double hop = 0;
  CollectiveTime sent;
  if (l.pp > 1) {
    const double bytes = slow.boundary > 0 ? slow.boundary : stages.front().boundary;
    sent = wire(CollectiveKind::send_recv, bytes, 2, pp_stride);
    hop = sent.seconds.value_or(0);
  }
  const double directions = options_.training ? 2 : 1;
  const double per_microbatch = time_of(slow) + (l.pp > 1 ? hop * directions * v : 0);
  fill += hop * directions * static_cast<double>(l.pp - 1);
  // Zero-bubble schedules fill a third of it with weight gradients' work left (ZB-H1).
  const double bubble = fill / v / (l.schedule == "zero-bubble" && options_.training ? 3 : 1);
  double time = per_microbatch * m + bubble;
  out.bubble = bubble;
  out.compute = time_of(slow) * m;

  // Data parallelism: gradients, and weights under ZeRO.
  const double parameters = slow.parameters + slow.expert_parameters;
  const double all_weights = slow.weight_bytes + slow.expert_weight_bytes;
  const double weight_bits = parameters > 0 ? all_weights / parameters : 2;
  const double gradient_bytes = options_.gradient_bytes ? static_cast<double>(options_.gradient_bytes)
                                : l.zero >= 2 ? std::max(1.0, std::round(weight_bits)) : 4;
  double net = slow.t_net * m + hop * directions * v * m * (l.pp > 1);
  double exposed_total = slow.exposed * m + hop * directions * v * m * (l.pp > 1);
  auto note = [&](const CollectiveTime& t, CollectiveKind kind, double bytes, int64_t ranks, int64_t stride, std::string_view axis,
                  std::string_view reason, Phase phase, int64_t count, double exposed) {
    if (details && count > 0) out.collectives.push_back({{kind, bytes, ranks, stride}, t, axis, reason, phase, count, exposed, UINT32_MAX, {}});
  };
  if (options_.training) {
    // Experts are reduced over the ranks that hold the same ones.
    const int64_t copies = l.dp * l.cp, expert_copies = std::max<int64_t>(1, copies / std::max<int64_t>(1, std::min(l.ep, copies)));
    const auto blocks = static_cast<double>(std::max<int64_t>(1, slow.pieces));
    // All but the last block's can run while compute goes on.
    auto hide = [&](double seconds, double beside) {
      return options_.overlap ? std::max(seconds / blocks, seconds - beside * (blocks - 1) / blocks) : seconds;
    };
    calls_.clear();
    double forward = 0, backward = 0, updated = 0;  // seconds of a microbatch's (or a step's) calls
    auto call = [&](CollectiveKind kind, double bytes, bool expert, int64_t count, std::string_view reason, Phase phase, double& sum) {
      const int64_t ranks = expert ? expert_copies : copies, stride = expert ? cp_stride * std::min(l.ep, copies) : cp_stride;
      if (bytes <= 0 || ranks <= 1) return;
      const CollectiveTime t = wire(kind, bytes, ranks, stride);
      sum += t.seconds.value_or(0) * static_cast<double>(count);
      if (details) calls_.push_back({{kind, bytes, ranks, stride}, t, "dp", reason, phase, count, 0, UINT32_MAX, {}});
    };
    if (copies > 1)
      for (const auto& [index, n] : slow.of) {
        const Piece& p = pieces.all[index];
        for (bool expert : {false, true}) {
          const double elements = expert ? p.expert_parameters : p.parameters, bytes = expert ? p.expert_weight_bytes : p.weight_bytes;
          const std::string_view reason = expert ? "gradients of experts" : "gradients";
          if (l.zero == 3) {
            call(CollectiveKind::all_gather, bytes, expert, n, "weights for forward", Phase::forward, forward);
            call(CollectiveKind::all_gather, bytes, expert, n, "weights for backward", Phase::backward, backward);
          }
          call(l.zero == 0 ? CollectiveKind::all_reduce : CollectiveKind::reduce_scatter, elements * gradient_bytes, expert, n, reason, Phase::backward, backward);
          if (l.zero == 1 || l.zero == 2) call(CollectiveKind::all_gather, bytes, expert, n, "updated weights", Phase::optimizer, updated);
        }
      }
    // ZeRO 3 gathers and reduces with each microbatch, the others reduce with the last one.
    const double runs = l.zero == 3 ? m : 1;
    const double shown_forward = hide(forward, slow.forward) * runs, shown_backward = hide(backward, slow.backward) * runs, shown_updated = hide(updated, slow.forward);
    time += shown_forward + shown_backward + shown_updated;
    net += (forward + backward) * runs + updated;
    exposed_total += shown_forward + shown_backward + shown_updated;
    for (StepCollective& c : calls_) {
      const double seconds = c.time.seconds.value_or(0);
      auto share = [&](double shown, double all) { return all > 0 ? shown / all * seconds : 0; };
      c.exposed = c.phase == Phase::forward ? share(shown_forward, forward * runs) : c.phase == Phase::backward ? share(shown_backward, backward * runs) : share(shown_updated, updated);
      c.count *= static_cast<int64_t>(c.phase == Phase::optimizer ? 1 : runs);
      out.collectives.push_back(c);
    }
    if (pieces.partial_gradients > 0 && l.tp > 1) {
      const double bytes = pieces.partial_gradients / static_cast<double>(l.pp) * gradient_bytes;
      const CollectiveTime t = wire(CollectiveKind::all_reduce, bytes, l.tp, tp_stride);
      time += t.seconds.value_or(0), net += t.seconds.value_or(0), exposed_total += t.seconds.value_or(0);
      note(t, CollectiveKind::all_reduce, bytes, l.tp, tp_stride, "tp", "gradients of weights that are not split", Phase::backward, 1, t.seconds.value_or(0));
    }
    // Adam reads gradient, master weight and two moments, and writes three of them and the weight.
    const double shards = l.zero >= 1 ? static_cast<double>(l.dp * l.cp) : 1;
    const double states = options_.optimizer == "sgd" ? 4 : 8, master = weight_bits < 4 ? 4 : 0;
    const double traffic = gradient_bytes + 2 * (states + master) + weight_bits * (master > 0 ? 1 : 2);
    if (const auto rate = memory_bandwidth(hardware_)) out.optimizer = parameters / shards * traffic / *rate;
    time += out.optimizer;
    out.t_hbm += out.optimizer;

    StepMemory& mem = out.memory;
    double worst = -1;
    for (size_t k = 0; k < stages.size(); ++k) {
      const Stage& s = stages[k];
      StepMemory own;
      const double p = s.parameters + s.expert_parameters;
      const double spread = static_cast<double>(copies), expert_spread = static_cast<double>(expert_copies);
      auto sharded = [&](double dense, double expert, bool yes) { return yes ? dense / spread + expert / expert_spread : dense + expert; };
      own.weights = sharded(s.weight_bytes, s.expert_weight_bytes, l.zero >= 3);
      const double kept_gradient = l.zero >= 2 || weight_bits >= 4 ? std::max(weight_bits, 1.0) : 4;
      own.gradients = sharded(s.parameters, s.expert_parameters, l.zero >= 2) * kept_gradient;
      own.optimizer = sharded(s.parameters, s.expert_parameters, l.zero >= 1) * (states + master);
      // 1F1B: stage k holds the microbatches that have not come back yet; interleaving holds a little more.
      double flying = std::min(m, static_cast<double>(l.pp) - static_cast<double>(k));
      if (l.schedule == "gpipe") flying = m;
      else if (v > 1) flying = std::min(m, (static_cast<double>(l.pp) - static_cast<double>(k)) + (static_cast<double>(l.pp) - 1) / v);
      own.activations = s.kept * flying;
      if (k == 0) out.first_activations = own.activations;
      own.workspace = s.working + s.largest * 2 + (l.zero >= 3 && s.pieces ? 2 * (s.weight_bytes + s.expert_weight_bytes) / static_cast<double>(s.pieces) : 0);
      own.worst_stage = static_cast<int64_t>(k);
      if (own.total() > worst && p >= 0) worst = own.total(), mem = own;
    }
    mem.kv_cache = pieces.cache;
  } else {
    double worst = -1;
    for (size_t k = 0; k < stages.size(); ++k) {
      StepMemory own;
      own.weights = stages[k].weight_bytes + stages[k].expert_weight_bytes;
      own.kv_cache = pieces.cache / static_cast<double>(stages.size());
      own.activations = stages[k].boundary + stages[k].largest;
      own.workspace = stages[k].largest;
      own.worst_stage = static_cast<int64_t>(k);
      if (own.total() > worst) worst = own.total(), out.memory = own;
    }
  }
  out.time = time;
  out.t_math += slow.t_math * m, out.t_hbm += slow.t_hbm * m, out.t_net = net, out.t_net_exposed = exposed_total;
  double flops = 0, again = 0;
  for (const Stage& s : stages) flops += s.matrix, again += s.recomputed;
  const auto copies = static_cast<double>(l.devices() / l.pp) * m;
  out.matrix_flops = flops * copies, out.recomputed_flops = again * copies;
  if (!details) return out;
  for (const Stage& s : stages) out.stages.push_back(s.pieces);
  out.slowest = slow.of;
  // What the tensor, context and expert axes send, counted on the slowest stage.
  for (const Communication& c : pieces.communications)
    for (const auto& [index, n] : slow.of) {
      const Piece& piece = pieces.all[index];
      if (c.position < piece.begin || c.position >= piece.end) continue;
      CollectiveTime t = wire(c.what.kind, c.what.bytes, c.what.ranks, c.what.stride);
      if (c.steps > 1) t.algorithm = "ring";
      // Full recomputation sends again what forward sent.
      const int64_t runs = l.recompute == "full" && piece.block && options_.training && c.phase == Phase::forward ? 2 : 1;
      out.collectives.push_back({c.what, t, c.axis == 255 ? "ep" : c.axis == 0 ? "tp" : "cp", c.reason, c.phase, n * l.microbatches * runs * c.steps, c.exposed, c.position, c.producer});
    }
  if (l.pp > 1) note(sent, CollectiveKind::send_recv, slow.boundary > 0 ? slow.boundary : stages.front().boundary, 2, pp_stride, "pp", "activations for the next stage",
                     Phase::forward, static_cast<int64_t>(directions) * l.microbatches * l.interleave, hop);
  return out;
}

}  // namespace roofcast
