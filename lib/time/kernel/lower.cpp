// From a Problem to the shape of its kernel, by kind, factors and operands alone.
#include "time/kernel/kernel.h"

#include "support/units.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

namespace roofcast {
namespace {

constexpr uint32_t out = 1u << 16;

// The two operands that the loops index first: A and B. Scales and biases come later or lie outside.
struct Operands {
  uint32_t a = 1, b = 2;
};
Operands main_operands(const Problem& p) {
  uint32_t used = 0;
  for (const FactorSize& f : p.factors) used |= f.operands & 0xffff;
  Operands o;
  if (std::popcount(used) < 2) return o;
  o.a = used & -used;
  used &= used - 1;
  o.b = used & -used;
  return o;
}

// A factor's operands as bits: 1 of A, 2 of B, 4 of the output.
int side(const FactorSize& f, const Operands& o) {
  return (f.operands & o.a ? 1 : 0) | (f.operands & o.b ? 2 : 0) | (f.operands & out ? 4 : 0);
}

double bits_of(const Problem& p, uint32_t bit) {
  const size_t i = static_cast<size_t>(std::countr_zero(bit));
  return i < p.operands.size() ? std::max(1, bits(p.operands[i].dtype)) : 16;
}

const OperandSize* first_output(const Problem& p) {
  const auto at = std::find_if(p.operands.begin(), p.operands.end(), [](const OperandSize& o) { return o.is_output; });
  return at == p.operands.end() ? nullptr : &*at;
}

double size_of(const FactorSize& f) { return static_cast<double>(f.size); }

}  // namespace

GemmShape gemm_shape(const Problem& p) {
  GemmShape s;
  const Operands o = main_operands(p);
  for (const FactorSize& f : p.factors) {
    switch (side(f, o)) {
    case 1 | 2 | 4: s.batch *= size_of(f); break;
    case 1 | 4: s.m *= size_of(f); break;
    case 2 | 4: s.n *= size_of(f); break;
    default: s.k *= size_of(f);  // of one operand alone: summed before or beside
    }
  }
  s.math = p.math, s.cycle = p.cycle;
  s.a_bits = bits_of(p, o.a), s.b_bits = bits_of(p, o.b);
  if (const OperandSize* c = first_output(p)) s.c_bits = std::max(1, bits(c->dtype));
  return s;
}

ConvShape convolution_shape(const Problem& p) {
  using Direction = ConvShape::Direction;
  ConvShape s;
  const Operands o = main_operands(p);
  const auto& f = p.factors;
  // Each window offset follows its output position. Forward sums over offsets; the data's gradient has
  // them in its output; the weight's sums over positions.
  size_t spatial = 0, threes = 0;
  for (size_t i = 1; i < f.size(); ++i) {
    if (f[i].role != Role::window) continue;
    s.out_points *= size_of(f[i - 1]), s.taps *= size_of(f[i]);
    s.twos *= blocks(size_of(f[i - 1]), 2), s.fours *= blocks(size_of(f[i - 1]), 4);
    ++spatial, threes += f[i].size == 3;
    if (f[i].operands & out) s.direction = f[i - 1].operands & out ? Direction::data : Direction::weight;
  }
  s.three_by_three = spatial == 2 && threes == 2;
  const bool forward = s.direction == Direction::forward, weight = s.direction == Direction::weight;
  for (size_t i = 0; i < f.size(); ++i) {
    if (f[i].role == Role::window || (i + 1 < f.size() && f[i + 1].role == Role::window)) continue;
    const int at = side(f[i], o);
    if (at == (1 | 2 | 4)) s.groups *= size_of(f[i]);
    else if (at == (1 | 2)) (forward ? s.channels : weight ? s.batch : s.filters) *= size_of(f[i]);
    else if (at == (2 | 4)) (forward ? s.filters : s.channels) *= size_of(f[i]);
    else (weight ? s.filters : s.batch) *= size_of(f[i]);
  }
  const OperandSize* c = first_output(p);
  const size_t image = static_cast<size_t>(std::countr_zero(forward ? o.a : o.b));
  const OperandSize* pixels = s.direction == Direction::data ? c : image < p.operands.size() ? &p.operands[image] : nullptr;
  s.image_points = s.out_points;
  if (pixels) s.image_points = std::max(1.0, pixels->bytes * 8 / std::max(1, bits(pixels->dtype)) / std::max(1.0, s.batch * s.groups * s.channels));
  s.math = p.math;
  s.bits = bits_of(p, o.a);
  return s;
}

AttentionShape attention_shape(const Problem& p) {
  AttentionShape s;
  s.queries = 0;
  double head = 0;
  // Keys that come packed with the queries, or are projected inside, are no operand; the loops are the same
  // and in the same order: b (h g) q d, b h k~ d, b h k~ e -> b (h g) q e.
  constexpr uint32_t operands[] = {7 | out, 7 | out, 1 | out, 1 | out, 6, 3, 4 | out};
  const bool packed = std::none_of(p.factors.begin(), p.factors.end(), [](const FactorSize& f) { return f.operands & 2; });
  for (size_t i = 0; i < p.factors.size(); ++i) {
    if (packed && i >= std::size(operands)) break;
    const FactorSize& f = p.factors[i];
    const uint32_t of = packed ? operands[i] : f.operands;
    const bool query = of & 1, key = of & 2, value = of & 4, result = of & out;
    if (f.role == Role::online) s.keys *= size_of(f);
    else if (f.role == Role::reduce) head = std::max(head, size_of(f));
    else if (query && key && result) (s.batch == 1 && f.size > 0 ? s.batch : s.kv_heads) *= size_of(f);
    else if (query && result) {
      // Heads of a group come before the queries.
      if (s.queries > 0) s.group *= s.queries;
      s.queries = size_of(f);
    } else if (value && result) s.value_head = size_of(f);
  }
  s.queries = std::max(1.0, s.queries), s.head = std::max(1.0, head);
  s.flops = std::min(p.matrix_flops, 2 * s.batch * s.kv_heads * s.group * s.queries * s.keys * (s.head + s.value_head));
  if (const OperandSize* o = first_output(p)) s.append_bytes = p.bytes_written - o->bytes;
  s.math = p.math, s.causal = p.causal, s.windowed = p.windowed;
  s.bits = bits_of(p, 1);
  const double queries = packed ? s.batch * s.kv_heads * s.group * s.queries * s.head * s.bits / 8 : p.operands.empty() ? 0 : p.operands[0].bytes;
  s.kv_bytes = std::max(0.0, p.bytes_read - queries);
  // Keys and values are the largest of the other inputs.
  const OperandSize* largest = nullptr;
  for (size_t i = 1; i < p.operands.size(); ++i)
    if (!p.operands[i].is_output && (!largest || p.operands[i].bytes > largest->bytes)) largest = &p.operands[i];
  s.kv_bits = largest ? std::max(1, bits(largest->dtype)) : s.bits;
  return s;
}

StreamShape stream_shape(const Problem& p) {
  StreamShape s;
  s.kind = p.kind, s.math = p.math;
  s.bytes_read = p.bytes_read, s.bytes_written = p.bytes_written, s.flops = p.vector_flops;
  // A lookup meets the rows that it takes, not all that its table has.
  for (const FactorSize& f : p.factors)
    if (f.role != Role::lookup) (f.role == Role::pass ? s.rows : s.cols) *= size_of(f);
  if (const OperandSize* o = first_output(p); o && p.kind == Kind::pointwise) {
    const double points = o->bytes * 8 / std::max(1, bits(o->dtype));
    s.narrows = bits(o->dtype) <= 8 && bits_of(p, 1) > 8;
    s.gated = !s.narrows && p.vector_flops > 2 * points && p.bytes_read > 1.9 * p.bytes_written;
  }
  // Where nothing is reduced, the last dim is the line.
  if (s.cols == 1 && !p.factors.empty() && p.factors.back().size > 0) s.cols = size_of(p.factors.back()), s.rows /= s.cols;
  return s;
}

namespace {

// What a product does beside its own: it reads and writes a bias, scales, and all that ops fused with it
// bring, while it computes; their arithmetic waits for its tiles, or they for it.
Kernel with_others(Kernel k, const Problem& p, const KernelDevice& device, Explanation* explanation) {
  double bytes = 0;
  size_t inputs = 0, outputs = 0;
  for (const OperandSize& o : p.operands)
    if (o.is_output ? outputs++ > 0 : inputs++ > 1) bytes += o.bytes;
  if (bytes == 0 && p.vector_flops == 0) return k;
  const double compute = k.compute + p.vector_flops / std::max(1.0, device.vector(p.math)), memory = k.memory + bytes / device.memory_rate;
  const double added = std::max(0.0, overlapped(compute, memory) - overlapped(k.compute, k.memory));
  k.compute = compute, k.memory = memory, k.seconds += added;
  if (explanation) explanation->push_back({"other operands", added, format_bytes(bytes) + " and " + format_flops(p.vector_flops) + " beside the product's own"});
  return k;
}

// Attention of a type that no matrix unit takes: libraries of fused attention have no kernel for it, so that
// its two products are tiles of batched ones, with the scores' arithmetic between and one launch.
Kernel attention_on_lanes(const AttentionShape& s, const Problem& p, const KernelDevice& d, Explanation* explanation) {
  GemmShape scores, values;
  scores.batch = values.batch = s.batch * s.kv_heads * s.group, scores.m = values.m = s.queries;
  scores.k = s.head, scores.n = values.k = s.flops / (2 * scores.batch * s.queries * (s.head + s.value_head)), values.n = s.value_head;
  scores.math = values.math = s.math;
  scores.a_bits = scores.c_bits = values.a_bits = values.c_bits = s.bits, scores.b_bits = values.b_bits = s.kv_bits;
  const Kernel a = gemm_time(scores, d), b = gemm_time(values, d);
  const double vector = p.vector_flops / std::max(1.0, d.vector(s.math));
  const double bytes = p.bytes_read + p.bytes_written;
  Kernel k;
  k.overhead = std::max(a.overhead, b.overhead), k.compute = a.compute + b.compute + vector;
  k.memory = d.left_stream(bytes) * bytes / d.memory_rate;
  k.seconds = k.overhead + overlapped(k.compute, k.memory);
  if (explanation) {
    auto add = [&](const char* name, double seconds, std::string why) { explanation->push_back({name, seconds, std::move(why)}); };
    add("launch", k.overhead, "start of a kernel");
    add("products", a.compute + b.compute, format_flops(s.flops) + " in tiles on vector lanes");
    add("scores", vector, format_flops(p.vector_flops) + " between the products");
    add("memory", k.memory, format_bytes(bytes) + ", what L2 holds left out");
  }
  return k;
}

// What attention multiplies beside its two products: a projection inside, or a gradient's further products.
Kernel with_further_products(Kernel k, const Problem& p, const AttentionShape& s, const KernelDevice& device, Explanation* explanation) {
  const double further = p.matrix_flops - s.flops;
  if (further <= 1e-9 * p.matrix_flops) return k;
  GemmShape g;
  g.m = s.batch * s.queries, g.n = s.kv_heads * s.group * (2 * s.head + s.value_head), g.k = further / (2 * g.m * g.n);
  g.math = s.math, g.a_bits = g.b_bits = g.c_bits = s.bits;
  const Kernel product = gemm_time(g, device);
  k.overhead += product.overhead, k.compute += product.compute, k.memory += product.memory, k.seconds += product.seconds;
  if (explanation) explanation->push_back({"further products", product.seconds, format_flops(further) + " beside scores and values"});
  return k;
}

}  // namespace

Kernel kernel_time(const Problem& p, const KernelDevice& device, Explanation* explanation) {
  const bool products = p.matrix_flops > 0 && !p.factors.empty();
  switch (p.kind) {
  case Kind::contraction: if (products) return with_others(gemm_time(gemm_shape(p), device, explanation), p, device, explanation); break;
  case Kind::convolution: if (products) return with_others(convolution_time(convolution_shape(p), device, explanation), p, device, explanation); break;
  case Kind::attention:
    if (products) {
      const AttentionShape s = attention_shape(p);
      const Kernel k = device.has_unit(s.math) ? attention_time(s, device, explanation) : attention_on_lanes(s, p, device, explanation);
      return with_further_products(k, p, s, device, explanation);
    }
    break;
  default: break;
  }
  StreamShape s = stream_shape(p);
  const double matrix = p.matrix_flops > 0 ? p.matrix_flops / std::max(1.0, device.matrix(p.math)) : 0;
  Kernel k = stream_time(s, device, explanation);
  if (matrix > k.seconds - k.overhead) k.compute = matrix, k.seconds = k.overhead + matrix;
  return k;
}

}  // namespace roofcast
