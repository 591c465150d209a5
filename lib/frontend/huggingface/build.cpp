#include "frontend/huggingface/build.h"

#include <onnx-ml.pb.h>

#include <cmath>
#include <variant>
#include <vector>

namespace roofcast {
namespace {

constexpr int64_t opset = 24, ir = 12;

using Dim = std::variant<int64_t, const char*>;
using Attr = std::pair<const char*, std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<float>>>;

class Builder {
public:
  Builder(const Transformer& t, const BuildOptions& o) : t_(t), o_(o), graph_(*model_.mutable_graph()) {
    type_ = t.dtype == "float32" ? onnx::TensorProto::FLOAT : t.dtype == "float16" ? onnx::TensorProto::FLOAT16 : onnx::TensorProto::BFLOAT16;
    model_.set_ir_version(ir), model_.set_producer_name("roofcast");
    for (const auto& [domain, version] : {std::pair{"", opset}, std::pair{"com.microsoft", int64_t{1}}}) {
      if (*domain && t.experts == 0) continue;
      auto* import = model_.add_opset_import();
      import->set_domain(domain), import->set_version(version);
    }
    graph_.set_name(t.model_type);
  }

  std::string run() {
    const Dim rows = o_.form == Form::decode ? Dim(int64_t{1}) : Dim("seq");
    input("input_ids", onnx::TensorProto::INT64, {"batch", rows});
    std::string x = embeddings(rows);
    if (t_.rotary) rotary_tables(rows);
    if (t_.alibi) input("alibi", type_, {int64_t{1}, t_.heads, int64_t{1}, o_.form == Form::decode ? Dim("past + 1") : rows});
    if (o_.eager_attention && t_.decoder && o_.form != Form::decode) input("causal_mask", type_, {int64_t{1}, int64_t{1}, rows, rows});
    for (int64_t l = 0; l < t_.layers; ++l) x = layer(l, x);
    scope_ = "/model";
    if (t_.final_norm) x = norm(x, "norm", t_.hidden);
    results(x, rows);
    return model_.SerializeAsString();
  }

private:
  // ---- Pieces of a graph. Names follow the scope, as exporters do it.
  std::string path(const std::string& name) const { return scope_ + "/" + name; }

  void set_dims(onnx::ValueInfoProto& v, int type, const std::vector<Dim>& dims) {
    auto* tensor = v.mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    auto* shape = tensor->mutable_shape();
    for (const Dim& d : dims) {
      if (std::holds_alternative<int64_t>(d)) shape->add_dim()->set_dim_value(std::get<int64_t>(d));
      else shape->add_dim()->set_dim_param(std::get<const char*>(d));
    }
  }
  std::string input(const std::string& name, int type, const std::vector<Dim>& dims) {
    auto* v = graph_.add_input();
    v->set_name(name), set_dims(*v, type, dims);
    return name;
  }
  void output(const std::string& name, int type, const std::vector<Dim>& dims) {
    auto* v = graph_.add_output();
    v->set_name(name), set_dims(*v, type, dims);
  }

  std::string weight(const std::string& name, const std::vector<int64_t>& dims) {
    std::string full = scope_.substr(scope_.empty() ? 0 : 1) + "/" + name;
    for (char& c : full)
      if (c == '/') c = '.';
    auto* w = graph_.add_initializer();
    for (int64_t d : dims) w->add_dims(d);
    w->set_name(full), w->set_data_type(type_), w->set_data_location(onnx::TensorProto::EXTERNAL);
    auto* location = w->add_external_data();
    location->set_key("location"), location->set_value(no_weights);
    return full;
  }

