// Published training and inference cases against predicted steps. Shapes, layout, precision, device and
// network come from a row's own columns; nothing is fitted on them.
#include "frontend/huggingface/build.h"
#include "frontend/onnx/read.h"
#include "measure/statistics.h"
#include "passes/pass.h"
#include "roofcast/accuracy.h"
#include "search/layouts.h"
#include "support/diagnostic.h"
#include "support/mapped_file.h"
#include "support/units.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace roofcast {
namespace {

using Row = std::map<std::string, std::string, std::less<>>;

// Fields of one line of CSV; quoted fields may hold commas and doubled quotes.
std::vector<std::string> split_csv(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') fields.back() += c, ++i;
    else if (c == '"') quoted = !quoted;
    else if (c == ',' && !quoted) fields.emplace_back();
    else if (c != '\r') fields.back() += c;
  }
  return fields;
}

std::string text(const Row& r, std::string_view key) {
  const auto at = r.find(key);
  return at == r.end() ? std::string() : at->second;
}
std::optional<double> number(const Row& r, std::string_view key) {
  const std::string t = text(r, key);
  double v = 0;
  const auto [end, fault] = std::from_chars(t.data(), t.data() + t.size(), v);
  return !t.empty() && fault == std::errc() && end == t.data() + t.size() ? std::optional(v) : std::nullopt;
}
int64_t whole(const Row& r, std::string_view key, int64_t otherwise) {
  return static_cast<int64_t>(number(r, key).value_or(static_cast<double>(otherwise)));
}
bool begins(const std::string& t, std::string_view with) { return t.starts_with(with); }

// What software a set ran, where its documents say so.
struct Stack {
  const char* set;
  bool eager_attention;  // scores in memory: before fused attention
  bool dropout;          // GPT pretraining with 0.1
  bool overlap;          // gradient reduction beside backward
};
constexpr Stack stacks[] = {
    {"megatron-sc21-table1", true, true, false}, {"megatron-sc21-table2", true, true, false}, {"korthikanti-table5", true, true, false},
    {"korthikanti-table4", true, true, false},   {"korthikanti-memory", true, true, false},   {"vtrain-multi", true, true, false},
    {"vtrain-single", true, true, false},        {"mt-nlg", true, true, false},               {"bloom", true, false, false},
    {"neox", true, false, false},                {"megascale", false, false, true},           {"llm-foundry", false, false, true},
    {"torchtitan", false, false, true},          {"megatron-bridge", false, false, true},     {"llama1", false, false, true},
    {"llama3-table4", false, false, true},       {"deepseek-v3", false, false, true},         {"palm-mfu", true, false, true},
    {"pope-esti", true, false, true},            {"trtllm-static", false, false, true},
};

// The transformer of a row; fields that no column has follow from the family that the name says.
Transformer transformer_of(const Row& r, const Stack& stack) {
  Transformer t;
  const std::string name = text(r, "model");
  t.layers = whole(r, "layers", 1), t.hidden = whole(r, "hidden", 1), t.heads = whole(r, "heads", 1);
  t.kv_heads = whole(r, "kv_heads", t.heads), t.ffn = whole(r, "ffn", 4 * t.hidden), t.vocab = whole(r, "vocab", 51200);
  t.head_dim = std::max<int64_t>(1, t.hidden / t.heads);
  const int64_t seq = whole(r, "seq", whole(r, "in_len", 2048));
  auto plain = [&](bool biases) {
    t.rms = t.gated = t.rotary = false, t.activation = "gelu_tanh", t.tied = true;
    t.qkv_bias = t.out_bias = t.mlp_bias = biases, t.positions = seq;
  };
  auto parallel = [&] { t.parallel = t.shared_norm = true; };
  if (begins(name, "MPT")) plain(false);
  else if (begins(name, "PaLM")) plain(false), parallel(), t.gated = t.rotary = true, t.positions = 0, t.activation = "silu", t.head_dim = 256;
  else if (begins(name, "GPT-J") || begins(name, "GPT-NeoX")) plain(true), parallel(), t.rotary = true, t.positions = 0, t.tied = false;
  else if (begins(name, "Falcon")) plain(false), parallel(), t.rotary = true, t.positions = 0;
  else if (begins(name, "BLOOM")) plain(true), t.positions = 0, t.alibi = t.embedding_norm = true;
  else if (begins(name, "GPT OSS")) t.head_dim = 64, t.qkv_bias = t.out_bias = true;
  else if (begins(name, "GPT") || begins(name, "MT-NLG")) plain(true);
  if (begins(name, "Qwen3")) t.qk_norm = true, t.head_dim = 128;
  t.experts = whole(r, "experts", 0), t.chosen = whole(r, "topk", 1), t.expert_ffn = t.ffn;
  if (begins(name, "DeepSeekV3") || begins(name, "DeepSeek-V3") || begins(name, "Kimi")) {
    t.kv_heads = t.heads, t.q_rank = 1536, t.kv_rank = 512, t.nope_dim = 128, t.rope_dim = 64, t.value_dim = 128, t.head_dim = 192;
    t.ffn = 18432, t.dense_layers = begins(name, "Kimi") ? 1 : 3, t.shared_ffn = t.expert_ffn;
  }
  t.dtype = text(r, "precision") == "fp16" ? "float16" : "bfloat16";
  if (stack.dropout) t.attention_dropout = t.hidden_dropout = 0.1;
  return t;
}

