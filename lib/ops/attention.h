// What all forms of attention share: sizes of the heads, their access and the cost of two products.
#pragma once

#include "ops/op_info.h"

namespace roofcast {

struct Heads {
  Expr batch, kv_heads, group, queries, head, value_head;  // group: query heads a kv head
  Expr keys;      // all that a query may see: those in the cache and `fresh` ones
  Expr fresh;     // keys that this op is given, and appends to the cache
  Expr window;    // keys that a query sees at most; unknown: all
  Expr offset;    // keys before the first query; unknown: keys − queries (the last query sees all)
  bool maskable = true;    // a causal mask makes sense: not cross attention
  int64_t score_cost = 1;  // vector FLOPs a score beside softmax: scale, mask, bias, softcap

  bool known() const;
  Expr query_heads() const { return kv_heads * group; }
  Expr cached() const { return max(0, keys - fresh); }
  // Rows of the cache that are read: a window reaches back window − 1 keys from the first query.
  Expr cached_rows_read() const;
};

// b (h g) q d, b h k~ d, b h k~ e -> b (h g) q e over the first `data_inputs` ≤ 3 inputs; others
// lie outside the loops, but for a cache of keys and values at inputs `cache` and `cache` + 1.
AccessResult heads_access(const OpView& v, const Heads& s, size_t data_inputs, size_t cache = 0);
inline constexpr std::string_view heads_notation =
    "b (h g) q d, b h k~ d, b h k~ e -> b (h g) q e";

// Adds the two products and their softmax to `matrix` and `vector` FLOPs of whatever else the op
// does. Sets both the full amounts and those inside a causal mask.
void count_products(Work& w, const Heads& s, Expr matrix = 0, Expr vector = 0);

// Rows of keys (output `key`) and values (`key` + 1) are appended to their caches in place.
void append_to_cache(const OpView& v, Work& w, const Heads& s, size_t key);
// Of the caches at inputs `key` and `key` + 1 only the rows in use are read.
void read_from_cache(const OpView& v, Work& w, const Heads& s, size_t key);
// Of a [rows, width] table at input i, at most `rows` rows are read.
void read_table_rows(const OpView& v, Work& w, size_t i, Expr rows);

// The value of a one-element input; unknown if it is not known.
Expr scalar_expr(const OpView& v, size_t i);

}  // namespace roofcast
