#include "api/parallel.h"

#include "api/totals.h"
#include "hw/hardware.h"
#include "support/diagnostic.h"
#include "support/units.h"

#include <algorithm>
#include <charconv>

namespace roofcast {

// "pattern=axis:dim"
Result<std::vector<ShardPin>> parse_pins(const std::vector<std::string>& texts) {
  std::vector<ShardPin> pins;
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('='), colon = text.find(':', equals == text.npos ? 0 : equals);
    ShardPin pin;
    bool fine = equals != text.npos && equals > 0 && colon != text.npos;
    if (fine) {
      pin.pattern = text.substr(0, equals), pin.axis = text.substr(equals + 1, colon - equals - 1);
      const char* begin = text.data() + colon + 1;
      const auto [end, fault] = std::from_chars(begin, text.data() + text.size(), pin.dim);
      fine = fault == std::errc() && end == text.data() + text.size() && (pin.axis == "tp" || pin.axis == "cp");
    }
    if (!fine) return error("usage", "--shard " + text + " is not understood", {}, "write --shard 'layers.*.mlp.up_proj.weight=tp:0'; axes are tp and cp");
    pins.push_back(std::move(pin));
  }
  return pins;
}

Result<LayoutModelOptions> layout_model_options(const ParallelOptions& p, const std::string& time_model, bool causal) {
  LayoutModelOptions o;
  Result<std::vector<ShardPin>> pins = parse_pins(p.shard);
  if (!pins) return std::move(pins.error());
  o.step = {p.train, p.optimizer, p.gradient_bytes, p.overlap};
  o.model = roofcast::time_model(time_model);
  o.causal = causal, o.global_batch = p.global_batch, o.pins = std::move(*pins), o.dispatch_bits = p.dispatch_bits;
  return o;
}

CollectiveRow collective_row(const StepCollective& c, const Module& module) {
  CollectiveRow row;
  row.kind = name(c.what.kind), row.axis = c.axis, row.link = c.time.link, row.algorithm = c.time.algorithm;
  row.ranks = c.what.ranks, row.bytes = c.what.bytes, row.wire_bytes = c.time.wire_bytes, row.count = c.count;
  row.t_net = c.time.seconds, row.exposed = c.exposed;
  row.phase = c.phase == Phase::forward ? "forward" : c.phase == Phase::backward ? "backward" : "optimizer";
  row.why = c.reason;
  if (c.position != UINT32_MAX) {
    row.op = display_name(module, module.main().nodes[c.position]);
    if (c.producer.valid()) row.why += " of " + display_name(module, c.producer);
    row.why += c.phase == Phase::backward ? ", from " + row.op : ", for " + row.op;
  }
  if (!row.link.empty()) row.why += ", over " + row.link;
  return row;
}

std::string why_not(LayoutModel& model, const Layout& layout, const Step& step, double capacity) {
  if (step.memory.total() <= capacity) return {};
  const StepMemory& m = step.memory;
  std::pair<double, const char*> parts[] = {{m.weights, "weights"}, {m.gradients, "gradients"}, {m.optimizer, "optimizer states"},
                                            {m.activations, "activations"}, {m.kv_cache, "KV cache"}, {m.workspace, "workspace"}};
  std::sort(std::begin(parts), std::end(parts), [](auto& a, auto& b) { return a.first > b.first; });
  std::string text = "needs " + format_bytes(m.total()) + " of " + format_bytes(capacity) + ": ";
  for (int k = 0; k < 3 && parts[k].first > 0; ++k) text += (k ? ", " : "") + std::string(parts[k].second) + " " + format_bytes(parts[k].first);
  // The least change that fits.
  std::vector<std::pair<std::string, Layout>> changes;
  auto change = [&](const std::string& what, auto&& set) {
    Layout l = layout;
    set(l);
    changes.push_back({what, l});
  };
  if (m.optimizer > 0) {
    for (int64_t z = layout.zero + 1; z <= 3 && layout.dp * layout.cp > 1; ++z) change("zero=" + std::to_string(z), [&](Layout& l) { l.zero = z; });
    for (const char* r : {"selective", "full"})
      if (r != layout.recompute && layout.recompute != "full") change(std::string("recompute=") + r, [&](Layout& l) { l.recompute = r; });
    if (layout.dp * layout.cp > 1) change("zero=3,recompute=full", [&](Layout& l) { l.zero = 3, l.recompute = "full"; });
  }
  const int64_t share = model.global_batch() / std::max<int64_t>(1, layout.dp * layout.microbatches);
  if (share > 1 && model.has_batch_symbol()) change("mb=" + std::to_string(layout.microbatches * share), [&](Layout& l) { l.microbatches *= share; });
  for (int64_t more : {2, 4, 8}) change("tp=" + std::to_string(layout.tp * more), [&](Layout& l) { l.tp *= more; });
  for (const auto& [what, l] : changes)
    if (const Result<Step> s = model.step(l, false); s && s->memory.total() <= capacity) return text + "; " + what + " would fit";
  return text;
}

LayoutCandidate candidate_of(LayoutModel& model, const Layout& layout, const Step& step, const Hardware& hardware, const Module& module) {
  LayoutCandidate c;
  c.layout = layout, c.text = layout.text(), c.devices = layout.devices(), c.time = step.time;
  if (const auto tokens = model.tokens(); tokens && step.time > 0) {
    c.tokens_per_s = *tokens / step.time;
    c.tokens_per_s_per_device = *c.tokens_per_s / static_cast<double>(c.devices);
  }
  if (step.matrix_peak > 0 && step.time > 0) {
    const double most = step.matrix_peak * static_cast<double>(c.devices) * step.time;
    c.mfu = step.matrix_flops / most, c.hfu = (step.matrix_flops + step.recomputed_flops) / most;
  }
  const StepMemory& m = step.memory;
  c.memory = {m.weights, m.gradients, m.optimizer, m.activations, m.kv_cache, m.workspace, m.total(), m.worst_stage};
  if (const auto capacity = memory_capacity(hardware)) c.fits = m.total() <= *capacity;
  c.t_math = step.t_math, c.t_hbm = step.t_hbm, c.t_net = step.t_net, c.t_net_exposed = step.t_net_exposed, c.bubble = step.bubble;
  for (const StepCollective& s : step.collectives) {
    CollectiveRow row = collective_row(s, module);
    // Layers that are alike send alike.
    auto same = [&](const CollectiveRow& r) {
      return r.kind == row.kind && r.axis == row.axis && r.bytes == row.bytes && r.phase == row.phase && r.link == row.link && r.exposed == row.exposed;
    };
    const auto at = std::find_if(c.collectives.begin(), c.collectives.end(), same);
    if (at == c.collectives.end()) c.collectives.push_back(std::move(row));
    else at->count += row.count;
  }
  return c;
}

}  // namespace roofcast