class Predictions {
public:
  // Seconds, or what the row's metric is in; absent with the reason.
  std::optional<double> predict(const Row& r, TimeModel model, std::string& reason) {
    const std::string phase = text(r, "phase"), set = text(r, "set");
    const auto stack = std::find_if(std::begin(stacks), std::end(stacks), [&](const Stack& s) { return set == s.set; });
    if (phase == "sft" || phase == "lora" || phase == "serving" || stack == std::end(stacks)) return reason = phase + " rows are left out", std::nullopt;
    if (!number(r, "layers") || !number(r, "hidden")) return reason = "model shape not published", std::nullopt;
    if (text(r, "gpu").empty() && set != "torchtitan") return reason = "no id of a device", std::nullopt;
    const Hardware* hw = hardware(r);
    if (!hw) return reason = "no hardware file for " + text(r, "gpu"), std::nullopt;
    if (phase == "prefill" || phase == "decode" || phase == "prefill+decode") return inference(r, *stack, *hw, model, reason);
    return training(r, *stack, *hw, model, reason);
  }

private:
  struct Entry {
    std::unique_ptr<Module> module;
    std::unique_ptr<LayoutModel> layouts;
  };

  const Hardware* hardware(const Row& r) {
    std::string name = text(r, "cluster");
    if (name.empty()) {
      // One node, or the device's usual node.
      static constexpr std::pair<std::string_view, const char*> usual[] = {
          {"a100-sxm-80", "dgx-a100-80"}, {"a100-sxm-40", "dgx-a100-40"}, {"h100-sxm", "dgx-h100"}, {"h200-sxm", "dgx-h200"},
          {"b200-sxm", "dgx-b200"},       {"b300-sxm", "dgx-b300"},       {"gb200", "gb200-nvl72"}, {"gb300", "gb300-nvl72"},
          {"tpu-v4", "tpu-v4-pod"},       {"l40s", "pcie-8xl40s"},        {"", "dgx-h100"}};
      name = text(r, "gpu");
      for (const auto& [gpu, node] : usual)
        if (text(r, "gpu") == gpu) name = node;
    }
    auto [at, is_new] = hardware_.try_emplace(name);
    if (is_new)
      if (Result<Hardware> h = load_hardware(name)) at->second = std::make_unique<Hardware>(std::move(*h));
    return at->second.get();
  }

  LayoutModel* layouts(const Transformer& t, const BuildOptions& build, int64_t seq, int64_t past, const Hardware& hw, const LayoutModelOptions& options, const std::string& weights) {
    std::string key = hw.name + "|" + std::to_string(seq) + "|" + std::to_string(past) + "|" + weights + std::to_string(static_cast<int>(options.model)) +
                      std::to_string(static_cast<int>(options.product_math)) + std::to_string(options.fused_chains) + options.step.optimizer +
                      std::to_string(options.step.overlap) + std::to_string(options.step.gradient_bytes) + options.step.optimizer;
    const std::string bytes = build_transformer(t, build);
    key += std::to_string(std::hash<std::string>()(bytes));
    auto [at, is_new] = entries_.try_emplace(key);
    if (!is_new) return at->second.layouts.get();
    LoadOptions load;
    load.keep_symbols = true;
    Result<std::unique_ptr<Module>> module = read_onnx(MappedFile::of_bytes(bytes), text_name_, load);
    if (!module) return nullptr;
    at->second.module = std::move(*module);
    Module& m = *at->second.module;
    const std::string pipeline = weights.empty() ? "infer" : "infer,retype{weights=" + weights + "}";
    if (!run_pipeline(m, pipeline)) return nullptr;
    auto bind = [&](const char* name, int64_t value) {
      if (const auto id = m.exprs.symbol(name, SymbolOrigin::input_dim).as_symbol()) m.bound.set(*id, value);
    };
    bind("seq", seq), bind("past", past);
    at->second.layouts = std::make_unique<LayoutModel>(m, hw, options);
    return at->second.layouts.get();
  }