  std::vector<std::string> node(const char* op, const std::string& name, const std::vector<std::string>& inputs,
                                const std::vector<std::string>& outputs, const std::vector<Attr>& attributes = {}, const char* domain = "") {
    auto* n = graph_.add_node();
    n->set_op_type(op), n->set_name(path(name)), n->set_domain(domain);
    for (const std::string& i : inputs) n->add_input(i);
    for (const std::string& o : outputs) n->add_output(o);
    for (const auto& [key, value] : attributes) {
      auto* a = n->add_attribute();
      a->set_name(key);
      if (const auto* i = std::get_if<int64_t>(&value)) a->set_type(onnx::AttributeProto::INT), a->set_i(*i);
      else if (const auto* f = std::get_if<double>(&value)) a->set_type(onnx::AttributeProto::FLOAT), a->set_f(static_cast<float>(*f));
      else if (const auto* s = std::get_if<std::string>(&value)) a->set_type(onnx::AttributeProto::STRING), a->set_s(*s);
      else if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
        a->set_type(onnx::AttributeProto::INTS);
        for (int64_t v : *ints) a->add_ints(v);
      } else {
        a->set_type(onnx::AttributeProto::FLOATS);
        for (float v : std::get<std::vector<float>>(value)) a->add_floats(v);
      }
    }
    return outputs;
  }
  std::string one(const char* op, const std::string& name, const std::vector<std::string>& inputs, const std::vector<Attr>& attributes = {}, const char* domain = "") {
    return node(op, name, inputs, {path(name) + "_output"}, attributes, domain)[0];
  }
  std::string shape(const std::string& name, const std::vector<int64_t>& values) {
    return one("Constant", name, {}, {{"value_ints", values}});
  }

  std::string linear(const std::string& x, const std::string& name, int64_t in, int64_t out, bool bias) {
    std::string y = one("MatMul", name + "/MatMul", {x, weight(name + ".weight", {in, out})});
    return bias ? one("Add", name + "/Add", {y, weight(name + ".bias", {out})}) : y;
  }
  std::string norm(const std::string& x, const std::string& name, int64_t size) {
    if (t_.rms) return one("RMSNormalization", name, {x, weight(name + ".weight", {size})}, {{"axis", int64_t{-1}}});
    return one("LayerNormalization", name, {x, weight(name + ".weight", {size}), weight(name + ".bias", {size})}, {{"axis", int64_t{-1}}});
  }
  std::string add(const std::string& x, const std::string& y, const std::string& name) { return one("Add", name, {x, y}); }
  std::string dropout(const std::string& x, const std::string& name, double ratio) {
    if (o_.form != Form::train || ratio <= 0) return x;
    if (yes_.empty()) {
      yes_ = one("Cast", "training", {one("Constant", "one", {}, {{"value_int", int64_t{1}}})}, {{"to", int64_t{onnx::TensorProto::BOOL}}});
      ratio_ = one("Constant", "ratio", {}, {{"value_float", ratio}});
    }
    return node("Dropout", name, {x, ratio_, yes_}, {path(name) + "_output", path(name) + "_mask"})[0];
  }

  // ---- Parts of a transformer.
  std::string embeddings(const Dim& rows) {
    scope_ = "/model";
    embedding_ = weight("embed_tokens.weight", {t_.vocab, t_.hidden});
    std::string x = one("Gather", "embed_tokens", {embedding_, "input_ids"});
    if (t_.positions > 0 || t_.rotary) input("position_ids", onnx::TensorProto::INT64, {"batch", rows});
    if (t_.positions > 0) x = add(x, one("Gather", "embed_positions", {weight("embed_positions.weight", {t_.positions, t_.hidden}), "position_ids"}), "add_positions");
    if (t_.types > 0) {
      input("token_type_ids", onnx::TensorProto::INT64, {"batch", rows});
      x = add(x, one("Gather", "embed_types", {weight("embed_types.weight", {t_.types, t_.hidden}), "token_type_ids"}), "add_types");
    }
    if (t_.embedding_norm) x = norm(x, "embed_norm", t_.hidden);
    return dropout(x, "embed_dropout", t_.hidden_dropout);
  }

  int64_t rotated() const { return t_.rope_dim > 0 ? t_.rope_dim : t_.rotary_dim > 0 ? t_.rotary_dim : t_.head_dim; }

