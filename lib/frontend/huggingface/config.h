// Dimensions of a transformer, as a Hugging Face config.json has them.
//
// One struct for all architectures; the table in config.cpp says which model_type has what.
#pragma once

#include "roofcast/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace roofcast {

struct Transformer {
  std::string model_type;
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  std::string activation = "silu";       // silu | gelu | gelu_tanh | relu
  std::string dtype = "bfloat16";        // of weights and activations: float32, float16, bfloat16

  bool decoder = true;                   // causal, with a KV cache; else an encoder
  bool gated = true;                     // down(act(gate(x)) · up(x))
  bool rms = true;                       // RMSNorm; else LayerNorm with bias
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  bool qk_norm = false;                  // RMSNorm of each query and key head
  bool parallel = false;                 // attention and MLP read the same residual
  bool shared_norm = false;              // … and the same norm
  bool post_norm = false;                // norms after the residual (BERT)
  bool sandwich_norm = false;            // norms before and after each half (Gemma 2)
  bool embedding_norm = false;
  bool tied = false;                     // embeddings and logits share their weight
  bool head = true;                      // gives logits
  bool head_transform = false;           // a dense layer, activation and norm before logits (masked LM)
  bool pooler = false;
  bool final_norm = true;
  bool rotary = true, alibi = false;
  int64_t rotary_dim = 0;                // 0: the whole head
  int64_t positions = 0;                 // rows of a learned position table
  int64_t types = 0;                     // rows of a token type table
  int64_t window = 0;                    // sliding window of attention; 0: none
  double attention_dropout = 0, hidden_dropout = 0;

  // Mixture of experts: layers from `dense_layers` on, every `expert_every`-th.
  int64_t experts = 0, chosen = 0, expert_ffn = 0, shared_ffn = 0, dense_layers = 0, expert_every = 1;
  bool shared_gate = false;              // a sigmoid weighs the shared expert

  // Multi-head latent attention (DeepSeek): low-rank queries and keys; 0: not there.
  int64_t q_rank = 0, kv_rank = 0, nope_dim = 0, rope_dim = 0, value_dim = 0;

  bool has_experts(int64_t layer) const {
    return experts > 0 && layer >= dense_layers && (layer + 1 - dense_layers) % expert_every == 0;
  }
};

// Codes: config-json (no JSON), config-key (a key that is missing or out of bounds), config-model-type.
Result<Transformer> read_config(std::string_view text, const std::string& file);

// Names of all model types that are known, for messages.
std::string known_model_types();

}  // namespace roofcast