  std::optional<double> training(const Row& r, const Stack& stack, const Hardware& hw, TimeModel model, std::string& reason) {
    Transformer t = transformer_of(r, stack);
    const bool one_layer = text(r, "phase") == "train-layer";
    if (one_layer) t.layers = 6;
    LayoutModelOptions o;
    o.step.training = true, o.step.overlap = stack.overlap, o.model = model, o.fused_chains = true;
    if (begins(text(r, "dtype"), "fp8")) o.product_math = MathType::fp8;
    if (begins(text(r, "dtype"), "fp4")) o.product_math = MathType::fp4;
    Layout l;
    const int64_t gpus = whole(r, "gpus", 1);
    l.tp = whole(r, "tp", 1), l.pp = whole(r, "pp", 1), l.cp = whole(r, "cp", 1), l.ep = whole(r, "ep", 1), l.zero = whole(r, "zero", 0);
    l.interleave = whole(r, "vpp", 1), l.sp = text(r, "sp") == "yes";
    l.dp = whole(r, "dp", std::max<int64_t>(1, gpus / (l.tp * l.pp * l.cp)));
    if (l.pp == 1) l.interleave = 1;
    const int64_t batch = std::max<int64_t>(1, whole(r, "global_batch", l.dp));
    o.global_batch = batch;
    // Counting starts where forward attention is causal in fused kernels.
    o.causal = !stack.eager_attention;
    LayoutModel* layouts = this->layouts(t, {Form::train, stack.eager_attention}, whole(r, "seq", 2048), 1, hw, o, "");
    if (!layouts) return reason = "the model could not be built", std::nullopt;
    layouts->set_global_batch(batch);
    const double capacity = memory_capacity(hw).value_or(1e300);
    std::optional<Step> best;
    const std::string given = text(r, "recompute");
    const int64_t micro = whole(r, "micro_batch", 0), per_rank = std::max<int64_t>(1, batch / l.dp);
    // What is not printed is taken as the quickest that fits.
    for (int64_t b : micro ? std::vector<int64_t>{micro} : std::vector<int64_t>{1, 2, 4, 8})
      for (const std::string& recompute : given.empty() ? std::vector<std::string>{"none", "selective", "full"} : std::vector<std::string>{given}) {
        if (b > per_rank) continue;
        Layout own = l;
        own.microbatches = std::max<int64_t>(1, (per_rank + b - 1) / b), own.recompute = recompute;
        Result<Step> step = layouts->step(own, true);
        if (!step) return reason = step.error().message, std::nullopt;
        const bool fits = step->memory.total() <= capacity;
        if (!best || (fits && (best->memory.total() > capacity || step->time < best->time))) best = std::move(*step), l.microbatches = own.microbatches, l.recompute = recompute;
      }
    if (!best) return reason = "no microbatch divides the batch", std::nullopt;
    const std::string metric = text(r, "metric"), unit = text(r, "unit");
    const double tokens = layouts->tokens().value_or(0), devices = static_cast<double>(gpus);
    if (one_layer) {
      for (const Piece& p : layouts->pieces(l).all)
        if (p.block) {
          const double again = l.recompute == "full" ? p.forward + p.wire_forward : l.recompute == "selective" ? p.core : 0;
          return (p.forward + p.backward + p.wire_forward + p.wire_backward + again) * 1e3;
        }
      return reason = "no block found", std::nullopt;
    }
    if (metric == "iteration_time") return best->time * (unit == "ms" ? 1e3 : 1);
    if (metric == "tokens_per_s_per_gpu") return tokens / best->time / devices;
    if (metric == "hardware_tflops_per_gpu") return (best->matrix_flops + best->recomputed_flops) / best->time / devices / 1e12;
    if (metric == "model_tflops_per_gpu") return best->matrix_flops / best->time / devices / 1e12;
    if (metric == "mfu_pct") return 100 * best->matrix_flops / best->time / devices / best->matrix_peak;
    if (metric == "gpu_hours_per_1e12_tokens") return 1e12 / (tokens / best->time) * devices / 3600;
    if (metric == "activation_memory_first_stage") return best->first_activations / 1073741824.0;
    return reason = "metric " + metric + " is not predicted", std::nullopt;
  }