  // cos and sin [batch, seq, rotated / 2] of position · 10000^(−2i/rotated).
  void rotary_tables(const Dim&) {
    scope_ = "/model/rotary_emb";
    std::vector<float> frequencies;
    for (int64_t i = 0; i < rotated() / 2; ++i) frequencies.push_back(static_cast<float>(std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(rotated()))));
    const std::string inverse = one("Constant", "inv_freq", {}, {{"value_floats", frequencies}});
    const std::string positions = one("Cast", "positions", {one("Unsqueeze", "unsqueeze", {"position_ids", shape("axes", {-1})})}, {{"to", int64_t{onnx::TensorProto::FLOAT}}});
    const std::string angles = one("Mul", "angles", {positions, inverse});
    for (const auto& [op, out] : {std::pair{"Cos", &cos_}, std::pair{"Sin", &sin_}})
      *out = one("Cast", std::string(op) + "_cast", {one(op, op, {angles})}, {{"to", int64_t{type_}}});
  }
  std::string rotate(const std::string& x, const std::string& name, int64_t heads) {
    if (!t_.rotary) return x;
    std::vector<Attr> attributes{{"num_heads", heads}};
    if (rotated() < t_.head_dim && t_.rope_dim == 0) attributes.push_back({"rotary_embedding_dim", rotated()});
    return one("RotaryEmbedding", name, {x, cos_, sin_}, attributes);
  }
  // RMSNorm of each head of [batch, seq, heads·d].
  std::string head_norm(const std::string& x, const std::string& name, int64_t heads) {
    if (!t_.qk_norm) return x;
    const std::string split = one("Reshape", name + "/split", {x, shape(name + "/heads", {0, 0, heads, t_.head_dim})});
    const std::string y = one("RMSNormalization", name, {split, weight(name + ".weight", {t_.head_dim})}, {{"axis", int64_t{-1}}});
    return one("Reshape", name + "/merge", {y, shape(name + "/flat", {0, 0, heads * t_.head_dim})});
  }

  std::string layer(int64_t l, const std::string& x) {
    const std::string scope = "/model/layers." + std::to_string(l);
    scope_ = scope;
    if (t_.post_norm) {
      const std::string a = attention(l, x, scope);
      scope_ = scope;
      const std::string h = norm(add(x, dropout(a, "attn_dropout", t_.hidden_dropout), "attn_residual"), "attn_norm", t_.hidden);
      const std::string m = mlp(h, scope + "/mlp", t_.ffn);
      scope_ = scope;
      return norm(add(h, dropout(m, "mlp_dropout", t_.hidden_dropout), "mlp_residual"), "mlp_norm", t_.hidden);
    }
    const std::string before = norm(x, "input_layernorm", t_.hidden);
    std::string a = attention(l, before, scope);
    scope_ = scope;
    if (t_.sandwich_norm) a = norm(a, "post_attention_layernorm", t_.hidden);
    a = dropout(a, "attn_dropout", t_.hidden_dropout);
    const std::string h = t_.parallel ? x : add(x, a, "attn_residual");
    const std::string inside = t_.shared_norm ? before : norm(h, t_.sandwich_norm ? "pre_feedforward_layernorm" : "post_attention_layernorm", t_.hidden);
    std::string m = t_.has_experts(l) ? experts(inside, scope) : mlp(inside, scope + "/mlp", t_.ffn);
    scope_ = scope;
    if (t_.sandwich_norm) m = norm(m, "post_feedforward_layernorm", t_.hidden);
    m = dropout(m, "mlp_dropout", t_.hidden_dropout);
    // Parallel halves are summed before they meet the residual.
    return t_.parallel ? add(x, add(a, m, "halves"), "residual") : add(h, m, "mlp_residual");
  }

  std::string attention(int64_t l, const std::string& x, const std::string& scope) {
    scope_ = scope + "/self_attn";
    if (t_.kv_rank > 0) return latent_attention(l, x);
    const int64_t q = t_.heads * t_.head_dim, kv = t_.kv_heads * t_.head_dim;
    std::string query = rotate(head_norm(linear(x, "q_proj", t_.hidden, q, t_.qkv_bias), "q_norm", t_.heads), "q_rotary", t_.heads);
    std::string key = rotate(head_norm(linear(x, "k_proj", t_.hidden, kv, t_.qkv_bias), "k_norm", t_.kv_heads), "k_rotary", t_.kv_heads);
    std::string value = linear(x, "v_proj", t_.hidden, kv, t_.qkv_bias);
    const std::string y = core(l, query, key, value, t_.kv_heads, t_.head_dim, t_.head_dim);
    return linear(y, "o_proj", q, t_.hidden, t_.out_bias);
  }

