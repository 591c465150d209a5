#include "ops/gradient.h"

namespace roofcast {
namespace {

size_t input_count(const Problem& p) {
  size_t n = 0;
  while (n < p.operands.size() && !p.operands[n].is_output) ++n;
  return n;
}

bool needed(uint32_t needs, size_t i) { return i < 16 && (needs >> i & 1); }

double elements(const OperandSize& o) { return o.bytes * 8 / std::max(1, bits(o.dtype)); }

void total_bytes(Problem& p) {
  p.bytes_read = p.bytes_written = 0;
  for (const OperandSize& o : p.operands) (o.is_output ? p.bytes_written : p.bytes_read) += o.bytes;
}

// Contraction of the output's gradient with the other operands that gives input `i`'s gradient.
Problem product_gradient(const Problem& f, size_t i, size_t inputs) {
  Problem p;
  p.kind = f.kind, p.math = f.math, p.causal = f.causal, p.windowed = f.windowed;
  p.matrix_flops = f.matrix_flops;
  const uint32_t output = 1u << 16;
  p.operands.push_back({f.operands[inputs].dtype, f.operands[inputs].bytes, false});
  std::vector<size_t> others;
  for (size_t j = 0; j < inputs && j < 2; ++j)
    if (j != i) others.push_back(j);
  for (size_t j : others) p.operands.push_back(f.operands[j]);
  p.operands.push_back({f.operands[i].dtype, f.operands[i].bytes, true});
  for (const FactorSize& s : f.factors) {
    FactorSize g = s;
    g.operands = s.operands & output ? 1u : 0u;
    for (size_t k = 0; k < others.size(); ++k)
      if (s.operands >> others[k] & 1) g.operands |= 2u << k;
    if (s.operands >> i & 1) g.operands |= output;
    if (g.role == Role::pass || g.role == Role::reduce) g.role = g.operands & output ? Role::pass : Role::reduce;
    p.factors.push_back(g);
  }
  total_bytes(p);
  return p;
}

// Sums the output's gradient down to a broadcast operand.
Problem sum_to(const Problem& f, size_t i, size_t inputs) {
  Problem p;
  p.kind = Kind::reduction, p.math = f.math;
  p.operands = {{f.operands[inputs].dtype, f.operands[inputs].bytes, false}, {f.operands[i].dtype, f.operands[i].bytes, true}};
  p.vector_flops = elements(f.operands[inputs]);
  for (const FactorSize& s : f.factors)
    if (s.operands >> 16 & 1) {
      const bool kept = s.operands >> i & 1;
      p.factors.push_back({s.size, kept ? Role::pass : Role::reduce, 1u | (kept ? 1u << 16 : 0u)});
    }
  total_bytes(p);
  return p;
}

// One kernel that reads the outputs' gradients and what was kept, and writes every gradient.
Problem one_kernel(Gradient gradient, const Problem& f, uint32_t needs, size_t inputs) {
  Problem p;
  p.kind = f.kind, p.math = f.math, p.causal = f.causal, p.windowed = f.windowed;
  p.factors = f.factors;
  const uint32_t kept = kept_operands(gradient, f, needs);
  p.operands.push_back({f.operands[inputs].dtype, f.operands[inputs].bytes, false});
  for (size_t i = 0; i < inputs; ++i)
    if (needed(kept, i)) p.operands.push_back(f.operands[i]);
  for (size_t j = inputs; j < f.operands.size() && j - inputs < 16; ++j)
    if (kept >> (16 + j - inputs) & 1) p.operands.push_back({f.operands[j].dtype, f.operands[j].bytes, false});
  for (size_t i = 0; i < inputs; ++i)
    if (needed(needs, i)) p.operands.push_back({f.operands[i].dtype, f.operands[i].bytes, true});
  const bool attention = f.kind == Kind::attention;
  p.matrix_flops = f.matrix_flops * (attention ? 2.5 : 2);
  // The derivative takes about what the function takes, and a product with the gradient a point.
  p.vector_flops = f.vector_flops > 0 ? f.vector_flops + elements(f.operands[inputs]) : 0;
  total_bytes(p);
  return p;
}

}  // namespace

Gradient gradient_of(const OpInfo& op) {
  if (op.gradient != Gradient::by_kind) return op.gradient;
  switch (op.kind) {
  case Kind::view: case Kind::movement: case Kind::lookup: case Kind::reduction: case Kind::collective: return Gradient::linear;
  case Kind::contraction: case Kind::convolution: return Gradient::product;
  case Kind::softmax: return Gradient::of_output;
  case Kind::random: case Kind::control: case Kind::sort: case Kind::opaque: case Kind::optimizer: return Gradient::none;
  default: return Gradient::of_inputs;
  }
}

uint32_t kept_operands(Gradient gradient, const Problem& f, uint32_t needs) {
  const size_t inputs = std::min<size_t>(input_count(f), 16);
  uint32_t kept = 0;
  switch (gradient) {
  case Gradient::none: case Gradient::by_kind: break;
  case Gradient::linear:
    // Indices and conditions say where gradients go.
    for (size_t i = 0; i < inputs; ++i)
      if (f.operands[i].bytes > 0 && !is_float(f.operands[i].dtype)) kept |= 1u << i;
    break;
  case Gradient::product:
    for (size_t i = 0; i < inputs; ++i)
      if (needs & ~(1u << i)) kept |= 1u << i;
    break;
  case Gradient::of_output: kept = 1u << 16; break;
  case Gradient::of_mask: kept = 1u << 17; break;
  case Gradient::of_inputs:
    kept = (1u << inputs) - 1;
    if (f.kind == Kind::attention) kept |= 1u << 16;
    break;
  }
  return needs ? kept : 0;
}

std::vector<BackwardProblem> backward_problems(Gradient gradient, const Problem& f, uint32_t needs) {
  std::vector<BackwardProblem> all;
  const size_t inputs = input_count(f);
  if (gradient == Gradient::none || !needs || inputs == f.operands.size()) return all;
  if (gradient == Gradient::product && f.matrix_flops > 0) {
    for (size_t i = 0; i < inputs; ++i)
      if (needed(needs, i)) all.push_back({i < 2 ? product_gradient(f, i, inputs) : sum_to(f, i, inputs), static_cast<int>(i)});
    return all;
  }
  if (gradient == Gradient::linear && f.kind == Kind::pointwise) {
    // The gradient passes as it is; operands that were broadcast take sums.
    for (size_t i = 0; i < inputs; ++i)
      if (needed(needs, i) && elements(f.operands[i]) < elements(f.operands[inputs])) all.push_back({sum_to(f, i, inputs), static_cast<int>(i)});
    return all;
  }
  if (!f.has_work()) return all;
  all.push_back({one_kernel(gradient, f, needs, inputs), -1, f.kind == Kind::attention ? f.matrix_flops / 2 : 0});
  return all;
}

}  // namespace roofcast