  std::optional<double> inference(const Row& r, const Stack& stack, const Hardware& hw, TimeModel model, std::string& reason) {
    const Transformer t = transformer_of(r, stack);
    LayoutModelOptions o;
    o.model = model, o.fused_chains = true, o.causal = true;
    std::string weights;
    const std::string dtype = text(r, "dtype");
    if (dtype == "fp8") weights = "float8_e4m3fn", o.product_math = MathType::fp8;
    if (dtype == "int8") weights = "int8";
    Layout l;
    const int64_t gpus = whole(r, "gpus", 1);
    l.tp = whole(r, "tp", gpus), l.pp = whole(r, "pp", 1);
    const int64_t batch = whole(r, "global_batch", 1), in = whole(r, "in_len", whole(r, "seq", 2048)), out = whole(r, "out_len", 1);
    auto time_of = [&](Form form, int64_t seq, int64_t past) -> std::optional<double> {
      LayoutModel* layouts = this->layouts(t, {form, false}, seq, past, hw, o, weights);
      if (!layouts) return reason = "the model could not be built", std::nullopt;
      layouts->set_global_batch(batch);
      const Result<Step> step = layouts->step(l, false);
      if (!step) return reason = step.error().message, std::nullopt;
      return step->time;
    };
    const std::string metric = text(r, "metric"), phase = text(r, "phase");
    const double scale = text(r, "unit") == "ms" ? 1e3 : 1;
    const auto prefill = phase == "decode" ? std::optional(0.0) : time_of(Form::prefill, in, 1);
    if (!prefill) return std::nullopt;
    if (metric == "first_token_latency" || phase == "prefill") return *prefill * scale;
    const int64_t context = phase == "decode" ? whole(r, "seq", 2048) : in + out / 2;
    const auto decode = time_of(Form::decode, 1, context);
    if (!decode) return std::nullopt;
    const double all = *prefill + *decode * static_cast<double>(out);
    if (metric == "latency") return all * scale;
    if (metric == "output_tokens_per_s_per_gpu") return static_cast<double>(batch * out) / all / static_cast<double>(gpus);
    return reason = "metric " + metric + " is not predicted", std::nullopt;
  }

  const std::string text_name_ = "published case";
  std::map<std::string, std::unique_ptr<Hardware>> hardware_;
  std::map<std::string, Entry> entries_;
};

double spearman(const std::vector<std::pair<double, double>>& pairs) {
  auto ranks = [&](auto&& value) {
    std::vector<size_t> order(pairs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return value(pairs[a]) < value(pairs[b]); });
    std::vector<double> rank(pairs.size());
    for (size_t i = 0; i < order.size();) {
      size_t j = i;
      while (j < order.size() && value(pairs[order[j]]) == value(pairs[order[i]])) ++j;
      for (size_t k = i; k < j; ++k) rank[order[k]] = static_cast<double>(i + j - 1) / 2;
      i = j;
    }
    return rank;
  };
  const auto x = ranks([](auto& p) { return p.first; }), y = ranks([](auto& p) { return p.second; });
  const double mean = (static_cast<double>(pairs.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) xy += (x[i] - mean) * (y[i] - mean), xx += (x[i] - mean) * (x[i] - mean), yy += (y[i] - mean) * (y[i] - mean);
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

struct Case {
  const Row* row;
  int64_t line;
  double measured, predicted;
};

// Rows that differ in layout alone.
std::string group_key(const Row& r) {
  std::string key;
  for (const char* name : {"set", "phase", "model", "layers", "hidden", "seq", "gpu", "gpus", "precision", "global_batch", "metric", "in_len", "out_len"}) key += text(r, name) + "|";
  return key;
}

}  // namespace

