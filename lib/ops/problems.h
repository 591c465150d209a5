// Problems of common forms straight from their sizes, without a graph: for measured tables and tests.
//
//   Problem p = product_problem({.m = 4096, .n = 4096, .k = 4096}, MathType::bf16, …)
//
// Factors and operands are those that the ops' access gives (ops/access.h), so that the kernel model
// cannot tell where a problem came from.
#pragma once

#include "ops/work.h"

namespace roofcast {

// b m k, b k n -> b m n
struct ProductForm {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  DType a = DType::bfloat16, b = DType::bfloat16, c = DType::bfloat16;
  MathType math = MathType::bf16;
};
Problem product_problem(const ProductForm& form);

// n (g c) y+r x+s, (g m) c r s -> n (g m) y x
struct ConvolutionForm {
  int64_t batch = 1, channels = 1, height = 1, width = 1, filters = 1;
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, pad[2] = {0, 0};
  DType type = DType::float32;
  MathType math = MathType::fp32;
};
Problem convolution_problem(const ConvolutionForm& form);

// b (h g) q d, b h k~ d, b h k~ e -> b (h g) q e; causal: the last query sees all keys.
struct AttentionForm {
  int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, head = 64;
  int64_t window = 0;                          // keys that a query sees at most; 0: all
  bool causal = false;
  bool appends = false;                        // the keys and values of the queries are written to the cache
  DType type = DType::bfloat16, cache = DType::bfloat16;
  MathType math = MathType::bf16;
};
Problem attention_problem(const AttentionForm& form);

// One kernel over rows × cols: reads so many operands of that size and writes one. `line`: the role of
// cols (online for softmax and normalizations), `weights`: operands of cols elements read beside.
struct RowsForm {
  Kind kind = Kind::pointwise;
  int64_t rows = 1, cols = 1;
  int reads = 1, weights = 0;
  Role line = Role::pass;
  double flops_per_point = 1;
  DType type = DType::float32, output = DType::undefined;  // undefined: as `type`
};
Problem rows_problem(const RowsForm& form);

}  // namespace roofcast
