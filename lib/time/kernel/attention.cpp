// Fused attention: blocks of queries (prefill), or of the query heads of a sequence (decode), in waves.
//
//   prefill   launch + call + max4(blocks' share of the cores + tail, longest block, memory) + append
//   decode    launch + call + max4(waves · (block + keys / core rate), memory) + combine + append
//
// A block multiplies with every key that some query of it sees, in tiles of keys; each score takes an
// exponential beside. One query a sequence leaves cores idle, so that libraries split its keys.
// T. Dao, "FlashAttention-2", arXiv 2307.08691; J. Shah et al., "FlashAttention-3", arXiv 2407.08608;
// "Flash-Decoding for long-context inference", crfm.stanford.edu, 2023.
#include "time/kernel/kernel.h"

#include "support/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace roofcast {
namespace {

constexpr double most_tile = 128, least_tile = 16, decode_tile = 64, most_decode_queries = 16;

// Of so many queries or keys: libraries have tiles of powers of two.
double tile_of(double size) { return std::clamp(std::exp2(std::ceil(std::log2(size))), least_tile, most_tile); }

struct Parts {
  double call = 0, compute = 0, memory = 0, seconds = 0, append = 0;
  std::string why;
};

Parts prefill(const AttentionShape& s, const KernelDevice& d, bool explain) {
  const PrefillConstants& c = s.kv_bits <= 8 ? d.c.prefill8 : d.c.prefill;
  const double heads = s.kv_heads * s.group, width = s.head + s.value_head;
  const double pairs = s.flops / (2 * width * s.batch * heads);  // of one head
  const double seen = pairs / s.queries;                         // keys of a query
  const double all = s.causal ? s.keys - (s.queries - 1) / 2 : s.keys;
  const bool windowed = s.windowed && seen < 0.999 * all;
  // Queries of the heads that share keys fill a block together where they are few.
  const bool packed = s.queries * s.group <= c.pack * 2 * most_tile || (s.queries == 1 && !s.windowed);
  const double rows = packed ? s.queries * s.group : s.queries, groups = s.batch * (packed ? s.kv_heads : heads);
  const double query_tile = tile_of(rows), key_tile = tile_of(s.keys);
  const double tiles = blocks(rows, query_tile), count = groups * tiles;
  const double all_keys = blocks(s.keys, key_tile) * key_tile;
  double keys = all_keys, longest = all_keys;
  if (!packed && s.causal) keys = std::min(all_keys, std::max(key_tile, seen + key_tile / (windowed ? 1 : 2)));
  if (windowed) longest = std::min(all_keys, std::max(key_tile, seen + key_tile)), keys = std::min(keys, longest);
  const double peak = d.matrix(s.math) * c.efficiency * width / (width + 2 * c.head_fill);
  const double pair_time = overlapped(2 * width / peak, 1 / (d.cores * d.clock * c.exponentials));
  const double share = count * (c.block / d.cores + query_tile * (keys + c.extra_keys) * pair_time);
  const double last = c.block + query_tile * (longest + c.extra_keys) * pair_time * d.cores;
  Parts p;
  p.call = c.call + c.sequence * s.batch / d.cores;
  p.compute = overlapped(share + c.tail * last, last);
  const double bytes = s.batch * heads * s.queries * width * s.bits / 8 + s.kv_bytes, left = d.left(bytes, c.kept_from, c.kept_to);
  p.memory = std::max(left / (d.memory_rate * c.dram_efficiency), 1 / (d.cores * d.clock * c.l2_rate)) * bytes;
  p.seconds = overlapped(p.compute, p.memory);
  const double use = s.flops / d.matrix(s.math) / p.seconds;
  p.seconds *= 1 + c.throttle * std::max(0.0, use - 0.4);
  p.append = c.append * s.append_bytes * std::max(left / d.memory_rate, 1 / (d.cores * d.clock * c.l2_rate));
  if (explain) p.why = fmt::format("{:g} blocks of {:g} queries over {:.0f} keys on {:g} cores", count, query_tile, keys, d.cores);
  return p;
}

Parts decode(const AttentionShape& s, const KernelDevice& d, bool explain) {
  const DecodeConstants& c = s.kv_bits <= 8 ? d.c.decode8 : d.c.decode;
  const double width = s.head + s.value_head, key_bytes = width * s.kv_bits / 8;
  const double keys = std::max(1.0, s.kv_bytes / (s.batch * s.kv_heads * key_bytes));
  const double rows = s.group * s.queries;
  const bool alone = s.group == 1 || s.group > c.most_group || (s.windowed && c.pack_windows < 0.5);
  const double count = s.batch * s.kv_heads * (alone ? rows : blocks(rows, c.pack));
  const double slots = d.cores * c.resident;
  double split = 1;
  if (count < slots * c.split_below) split = std::max(1.0, std::min({std::floor(slots / count), blocks(keys, most_tile), c.most_splits}));
  const double part = blocks(keys / split, decode_tile) * decode_tile;
  const double loop = part * key_bytes / (c.core_rate * d.clock) + part / decode_tile * c.step;
  const double one = alone ? c.block * c.alone_block + loop / c.alone_rate : c.block + loop;
  // Blocks end at different times, so that half of the last wave's gap is filled.
  const double filled = count * split / slots, waves = std::max(1.0, (filled + std::ceil(filled)) / 2);
  Parts p;
  p.call = c.call + (alone ? 0 : c.head * s.batch * s.kv_heads * rows / d.cores);
  p.compute = waves * one;
  const double bytes = s.batch * s.kv_heads * (keys * key_bytes + rows * width * s.bits / 8);
  p.memory = std::max(d.left(bytes, c.kept_from, c.kept_to) / (d.memory_rate * c.dram_efficiency), 1 / (d.cores * d.clock * c.l2_rate)) * bytes;
  p.seconds = overlapped(p.compute, p.memory) + (split > 1 ? c.combine : 0);
  if (explain) p.why = fmt::format("{:g} blocks{} over {:.0f} keys on {:g} cores", count, split > 1 ? fmt::format(", keys split in {:g},", split) : "", keys, d.cores);
  return p;
}

}  // namespace

Kernel attention_time(const AttentionShape& s, const KernelDevice& d, Explanation* explanation) {
  const bool one = s.queries <= most_decode_queries && s.keys > s.queries;
  const Parts p = one ? decode(s, d, explanation) : prefill(s, d, explanation);
  Kernel k;
  k.overhead = p.call;
  k.compute = p.compute, k.memory = p.memory;
  k.seconds = k.overhead + p.seconds + p.append;
  if (explanation) {
    auto add = [&](const char* name, double seconds, std::string why) { explanation->push_back({name, seconds, std::move(why)}); };
    add("launch", k.overhead, one ? "start of a call that decodes" : "start of a call");
    add("blocks", p.compute, p.why);
    add("memory", p.memory, format_bytes(s.kv_bytes) + " of keys and values");
    add("not hidden", p.seconds - std::max(p.compute, p.memory), "seams of compute and memory, sums of split keys, the power limit");
    if (p.append > 0) add("append", p.append, format_bytes(s.append_bytes) + " to the cache");
  }
  return k;
}

}  // namespace roofcast