Result<Accuracy> layout_accuracy(const std::vector<std::string>& files, const AccuracyOptions& options) {
  Accuracy out;
  std::vector<std::pair<Row, int64_t>> rows;
  for (const std::string& path : files) {
    const Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
    if (!file) return file.error();
    std::vector<std::string> header;
    std::string_view rest = (*file)->bytes();
    for (int64_t line = 1; !rest.empty(); ++line) {
      const std::string_view one = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      const std::vector<std::string> fields = split_csv(one);
      if (header.empty()) {
        header = fields;
        if (std::find(header.begin(), header.end(), "metric") == header.end())
          return error("file-kind", "has no column \"metric\"", {.file = path, .line = 1}, "give a table of published layouts");
        continue;
      }
      if (one.empty()) continue;
      if (fields.size() != header.size())
        return error("file-kind", std::to_string(fields.size()) + " fields, the header has " + std::to_string(header.size()), {.file = path, .line = static_cast<uint64_t>(line)}, "check quotes");
      Row r;
      for (size_t k = 0; k < header.size(); ++k) r[header[k]] = fields[k];
      rows.push_back({std::move(r), line});
    }
  }
  Predictions predictions;
  std::map<std::string, int64_t> skipped;
  for (const TimeModel model : {TimeModel::ideal, TimeModel::kernel}) {
    std::map<std::string, std::vector<Case>> sets;
    std::map<std::string, int64_t> counts;
    for (const auto& [row, line] : rows) {
      std::string reason;
      ++counts[text(row, "set")];
      const auto measured = number(row, "value");
      const auto predicted = measured ? predictions.predict(row, model, reason) : std::nullopt;
      if (!predicted) {
        if (model == TimeModel::kernel) ++skipped[reason.empty() ? "no value" : reason];
        continue;
      }
      sets[text(row, "set")].push_back({&row, line, *measured, *predicted});
    }
    for (const auto& [set, cases] : sets) {
      AccuracyGroup g;
      g.source = "published", g.family = "layouts", g.model = name(model), g.fitted = "none", g.set = set, g.of_rows = counts[set];
      std::set<std::string> gpus;
      std::vector<double> absolute, relative;
      std::vector<std::pair<double, double>> pairs;
      std::map<std::string, std::vector<const Case*>> groups;
      for (const Case& c : cases) {
        gpus.insert(text(*c.row, "gpu"));
        const double e = c.predicted / c.measured - 1;
        absolute.push_back(std::abs(e)), relative.push_back(e), pairs.push_back({c.measured, c.predicted});
        groups[group_key(*c.row)].push_back(&c);
      }
      g.gpu = gpus.size() == 1 ? *gpus.begin() : "several";
      g.rows = static_cast<int64_t>(cases.size());
      g.mape = std::accumulate(absolute.begin(), absolute.end(), 0.0) / static_cast<double>(absolute.size());
      g.median_abs_error = median(absolute), g.p90 = percentile(absolute, 0.9), g.bias = median(relative);
      if (cases.size() > 2) g.spearman = spearman(pairs), g.kendall_tau = kendall_tau(pairs);
      double regret = 0;
      int64_t same = 0, number_of = 0;
      for (const auto& [key, members] : groups) {
        if (members.size() < 2) continue;
        // Of rates the greatest is best, of times the least.
        const bool rate = text(*members[0]->row, "metric").find("time") == std::string::npos && text(*members[0]->row, "metric").find("latency") == std::string::npos;
        auto cost = [&](double v) { return rate ? 1 / v : v; };
        auto least = [&](auto&& value) { return *std::min_element(members.begin(), members.end(), [&](auto* a, auto* b) { return cost(value(*a)) < cost(value(*b)); }); };
        const Case* chosen = least([](const Case& c) { return c.predicted; });
        const Case* best = least([](const Case& c) { return c.measured; });
        ++number_of, same += chosen == best, regret += cost(chosen->measured) / cost(best->measured) - 1;
      }
      if (number_of > 0) g.top1 = static_cast<double>(same) / static_cast<double>(number_of), g.mean_regret = regret / static_cast<double>(number_of);
      out.groups.push_back(std::move(g));
      if (model != TimeModel::kernel) continue;
      for (const Case& c : cases) {
        WorstRow w;
        w.file = files[0], w.line = c.line, w.gpu = text(*c.row, "gpu"), w.family = set;
        for (const char* key : {"model", "gpus", "tp", "pp", "vpp", "dp", "ep", "zero", "global_batch", "micro_batch", "recompute", "seq", "metric"})
          if (const std::string v = text(*c.row, key); !v.empty()) w.text += std::string(w.text.empty() ? "" : " ") + key + "=" + v;
        w.measured = c.measured, w.predicted = c.predicted, w.error = c.predicted / c.measured - 1;
        out.worst.push_back(std::move(w));
      }
    }
  }
  std::sort(out.worst.begin(), out.worst.end(), [](const WorstRow& a, const WorstRow& b) { return std::abs(a.error) > std::abs(b.error); });
  out.worst.resize(std::min(out.worst.size(), options.worst));
  for (const auto& [reason, count] : skipped) out.unpredicted.push_back({reason, count});
  return out;
}

}  // namespace roofcast
