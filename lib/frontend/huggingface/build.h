// Dimensions of a transformer → an ONNX model without weights.
//
//   std::string bytes = build_transformer(dims, {.form = Form::prefill});
//
// Initializers are external data in an empty file of the name `no_weights`: onnx.checker takes a name
// with a # as data that is elsewhere in memory, and by path wants such a file beside the model. Inputs are named
// as transformers' exports name them; symbols are batch, seq and (decode) past.
#pragma once

#include "frontend/huggingface/config.h"

namespace roofcast {

inline constexpr const char* no_weights = "#weights";

enum class Form : uint8_t {
  prefill,   // input_ids [batch, seq] → logits
  decode,    // one new token on a cache of `past`: present keys and values are outputs
  train,     // labels beside input_ids → loss; dropout where the config has it
};

struct BuildOptions {
  Form form = Form::prefill;
  bool eager_attention = false;  // products, mask and softmax as nodes of their own; else one Attention
};

std::string build_transformer(const Transformer& t, const BuildOptions& options);

// Parameters that one token meets: of the experts only those chosen.
double active_parameters(const Transformer& t, double parameters);

}  // namespace roofcast
