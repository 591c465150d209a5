// What a user says of a model: sizes of symbols, shapes, values of small inputs, other types.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace roofcast {

struct LoadOptions {
  std::vector<std::pair<std::string, int64_t>> set;                    // --set batch=8; globs as u*
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes;    // --shape input_ids=1x512
  std::vector<std::pair<std::string, std::vector<int64_t>>> values;    // --value n=3
  std::string dtype;          // --dtype bf16: floating-point activations, as a what-if
  std::string weight_dtype;   // --weight-dtype fp8: of weights
  std::vector<std::string> ops;  // --ops my_ops.toml: files of custom ops
  std::string form = "prefill";       // --form, of a config.json: prefill | decode | train
  std::string attention = "fused";    // --attention, likewise: fused | eager
  bool keep_symbols = false;  // leave `set` for evaluation instead of binding it while loading
};

}  // namespace roofcast
