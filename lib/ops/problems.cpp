#include "ops/problems.h"

#include <algorithm>

namespace roofcast {
namespace {

constexpr uint32_t in0 = 1, in1 = 2, in2 = 4, out = 1u << 16;

double bytes_of(DType type, double elements) { return elements * bits(type) / 8; }

void add_operand(Problem& p, DType type, double elements, bool is_output = false) {
  const double bytes = bytes_of(type, elements);
  p.operands.push_back({type, bytes, is_output});
  (is_output ? p.bytes_written : p.bytes_read) += bytes;
}

double real(int64_t n) { return static_cast<double>(n); }

}  // namespace

Problem product_problem(const ProductForm& f) {
  Problem p;
  p.kind = Kind::contraction, p.math = f.math;
  if (f.batch > 1) p.factors.push_back({f.batch, Role::pass, in0 | in1 | out});
  p.factors.push_back({f.m, Role::pass, in0 | out});
  p.factors.push_back({f.k, Role::reduce, in0 | in1});
  p.factors.push_back({f.n, Role::pass, in1 | out});
  const double b = real(f.batch), m = real(f.m), n = real(f.n), k = real(f.k);
  add_operand(p, f.a, b * m * k), add_operand(p, f.b, b * k * n), add_operand(p, f.c, b * m * n, true);
  p.matrix_flops = 2 * b * m * n * k;
  return p;
}

Problem convolution_problem(const ConvolutionForm& f) {
  Problem p;
  p.kind = Kind::convolution, p.math = f.math;
  auto output = [&](int64_t size, int d) { return (size + 2 * f.pad[d] - f.kernel[d]) / f.stride[d] + 1; };
  const int64_t y = output(f.height, 0), x = output(f.width, 1);
  p.factors = {{f.batch, Role::pass, in0 | out}, {1, Role::pass, in0 | in1 | out}, {f.channels, Role::reduce, in0 | in1},
               {f.filters, Role::pass, in1 | out}, {y, Role::pass, in0 | out}, {f.kernel[0], Role::window, in0 | in1},
               {x, Role::pass, in0 | out}, {f.kernel[1], Role::window, in0 | in1}};
  const double taps = real(f.kernel[0]) * real(f.kernel[1]), outputs = real(f.batch) * real(f.filters) * real(y) * real(x);
  add_operand(p, f.type, real(f.batch) * real(f.channels) * real(f.height) * real(f.width));
  add_operand(p, f.type, real(f.filters) * real(f.channels) * taps);
  add_operand(p, f.type, outputs, true);
  p.matrix_flops = 2 * outputs * real(f.channels) * taps;
  return p;
}

Problem attention_problem(const AttentionForm& f) {
  Problem p;
  p.kind = Kind::attention, p.math = f.math, p.causal = f.causal, p.windowed = f.window > 0;
  const int64_t group = f.heads / std::max<int64_t>(1, f.kv_heads);
  p.factors = {{f.batch, Role::pass, in0 | in1 | in2 | out}, {f.kv_heads, Role::pass, in0 | in1 | in2 | out},
               {group, Role::pass, in0 | out}, {f.queries, Role::pass, in0 | out}, {f.keys, Role::online, in1 | in2},
               {f.head, Role::reduce, in0 | in1}, {f.head, Role::pass, in2 | out}};
  const double window = real(f.window > 0 ? std::min(f.window, f.keys) : f.keys), keys = real(f.keys), queries = real(f.queries);
  // Σ min(j, window) over the keys j that the queries see.
  auto up_to = [&](double n) {
    const double inside = std::min(n, window);
    return inside * (inside + 1) / 2 + std::max(0.0, n - window) * window;
  };
  const double pairs = f.causal ? up_to(keys) - up_to(std::max(0.0, keys - queries)) : queries * window;
  const double heads = real(f.batch) * real(f.heads);
  p.matrix_flops = heads * pairs * 4 * real(f.head);
  p.vector_flops = heads * (pairs * 6 - queries * 2);
  const double rows_read = f.window > 0 ? std::min(keys, window + queries - 1) : keys;
  const double kv = real(f.batch) * real(f.kv_heads) * rows_read * real(f.head), q = heads * queries * real(f.head);
  add_operand(p, f.type, q), add_operand(p, f.cache, kv), add_operand(p, f.cache, kv), add_operand(p, f.type, q, true);
  const double fresh = real(f.batch) * real(f.kv_heads) * queries * real(f.head);
  if (f.appends) add_operand(p, f.cache, fresh, true), add_operand(p, f.cache, fresh, true);
  return p;
}

Problem rows_problem(const RowsForm& f) {
  Problem p;
  p.kind = f.kind, p.math = math_type(f.type);
  const uint32_t all = (1u << f.reads) - 1, weights = ((1u << f.weights) - 1) << f.reads;
  const double rows = real(f.rows), cols = real(f.cols);
  p.factors = {{f.rows, Role::pass, all | out}, {f.cols, f.line, all | weights | out}};
  for (int i = 0; i < f.reads; ++i) add_operand(p, f.type, rows * cols);
  for (int i = 0; i < f.weights; ++i) add_operand(p, f.type, cols);
  add_operand(p, f.output == DType::undefined ? f.type : f.output, rows * cols, true);
  p.vector_flops = rows * cols * f.flops_per_point;
  return p;
}

}  // namespace roofcast