  // DeepSeek-V2, arXiv 2405.04434, section 2.1: queries and keys from low-rank vectors, one rotated key
  // that all heads share.
  std::string latent_attention(int64_t l, const std::string& x) {
    const int64_t wide = t_.heads * t_.head_dim;
    std::string query;
    if (t_.q_rank > 0) query = linear(norm(linear(x, "q_a_proj", t_.hidden, t_.q_rank, false), "q_a_layernorm", t_.q_rank), "q_b_proj", t_.q_rank, wide, false);
    else query = linear(x, "q_proj", t_.hidden, wide, false);
    const std::string down = linear(x, "kv_a_proj_with_mqa", t_.hidden, t_.kv_rank + t_.rope_dim, false);
    const auto parts = node("Split", "split_kv", {down, shape("kv_parts", {t_.kv_rank, t_.rope_dim})}, {path("compressed"), path("shared_key")}, {{"axis", int64_t{-1}}});
    const std::string up = linear(norm(parts[0], "kv_a_layernorm", t_.kv_rank), "kv_b_proj", t_.kv_rank, t_.heads * (t_.nope_dim + t_.value_dim), false);
    // [batch, heads, seq, d]
    auto heads = [&](const std::string& v, const std::string& name, int64_t count, int64_t d) {
      return one("Transpose", name + "/Transpose", {one("Reshape", name + "/Reshape", {v, shape(name + "/shape", {0, 0, count, d})})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    };
    auto rotated_part = [&](const std::string& v, const std::string& name) { return one("RotaryEmbedding", name, {v, cos_, sin_}); };
    const auto q = node("Split", "split_q", {heads(query, "q_heads", t_.heads, t_.head_dim), shape("q_parts", {t_.nope_dim, t_.rope_dim})}, {path("q_nope"), path("q_pe")}, {{"axis", int64_t{-1}}});
    query = one("Concat", "query", {q[0], rotated_part(q[1], "q_rotary")}, {{"axis", int64_t{-1}}});
    const auto kv = node("Split", "split_up", {heads(up, "kv_heads", t_.heads, t_.nope_dim + t_.value_dim), shape("up_parts", {t_.nope_dim, t_.value_dim})}, {path("k_nope"), path("value")}, {{"axis", int64_t{-1}}});
    const std::string shared = rotated_part(heads(parts[1], "key_pe", 1, t_.rope_dim), "k_rotary");
    const std::string every = one("Expand", "key_pe_heads", {shared, shape("key_pe_shape", {1, t_.heads, 1, 1})});
    const std::string key = one("Concat", "key", {kv[0], every}, {{"axis", int64_t{-1}}});
    const std::string y = core(l, query, key, kv[1], t_.heads, t_.head_dim, t_.value_dim, true);
    const std::string flat = one("Reshape", "merge/Reshape", {one("Transpose", "merge/Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}), shape("merge/shape", {0, 0, t_.heads * t_.value_dim})});
    return linear(flat, "o_proj", t_.heads * t_.value_dim, t_.hidden, false);
  }

  // Scores, mask, softmax and their product with values. `split`: operands are [batch, heads, seq, d].
  std::string core(int64_t l, std::string query, std::string key, std::string value, int64_t kv_heads, int64_t key_dim, int64_t value_dim, bool split = false) {
    const bool decode = o_.form == Form::decode;
    if (o_.eager_attention && !decode) return eager(query, key, value, kv_heads, key_dim, value_dim, split);
    std::vector<std::string> inputs{query, key, value, t_.alibi ? "alibi" : ""}, outputs{path("attention_output")};
    if (decode && t_.decoder) {
      const std::string at = "past_key_values." + std::to_string(l);
      inputs.push_back(input(at + ".key", type_, {"batch", kv_heads, "past", key_dim}));
      inputs.push_back(input(at + ".value", type_, {"batch", kv_heads, "past", value_dim}));
      const std::string present = "present." + std::to_string(l);
      outputs.push_back(present + ".key"), outputs.push_back(present + ".value");
      output(outputs[1], type_, {"batch", kv_heads, "past + 1", key_dim}), output(outputs[2], type_, {"batch", kv_heads, "past + 1", value_dim});
    }
    while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
    std::vector<Attr> attributes;
    if (!split) attributes.push_back({"q_num_heads", t_.heads}), attributes.push_back({"kv_num_heads", kv_heads});
    if (t_.decoder && !decode) attributes.push_back({"is_causal", int64_t{1}});
    return node("Attention", "attention", inputs, outputs, attributes)[0];
  }

  std::string eager(std::string query, std::string key, std::string value, int64_t kv_heads, int64_t key_dim, int64_t value_dim, bool split) {
    auto heads = [&](const std::string& v, const std::string& name, int64_t count, int64_t d) {
      return one("Transpose", name + "/Transpose", {one("Reshape", name + "/Reshape", {v, shape(name + "/shape", {0, 0, count, d})})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    };
    if (!split) query = heads(query, "query", t_.heads, key_dim), key = heads(key, "key", kv_heads, key_dim), value = heads(value, "value", kv_heads, value_dim);
    if (kv_heads != t_.heads) {
      // Each key head serves a group of query heads: [b, kv, 1, s, d] spread to [b, kv, group, s, d].
      const int64_t group = t_.heads / kv_heads;
      auto spread = [&](const std::string& v, const std::string& name, int64_t d) {
        const std::string wide = one("Expand", name + "/Expand", {one("Unsqueeze", name + "/Unsqueeze", {v, shape(name + "/axis", {2})}), shape(name + "/group", {1, 1, group, 1, 1})});
        return one("Reshape", name + "/merge", {wide, shape(name + "/merged", {0, t_.heads, -1, d})});
      };
      key = spread(key, "key_groups", key_dim), value = spread(value, "value_groups", value_dim);
    }
    const std::string scores = one("MatMul", "scores", {query, one("Transpose", "key_t", {key}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}})});
    const std::string factor = one("CastLike", "scale_cast", {one("Constant", "scale", {}, {{"value_float", 1 / std::sqrt(static_cast<double>(key_dim))}}), scores});
    std::string masked = one("Mul", "scaled", {scores, factor});
    if (t_.alibi) masked = add(masked, "alibi", "biased");
    if (t_.decoder) masked = add(masked, "causal_mask", "masked");
    const std::string shares = dropout(one("Softmax", "softmax", {masked}, {{"axis", int64_t{-1}}}), "softmax_dropout", t_.attention_dropout);
    const std::string y = one("MatMul", "context", {shares, value});
    if (split) return y;
    return one("Reshape", "merge/Reshape", {one("Transpose", "merge/Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}), shape("merge/shape", {0, 0, t_.heads * value_dim})});
  }

  std::string activate(const std::string& x, const std::string& name) {
    if (t_.activation == "silu") return one("Swish", name, {x});
    if (t_.activation == "relu") return one("Relu", name, {x});
    if (t_.activation == "gelu_tanh") return one("Gelu", name, {x}, {{"approximate", std::string("tanh")}});
    return one("Gelu", name, {x});
  }
  std::string mlp(const std::string& x, const std::string& scope, int64_t ffn) {
    scope_ = scope;
    if (!t_.gated) return linear(activate(linear(x, "up_proj", t_.hidden, ffn, t_.mlp_bias), "act"), "down_proj", ffn, t_.hidden, t_.mlp_bias);
    const std::string gate = activate(linear(x, "gate_proj", t_.hidden, ffn, t_.mlp_bias), "act");
    return linear(one("Mul", "mul", {gate, linear(x, "up_proj", t_.hidden, ffn, t_.mlp_bias)}), "down_proj", ffn, t_.hidden, t_.mlp_bias);
  }
  std::string experts(const std::string& x, const std::string& scope) {
    scope_ = scope + "/mlp";
    const std::string logits = linear(x, "router", t_.hidden, t_.experts, false);
    const std::string shares = one("Softmax", "router/Softmax", {logits}, {{"axis", int64_t{-1}}});
    const std::string flat = one("Reshape", "router/Reshape", {shares, shape("router/shape", {-1, t_.experts})});
    const std::string up = weight("experts.up_proj.weight", {t_.experts, t_.expert_ffn, t_.hidden}), down = weight("experts.down_proj.weight", {t_.experts, t_.hidden, t_.expert_ffn}),
                      gate = weight("experts.gate_proj.weight", {t_.experts, t_.expert_ffn, t_.hidden});
    std::string y = one("MoE", "experts", {x, flat, gate, "", down, "", up}, {{"k", t_.chosen}, {"activation_type", t_.activation}, {"normalize_routing_weights", int64_t{1}}}, "com.microsoft");
    if (t_.shared_ffn > 0) {
      std::string shared = mlp(x, scope + "/mlp/shared_experts", t_.shared_ffn);
      scope_ = scope + "/mlp";
      if (t_.shared_gate) shared = one("Mul", "shared_gate/Mul", {shared, one("Sigmoid", "shared_gate/Sigmoid", {linear(x, "shared_gate", t_.hidden, 1, false)})});
      y = add(y, shared, "add_shared");
    }
    return y;
  }

  void results(std::string x, const Dim& rows) {
    scope_ = "";
    if (t_.pooler) {
      const std::string first = one("Squeeze", "pooler/first", {one("Slice", "pooler/slice", {x, shape("pooler/start", {0}), shape("pooler/end", {1}), shape("pooler/axis", {1})}), shape("pooler/dims", {1})});
      const std::string pooled = one("Tanh", "pooler/Tanh", {linear(first, "pooler", t_.hidden, t_.hidden, true)});
      output(pooled, type_, {"batch", t_.hidden});
    }
    if (t_.head_transform) x = norm(activate(linear(x, "transform", t_.hidden, t_.hidden, true), "transform/act"), "transform_norm", t_.hidden);
    if (!t_.head) {
      output(x, type_, {"batch", rows, t_.hidden});
      return;
    }
    std::string logits;
    if (t_.tied) {
      const std::string flat = one("Reshape", "lm_head/flat", {x, shape("lm_head/rows", {-1, t_.hidden})});
      std::vector<std::string> operands{flat, embedding_};
      if (t_.head_transform) operands.push_back(weight("lm_head.bias", {t_.vocab}));
      logits = one("Gemm", "lm_head", operands, {{"transB", int64_t{1}}});
    } else {
      logits = linear(x, "lm_head", t_.hidden, t_.vocab, false);
    }
    if (o_.form != Form::train) {
      // As wide as transformers' own output, though the product above may have flat rows.
      if (t_.tied) logits = one("Reshape", "logits", {logits, one("Concat", "logits/shape", {one("Shape", "input_shape", {"input_ids"}), shape("logits/vocab", {t_.vocab})}, {{"axis", int64_t{0}}})});
      output(logits, type_, {"batch", rows, t_.vocab});
      return;
    }
    input("labels", onnx::TensorProto::INT64, {"batch", rows});
    if (!t_.tied) logits = one("Reshape", "loss/flat", {logits, shape("loss/rows", {-1, t_.vocab})});
    const std::string labels = one("Reshape", "loss/labels", {"labels", shape("loss/all", {-1})});
    if (type_ != onnx::TensorProto::FLOAT) logits = one("Cast", "loss/Cast", {logits}, {{"to", int64_t{onnx::TensorProto::FLOAT}}});
    output(one("SoftmaxCrossEntropyLoss", "loss", {logits, labels}), onnx::TensorProto::FLOAT, {});
  }

  const Transformer& t_;
  const BuildOptions& o_;
  onnx::ModelProto model_;
  onnx::GraphProto& graph_;
  int type_;
  std::string scope_, embedding_, cos_, sin_, yes_, ratio_;
};

}  // namespace

std::string build_transformer(const Transformer& t, const BuildOptions& options) { return Builder(t, options).run(); }

double active_parameters(const Transformer& t, double parameters) {
  double layers = 0;
  for (int64_t l = 0; l < t.layers; ++l) layers += t.has_experts(l);
  const double each = 3.0 * static_cast<double>(t.hidden) * static_cast<double>(t.expert_ffn);
  return parameters - layers * static_cast<double>(t.experts - t.chosen) * each;
}

}  // namespace roofcast
