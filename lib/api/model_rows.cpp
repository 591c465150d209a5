#include "api/model_rows.h"

#include "frontend/huggingface/build.h"
#include "frontend/onnx/read.h"
#include "passes/pass.h"
#include "search/layouts.h"

#include <algorithm>

namespace roofcast {
namespace {

// Dimensions of models that tables name, as their sources give them.
struct Named {
  std::string_view name;
  int64_t layers, hidden, heads, ffn, vocab;
  enum Family : uint8_t { bert, gpt, opt } family;
};
constexpr Named models[] = {
    {"bert_large", 24, 1024, 16, 4096, 30522, Named::bert}, {"gpt2_large", 36, 1280, 20, 5120, 50257, Named::gpt},
    {"gpt3_xl", 24, 3072, 24, 12288, 50257, Named::gpt},    {"gpt3_27", 32, 2560, 32, 10240, 50257, Named::gpt},
    {"opt_13", 24, 2048, 32, 8192, 50272, Named::opt},
};

Transformer transformer_of(const Named& m, int64_t positions, bool training) {
  Transformer t;
  t.layers = m.layers, t.hidden = m.hidden, t.heads = t.kv_heads = m.heads, t.head_dim = m.hidden / m.heads;
  t.ffn = m.ffn, t.vocab = m.vocab, t.positions = positions;
  t.rms = t.gated = t.rotary = false, t.qkv_bias = t.out_bias = t.mlp_bias = t.tied = true;
  t.activation = m.family == Named::gpt ? "gelu_tanh" : m.family == Named::opt ? "relu" : "gelu";
  t.dtype = "float32";
  if (training) t.attention_dropout = t.hidden_dropout = 0.1;
  if (m.family == Named::bert) {
    t.decoder = t.final_norm = false;
    // Run for its features, trained on masked tokens.
    t.post_norm = t.embedding_norm = true, t.types = 2;
    t.head = t.head_transform = training, t.pooler = !training;
  }
  return t;
}

}  // namespace

struct ModelTimes::Built {
  std::unique_ptr<Module> module;
  std::unique_ptr<LayoutModel> layouts;
};

ModelTimes::ModelTimes() = default;
ModelTimes::~ModelTimes() = default;

std::optional<double> ModelTimes::find(const MeasuredRow& row, const RowDevice& device, TimeModel model, std::string& reason) {
  const ModelRun& run = *row.run;
  const auto named = std::find_if(std::begin(models), std::end(models), [&](const Named& m) { return m.name == run.model; });
  if (named == std::end(models)) return reason = "no dimensions of the model " + std::string(run.model), std::nullopt;
  Layout layout;
  if (run.option == "dp4") layout.dp = 4;
  else if (run.option == "tp4") layout.tp = 4;
  else if (run.option == "pp4_1") layout.pp = 4;
  else if (run.option == "pp4_4") layout.pp = layout.microbatches = 4;
  else if (!run.option.empty()) return reason = "option " + std::string(run.option), std::nullopt;
  const std::string key = device.spec + "|" + std::string(run.model) + "|" + std::to_string(run.seq) + (run.training ? "|train|" : "|inf|") + std::string(name(model));
  auto [at, is_new] = built_.try_emplace(key);
  if (is_new) {
    LoadOptions load;
    load.keep_symbols = true;
    const std::string bytes = build_transformer(transformer_of(*named, run.seq, run.training), {run.training ? Form::train : Form::prefill, true});
    Result<std::unique_ptr<Module>> module = read_onnx(MappedFile::of_bytes(bytes), std::string(run.model), load);
    if (module && run_pipeline(**module, "infer")) {
      at->second = std::make_unique<Built>();
      at->second->module = std::move(*module);
      Module& m = *at->second->module;
      if (const auto id = m.exprs.symbol("seq", SymbolOrigin::input_dim).as_symbol()) m.bound.set(*id, run.seq);
      LayoutModelOptions o;
      o.model = model, o.step.training = run.training, o.step.overlap = false;
      at->second->layouts = std::make_unique<LayoutModel>(m, device.hardware, o);
    }
  }
  if (!at->second) return reason = "the model could not be built", std::nullopt;
  LayoutModel& layouts = *at->second->layouts;
  layouts.set_global_batch(run.batch);
  const Result<Step> step = layouts.step(layout, false);
  if (!step) return reason = step.error().message, std::nullopt;
  return step->time - step->optimizer;
}

}  // namespace roofcast
