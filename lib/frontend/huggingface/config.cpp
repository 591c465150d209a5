#include "frontend/huggingface/config.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace roofcast {
namespace {

using Json = nlohmann::json;

constexpr int64_t largest = int64_t{1} << 32;
constexpr int64_t most_layers = 10'000;

class Config {
public:
  Config(const Json& json, const std::string& file) : json_(json), file_(file) {}

  // The first of the keys that is there, within [low, high].
  int64_t need(std::initializer_list<const char*> keys, int64_t low = 1, int64_t high = largest) {
    if (const auto v = find(keys, low, high)) return *v;
    if (!fault_)
      fault_ = error("config-key", "\"" + std::string(*keys.begin()) + "\" is missing", {.file = file_}, "a config.json of transformers has it");
    return low;
  }
  int64_t otherwise(std::initializer_list<const char*> keys, int64_t value, int64_t low = 0, int64_t high = largest) {
    return find(keys, low, high).value_or(value);
  }
  bool flag(const char* key, bool value) {
    const auto at = json_.find(key);
    if (at == json_.end() || at->is_null()) return value;
    if (!at->is_boolean()) bad(key, "is no true or false");
    return at->is_boolean() ? at->get<bool>() : value;
  }
  double real(std::initializer_list<const char*> keys, double value) {
    for (const char* key : keys) {
      const auto at = json_.find(key);
      if (at == json_.end() || at->is_null()) continue;
      if (at->is_number() && at->get<double>() >= 0 && at->get<double>() <= 1) return at->get<double>();
      bad(key, "is no number from 0 to 1");
    }
    return value;
  }
  std::string text(std::initializer_list<const char*> keys, const char* value) {
    for (const char* key : keys) {
      const auto at = json_.find(key);
      if (at != json_.end() && at->is_string()) return at->get<std::string>();
    }
    return value;
  }
  bool architecture_has(std::string_view part) const {
    const auto at = json_.find("architectures");
    if (at == json_.end() || !at->is_array()) return false;
    return std::any_of(at->begin(), at->end(), [&](const Json& a) { return a.is_string() && a.get<std::string>().find(part) != std::string::npos; });
  }
  bool names_architecture() const {
    const auto at = json_.find("architectures");
    return at != json_.end() && at->is_array() && !at->empty();
  }
  bool has(const char* key) const {
    const auto at = json_.find(key);
    return at != json_.end() && !at->is_null();
  }
  void bad(const char* key, const std::string& why) {
    if (!fault_) fault_ = error("config-key", "\"" + std::string(key) + "\" " + why, {.file = file_}, "check it against the model's card");
  }
  const std::optional<Diagnostic>& fault() const { return fault_; }

private:
  std::optional<int64_t> find(std::initializer_list<const char*> keys, int64_t low, int64_t high) {
    for (const char* key : keys) {
      const auto at = json_.find(key);
      if (at == json_.end() || at->is_null()) continue;
      // Falcon's n_head_kv and its like may be given as true counts only.
      const bool whole = at->is_number_integer() && !(at->is_number_unsigned() && at->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
      if (!whole || at->get<int64_t>() < low || at->get<int64_t>() > high) {
        bad(key, "is no whole number from " + std::to_string(low) + " to " + std::to_string(high));
        return low;
      }
      return at->get<int64_t>();
    }
    return std::nullopt;
  }

  const Json& json_;
  const std::string& file_;
  std::optional<Diagnostic> fault_;
};

std::string activation_of(const std::string& name) {
  if (name == "silu" || name == "swish") return "silu";
  if (name == "relu") return "relu";
  if (name == "gelu_new" || name == "gelu_fast" || name == "gelu_pytorch_tanh" || name == "gelu_tanh") return "gelu_tanh";
  return "gelu";
}

// What most configs name alike.
void common(Config& c, Transformer& t) {
  t.layers = c.need({"num_hidden_layers", "n_layer", "num_layers"}, 1, most_layers);
  t.hidden = c.need({"hidden_size", "n_embd", "d_model"});
  t.heads = c.need({"num_attention_heads", "n_head"}, 1, 1 << 20);
  t.vocab = c.need({"vocab_size"});
  t.kv_heads = c.otherwise({"num_key_value_heads"}, t.heads, 1, 1 << 20);
  t.head_dim = c.otherwise({"head_dim"}, std::max<int64_t>(1, t.hidden / std::max<int64_t>(1, t.heads)), 1);
  t.dtype = c.text({"torch_dtype", "dtype"}, "bfloat16");
}

// The llama line: RMSNorm, rotary positions, gated MLP, no biases.
void llama(Config& c, Transformer& t) {
  common(c, t);
  t.ffn = c.need({"intermediate_size"});
  t.activation = activation_of(c.text({"hidden_act", "hidden_activation"}, "silu"));
  t.tied = c.flag("tie_word_embeddings", false);
  t.qkv_bias = t.out_bias = c.flag("attention_bias", false);
  t.mlp_bias = c.flag("mlp_bias", false);
  t.attention_dropout = c.real({"attention_dropout"}, 0);
  if (c.flag("use_sliding_window", true)) t.window = c.otherwise({"sliding_window"}, 0);
}
void qwen2(Config& c, Transformer& t) {
  llama(c, t);
  t.qkv_bias = true, t.out_bias = false;
  if (!c.flag("use_sliding_window", false)) t.window = 0;
}
void qwen3(Config& c, Transformer& t) {
  llama(c, t);
  t.qk_norm = true;
  t.head_dim = c.otherwise({"head_dim"}, 128, 1);
  if (!c.flag("use_sliding_window", false)) t.window = 0;
}
void gemma(Config& c, Transformer& t) {
  llama(c, t);
  t.tied = c.flag("tie_word_embeddings", true);
  t.head_dim = c.otherwise({"head_dim"}, 256, 1);
  t.activation = "gelu_tanh";
}
void gemma2(Config& c, Transformer& t) { gemma(c, t), t.sandwich_norm = true; }
void gemma3(Config& c, Transformer& t) { gemma2(c, t), t.qk_norm = true; }
void mixtral(Config& c, Transformer& t) {
  llama(c, t);
  t.experts = c.need({"num_local_experts"}, 1, 1 << 16), t.chosen = c.need({"num_experts_per_tok"}, 1, 1 << 16);
  t.expert_ffn = t.ffn;
}
void qwen_moe(Config& c, Transformer& t) {
  t.experts = c.need({"num_experts"}, 1, 1 << 16), t.chosen = c.need({"num_experts_per_tok"}, 1, 1 << 16);
  t.expert_ffn = c.need({"moe_intermediate_size"});
  t.expert_every = c.otherwise({"decoder_sparse_step"}, 1, 1, most_layers);
}
void qwen2_moe(Config& c, Transformer& t) {
  qwen2(c, t), qwen_moe(c, t);
  t.shared_ffn = c.need({"shared_expert_intermediate_size"}), t.shared_gate = true;
}
void qwen3_moe(Config& c, Transformer& t) { qwen3(c, t), qwen_moe(c, t); }
void deepseek(Config& c, Transformer& t) {
  llama(c, t);
  t.kv_heads = t.heads;
  t.q_rank = c.otherwise({"q_lora_rank"}, 0), t.kv_rank = c.need({"kv_lora_rank"});
  t.nope_dim = c.need({"qk_nope_head_dim"}), t.rope_dim = c.need({"qk_rope_head_dim"}), t.value_dim = c.need({"v_head_dim"});
  t.head_dim = t.nope_dim + t.rope_dim;
  t.experts = c.otherwise({"n_routed_experts"}, 0, 0, 1 << 16);
  if (t.experts == 0) return;
  t.chosen = c.need({"num_experts_per_tok"}, 1, 1 << 16), t.expert_ffn = c.need({"moe_intermediate_size"});
  t.dense_layers = c.otherwise({"first_k_dense_replace"}, 0, 0, most_layers);
  t.expert_every = c.otherwise({"moe_layer_freq"}, 1, 1, most_layers);
  t.shared_ffn = t.expert_ffn * c.otherwise({"n_shared_experts"}, 0, 0, 1 << 16);
}
// The GPT-2 line: LayerNorm, biases, plain MLP.
void plain(Config& c, Transformer& t) {
  common(c, t);
  t.rms = t.gated = t.rotary = false;
  t.qkv_bias = t.out_bias = t.mlp_bias = true;
  t.ffn = c.otherwise({"intermediate_size", "n_inner", "ffn_dim"}, 4 * t.hidden, 1);
  t.activation = activation_of(c.text({"hidden_act", "activation_function"}, "gelu_new"));
}
void gpt2(Config& c, Transformer& t) {
  plain(c, t);
  t.positions = c.otherwise({"n_positions", "max_position_embeddings"}, 1024, 1), t.tied = c.flag("tie_word_embeddings", true);
  t.attention_dropout = c.real({"attn_pdrop"}, 0.1), t.hidden_dropout = c.real({"resid_pdrop"}, 0.1);
}
void gpt_neox(Config& c, Transformer& t) {
  plain(c, t);
  t.rotary = true, t.rotary_dim = static_cast<int64_t>(static_cast<double>(t.head_dim) * c.real({"rotary_pct", "partial_rotary_factor"}, 0.25));
  t.parallel = c.flag("use_parallel_residual", true), t.tied = c.flag("tie_word_embeddings", false);
  t.activation = activation_of(c.text({"hidden_act"}, "gelu"));
  t.attention_dropout = c.real({"attention_dropout"}, 0), t.hidden_dropout = c.real({"hidden_dropout"}, 0);
}
void opt(Config& c, Transformer& t) {
  plain(c, t);
  // Two rows before the first position.
  t.positions = c.need({"max_position_embeddings"}) + 2, t.tied = c.flag("tie_word_embeddings", true);
  t.activation = activation_of(c.text({"activation_function"}, "relu"));
  t.attention_dropout = c.real({"attention_dropout"}, 0), t.hidden_dropout = c.real({"dropout"}, 0.1);
  if (c.otherwise({"word_embed_proj_dim"}, t.hidden) != t.hidden) c.bad("word_embed_proj_dim", "differs from hidden_size: projected embeddings are not built");
}
void bloom(Config& c, Transformer& t) {
  plain(c, t);
  t.alibi = t.embedding_norm = true, t.tied = c.flag("tie_word_embeddings", true);
  t.activation = "gelu_tanh";
  t.attention_dropout = c.real({"attention_dropout"}, 0), t.hidden_dropout = c.real({"hidden_dropout"}, 0);
}
void falcon(Config& c, Transformer& t) {
  plain(c, t);
  t.qkv_bias = t.out_bias = t.mlp_bias = c.flag("bias", false);
  t.ffn = c.otherwise({"ffn_hidden_size"}, 4 * t.hidden, 1);
  t.alibi = c.flag("alibi", false), t.rotary = !t.alibi, t.tied = c.flag("tie_word_embeddings", true);
  t.activation = activation_of(c.text({"activation"}, "gelu"));
  t.parallel = c.flag("parallel_attn", true);
  const bool newer = c.flag("new_decoder_architecture", false);
  if (newer) t.kv_heads = c.otherwise({"num_kv_heads", "n_head_kv"}, t.heads, 1, 1 << 20), t.parallel = true;
  else t.kv_heads = c.flag("multi_query", true) ? 1 : t.heads;
  t.shared_norm = t.parallel && !(newer && c.otherwise({"num_ln_in_parallel_attn"}, 2, 1, 2) == 2);
}
void bert(Config& c, Transformer& t) {
  plain(c, t);
  t.decoder = false, t.post_norm = t.embedding_norm = true, t.final_norm = false;
  t.activation = activation_of(c.text({"hidden_act"}, "gelu"));
  t.positions = c.otherwise({"max_position_embeddings"}, 512, 1), t.types = c.otherwise({"type_vocab_size"}, 2, 0);
  t.head = c.architecture_has("MaskedLM") || c.architecture_has("PreTraining");
  t.head_transform = t.head, t.tied = true;
  t.pooler = !c.architecture_has("MaskedLM");
  t.attention_dropout = c.real({"attention_probs_dropout_prob"}, 0.1), t.hidden_dropout = c.real({"hidden_dropout_prob"}, 0.1);
}
void phi3(Config& c, Transformer& t) {
  llama(c, t);
  t.hidden_dropout = c.real({"resid_pdrop"}, 0);
  t.rotary_dim = static_cast<int64_t>(static_cast<double>(t.head_dim) * c.real({"partial_rotary_factor"}, 1));
}

struct Architecture {
  const char* model_type;
  void (*fill)(Config&, Transformer&);
};
constexpr Architecture table[] = {
    {"llama", llama},         {"mistral", llama},           {"qwen2", qwen2},         {"qwen3", qwen3},     {"gemma", gemma},
    {"gemma2", gemma2},       {"gemma3_text", gemma3},      {"phi3", phi3},           {"gpt2", gpt2},       {"gpt_neox", gpt_neox},
    {"opt", opt},             {"bloom", bloom},             {"falcon", falcon},       {"bert", bert},       {"mixtral", mixtral},
    {"qwen2_moe", qwen2_moe}, {"qwen3_moe", qwen3_moe},     {"deepseek_v2", deepseek}, {"deepseek_v3", deepseek},
};

}  // namespace

std::string known_model_types() {
  std::string all;
  for (const Architecture& a : table) all += (all.empty() ? "" : ", ") + std::string(a.model_type);
  return all;
}

Result<Transformer> read_config(std::string_view text, const std::string& file) {
  constexpr size_t most_bytes = 1 << 22;
  if (text.size() > most_bytes) return error("config-json", "is larger than 4 MiB", {.file = file}, "a config.json holds dimensions only");
  // Depth is bounded, so that hostile nesting ends early.
  int deepest = 0;
  const Json json = Json::parse(text.begin(), text.end(), [&](int depth, Json::parse_event_t, Json&) { return deepest = std::max(deepest, depth), depth < 32; }, false);
  if (json.is_discarded() || !json.is_object()) return error("config-json", "is no JSON object", {.file = file}, "give a Hugging Face config.json or an .onnx file");
  // Models of several parts keep the language model's figures in a part of their own.
  const Json* part = &json;
  if (const auto inner = json.find("text_config"); inner != json.end() && inner->is_object()) part = &*inner;
  Config config(*part, file);
  const std::string type = config.text({"model_type"}, "");
  const auto row = std::find_if(std::begin(table), std::end(table), [&](const Architecture& a) { return type == a.model_type; });
  if (row == std::end(table))
    return error("config-model-type", type.empty() ? "\"model_type\" is missing" : "model_type \"" + type + "\" is not known", {.file = file}, "known: " + known_model_types());
  Transformer t;
  t.model_type = type;
  row->fill(config, t);
  if (t.kv_heads > 0 && t.heads % t.kv_heads != 0) config.bad("num_key_value_heads", "does not divide the heads");
  if (t.experts > 0 && t.chosen > t.experts) config.bad("num_experts_per_tok", "is more than there are experts");
  if (t.dtype != "float32" && t.dtype != "float16" && t.dtype != "bfloat16") t.dtype = "bfloat16";
  if (config.fault()) return *config.fault();
  return t;
}

}  // namespace roofcast
