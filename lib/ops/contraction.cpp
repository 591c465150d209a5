// Contractions: MatMul, Gemm, Einsum and their quantised and fused forms.
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"

#include <map>

namespace roofcast {
namespace {

namespace sc = scalar_cost;

// The notation of a (batched) product by the ranks of its two operands, as numpy's matmul; `a` and
// `b` are their input indices, and what lies between and behind is outside the loops.
AccessResult product_access(const OpView& v, size_t a, size_t b, bool trans_a = false, bool trans_b = false) {
  if (!v.ranked(a) || !v.ranked(b)) return {};
  if (v.rank(a) == 0 || v.rank(b) == 0) return {{}, "an operand has no dims", "rank-mismatch"};
  const bool vector_a = v.rank(a) == 1, vector_b = v.rank(b) == 1;
  const std::string left = vector_a ? "k" : trans_a ? "b.. k m" : "b.. m k";
  const std::string right = vector_b ? "k" : trans_b ? "b.. n k" : "b.. k n";
  const std::string result = std::string(vector_a && vector_b ? "" : "b..") + (vector_a ? "" : " m") + (vector_b ? "" : " n");
  std::string pattern;
  for (size_t i = 0; i < v.input_count(); ++i)
    pattern += (i ? ", " : "") + (i == a ? left : i == b ? right : ".");
  return bind_notation(v, pattern + " -> " + result);
}

AccessResult matmul_access(const OpView& v) { return product_access(v, 0, 1); }
AccessResult qlinear_access(const OpView& v) { return product_access(v, 0, 3); }
AccessResult fused_matmul_access(const OpView& v) {
  if (v.integer("transBatchA", 0) || v.integer("transBatchB", 0)) {
    const bool ta = v.integer("transA", 0), tb = v.integer("transB", 0);
    const bool ba = v.integer("transBatchA", 0), bb = v.integer("transBatchB", 0);
    // The batch dims stand between the matrix dims: [m, b.., k] instead of [b.., m, k].
    const std::string left = ba ? (ta ? "k b.. m" : "m b.. k") : (ta ? "b.. k m" : "b.. m k");
    const std::string right = bb ? (tb ? "n b.. k" : "k b.. n") : (tb ? "b.. n k" : "b.. k n");
    return bind_notation(v, left + ", " + right + " -> b.. m n");
  }
  return product_access(v, 0, 1, v.integer("transA", 0) != 0, v.integer("transB", 0) != 0);
}

AccessResult gemm_access(const OpView& v) {
  std::string pattern = v.integer("transA", 0) ? "k m" : "m k";
  pattern += v.integer("transB", 0) ? ", n k" : ", k n";
  for (size_t i = 2; i < v.input_count(); ++i) {
    const bool bias = i == 2 && v.has(2) && v.ranked(2);
    pattern += !bias || v.rank(2) == 0 ? ", ." : v.rank(2) == 1 ? ", n?" : ", m? n?";
  }
  return bind_notation(v, pattern + " -> m n");
}

// Before opset 7 a Gemm flattens nothing and broadcasts C only if asked; opset ≥ 7 always may.
void gemm_work(const OpView& v, Work& w) {
  int64_t per_output = v.real("alpha", 1) != 1;
  if (v.has(2)) per_output += 1 + (v.real("beta", 1) != 1);
  if (v.out(0)) w.vector_flops = v.out(0)->elements() * per_output;
}

void fused_matmul_work(const OpView& v, Work& w) {
  const int scaled = v.real("alpha", 1) != 1;
  const int activation = sc::activation(v.string("activation", ""));
  if (v.out(0)) w.vector_flops = v.out(0)->elements() * (scaled + activation);
}

void fused_gemm_work(const OpView& v, Work& w) {
  gemm_work(v, w);
  const int activation = v.op_name() == "GemmFastGelu" ? sc::gelu_tanh
                                                       : sc::activation(v.string("activation", ""));
  if (v.out(0)) w.vector_flops += v.out(0)->elements() * activation;
}

// Integer products run on the int8 units, whatever the types of scales.
void integer_work(const OpView& v, Work& w) {
  w.math = MathType::int8;
  if (v.op_name() == "MatMulInteger" || v.op_name() == "MatMulInteger16" || !v.out(0)) return;
  // Scale each sum and, where the result is quantised, round, shift and saturate it.
  const int bias = v.op_name() != "QLinearMatMul" && v.has(6) ? 1 : 0;
  const int scale = is_float(v.out(0)->dtype) ? 1 : sc::quantize;
  w.vector_flops = v.out(0)->elements() * (scale + bias);
}

// DynamicQuantizeMatMul quantises A first: minimum and maximum, then scale, round, shift, saturate.
void dynamic_work(const OpView& v, Work& w) {
  w.math = MathType::int8;
  if (v.in(0) && v.out(0)) w.vector_flops = v.in(0)->elements() * (2 + sc::quantize) + v.out(0)->elements() * (1 + (v.has(4) ? 1 : 0));
}

// Weights packed by blocks: A [b.., K] × B [N, blocks, bytes], K and N as attributes.
AccessResult packed_access(const OpView& v) {
  if (!v.ranked(0) || v.rank(0) == 0) return {};
  AccessBuilder builder;
  const size_t rank = v.rank(0);
  for (size_t d = 0; d + 1 < rank; ++d) builder.factor("b" + std::to_string(d), v.dim(0, d));
  const uint8_t k = builder.factor("k", v.dim(0, rank - 1), Role::reduce);
  const uint8_t n = builder.factor("n", v.integer("N", 0));
  auto batch = [&](OperandMap& map, uint8_t last) {
    for (size_t d = 0; d + 1 < rank; ++d) map.dims.push_back({DimMap::Kind::product, {static_cast<uint8_t>(d)}});
    map.dims.push_back({DimMap::Kind::product, {last}});
  };
  batch(builder.input(), k);
  for (size_t i = 1; i < v.input_count(); ++i) {
    OperandMap& map = builder.input();
    if (i > 1 || !v.ranked(1) || v.rank(1) != 3) map.outside = true;
    else map.dims = {{DimMap::Kind::product, {n}}, {DimMap::Kind::product, {k}}, {}};
  }
  batch(builder.output(), n);
  return {builder.take(), {}, {}};
}

void infer_packed(InferContext& c) {
  if (!c.need_inputs(2) || !c.need_rank(0, 1)) return;
  const int64_t n = c.integer("N", 0), k = c.integer("K", 0);
  if (n <= 0 || k <= 0) return c.fail("onnx-attribute", "attributes K and N must be positive");
  const Expr last = c.dim(0, c.rank(0) - 1);
  if (last.is_constant() && last != Expr(k))
    return c.fail("dim-mismatch", "the last dim of input 0 is " + last.text() + ", attribute K " + std::to_string(k));
  std::vector<Expr> dims = c.in(0)->dims;
  dims.back() = n;
  c.output(0, c.dtype(0), std::move(dims));
}

void packed_work(const OpView& v, Work& w) {
  w.math = math_type(v.dtype(0));
  // Dequantising each weight once: subtract the zero point (bitsandbytes looks it up), scale.
  const int each = v.op_name() == "MatMulBnb4" ? 1 : sc::dequantize;
  w.vector_flops = Expr(v.integer("N", 0)) * v.integer("K", 0) * each;
  if (v.has(5) && v.out(0)) w.vector_flops += v.out(0)->elements();
}

// Einsum: the equation is the notation. Letters are factors, an ellipsis a list.
struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};
std::optional<Equation> parse_equation(std::string_view text) {
  std::string compact;
  for (char c : text)
    if (c != ' ') compact += c;
  Equation e;
  const size_t arrow = compact.find("->");
  std::string left = compact.substr(0, arrow);
  for (size_t at = 0; at <= left.size();) {
    const size_t comma = std::min(left.find(',', at), left.size());
    e.inputs.push_back(left.substr(at, comma - at));
    at = comma + 1;
  }
  if (arrow != std::string::npos) {
    e.output = compact.substr(arrow + 2);
  } else {  // implicit: the ellipsis, then every letter that occurs once, sorted
    std::map<char, int> times;
    bool ellipsis = false;
    for (const std::string& term : e.inputs)
      for (char c : term)
        if (c == '.') ellipsis = true;
        else ++times[c];
    if (ellipsis) e.output = "...";
    for (auto [c, n] : times)
      if (n == 1) e.output += c;
  }
  auto fine = [](const std::string& term) {
    size_t dots = 0;
    for (char c : term)
      if (c == '.') ++dots;
      else if (!std::isalpha(static_cast<unsigned char>(c))) return false;
    return dots == 0 || (dots == 3 && term.find("...") != std::string::npos);
  };
  for (const std::string& term : e.inputs)
    if (!fine(term)) return std::nullopt;
  return fine(e.output) ? std::optional(e) : std::nullopt;
}

AccessResult einsum_access(const OpView& v) {
  const auto equation = parse_equation(v.string("equation", ""));
  if (!equation || equation->inputs.size() != v.input_count()) return {{}, "the equation does not fit the inputs", "onnx-attribute"};
  auto term = [](const std::string& letters) {
    std::string out;
    for (size_t i = 0; i < letters.size(); ++i) {
      if (!out.empty()) out += ' ';
      if (letters[i] == '.') out += "e..", i += 2;
      else out += letters[i];
    }
    return out;
  };
  std::string pattern;
  for (const std::string& t : equation->inputs) pattern += (pattern.empty() ? "" : ", ") + term(t);
  return bind_notation(v, pattern + " -> " + term(equation->output));
}

// Several operands are contracted two at a time, left to right; factors that no later operand and
// not the output need are summed as soon as they can be. A pair costs 2 FLOPs a point.
void einsum_work(const OpView&, Work& w) {
  w.matrix_flops = 0, w.vector_flops = 0;
  const size_t factors = w.access.factors.size();
  if (factors > 64 || w.access.inputs.empty()) return;
  auto mask = [](const OperandMap& map) {
    uint64_t m = 0;
    for (const DimMap& d : map.dims)
      for (uint8_t f : d.factors) m |= uint64_t{1} << f;
    return m;
  };
  auto size = [&](uint64_t m) {
    Expr total = 1;
    for (size_t f = 0; f < factors; ++f)
      if (m >> f & 1) total *= w.access.factors[f].size;
    return total;
  };
  const std::vector<OperandMap>& in = w.access.inputs;
  const uint64_t result = mask(w.access.outputs[0]);
  uint64_t have = mask(in[0]);
  for (size_t i = 1; i < in.size(); ++i) {
    uint64_t later = result;
    for (size_t j = i + 1; j < in.size(); ++j) later |= mask(in[j]);
    const uint64_t all = have | mask(in[i]);
    if ((all & later) == all) w.vector_flops += size(all);  // an outer or elementwise product
    else w.matrix_flops += size(all) * 2;
    have = all & later;
  }
  if (in.size() == 1 && have != result) w.vector_flops = size(have) - size(result);
}

// int4 blocks hold N·K elements, two to a byte; scales and zero points are no parameters.
Expr nbits_weight(const OpView& v, size_t i) {
  return i == 1 ? Expr(v.integer("N", 0)) * Expr(v.integer("K", 0)) : Expr();
}

constexpr std::string_view product = "b.. m k, b.. k n -> b.. m n";
#define MICROSOFT(op_name) .domain = "com.microsoft", .name = op_name, .since = 1, .kind = Kind::contraction

constexpr OpInfo table[] = {
    {.name = "MatMul", .since = 1, .kind = Kind::contraction, .access = product, .access_rule = matmul_access, .cost = {.matrix_per_point = 2}},
    {.name = "Gemm", .since = 1, .kind = Kind::contraction, .access = "m k, k n, m? n? -> m n", .access_rule = gemm_access, .work = gemm_work,
     .cost = {.matrix_per_point = 2}, .formula = "2*m*n*k; vector m*n for each of alpha, beta (if not 1) and C"},
    {.name = "Einsum", .since = 12, .kind = Kind::contraction, .access = "(its equation)", .access_rule = einsum_access, .work = einsum_work,
     .cost = {.matrix_per_point = 2}, .formula = "2 a point of each pairwise contraction, left to right"},
    {.name = "MatMulInteger", .since = 10, .kind = Kind::contraction, .access = product, .access_rule = matmul_access, .work = integer_work,
     .result = DType::int32, .cost = {.matrix_per_point = 2}},
    {.name = "QLinearMatMul", .since = 10, .kind = Kind::contraction, .access = "b.. m k, ., ., b.. k n -> b.. m n", .access_rule = qlinear_access,
     .infer = [](InferContext& c) {
       const AccessResult r = qlinear_access(c);
       if (!r.fault.empty()) return c.fail(r.code, r.fault);
       const DType d = c.in(7) ? c.dtype(7) : c.dtype(0);
       if (r.access.outputs.empty()) return c.output_unranked(0, d);
       c.output(0, d, dims_of(r.access, r.access.outputs[0]));
     },
     .work = integer_work, .cost = {.matrix_per_point = 2, .vector_per_output = sc::quantize}},

    {MICROSOFT("FusedMatMul"), .access = product, .access_rule = fused_matmul_access, .work = fused_matmul_work, .cost = {.matrix_per_point = 2}},
    {MICROSOFT("TransposeMatMul"), .access = product, .access_rule = fused_matmul_access, .work = fused_matmul_work, .cost = {.matrix_per_point = 2}},
    {MICROSOFT("FusedMatMulActivation"), .access = product, .access_rule = fused_matmul_access,
     .work = fused_matmul_work, .cost = {.matrix_per_point = 2}},
    {MICROSOFT("FusedGemm"), .access = "m k, k n, m? n? -> m n", .access_rule = gemm_access, .work = fused_gemm_work, .cost = {.matrix_per_point = 2}},
    {MICROSOFT("GemmFastGelu"), .access = "b.. m k, k n, n -> b.. m n",
     .access_rule = [](const OpView& v) { return product_access(v, 0, 1); }, .work = fused_gemm_work, .cost = {.matrix_per_point = 2}},
    {MICROSOFT("GemmFloat8"), .access = "m k, k n, m? n? -> m n", .access_rule = gemm_access,
     .infer = [](InferContext& c) {
       const AccessResult r = gemm_access(c);
       if (!r.fault.empty()) return c.fail(r.code, r.fault);
       if (!r.access.outputs.empty())
         c.output(0, static_cast<DType>(c.integer("dtype", 1) % dtype_count), dims_of(r.access, r.access.outputs[0]));
     },
     .work = gemm_work, .cost = {.matrix_per_point = 2}},
    {MICROSOFT("QGemm"), .access = "m k, ., ., k n, ., ., n -> m n",
     .access_rule = [](const OpView& v) {
       return bind_notation(v, std::string(v.integer("transA", 0) ? "k m" : "m k") + ", ., ., " + (v.integer("transB", 0) ? "n k" : "k n") + ", ., ., . -> m n");
     },
     .infer = [](InferContext& c) {
       const AccessResult r = access_of(c);
       if (!r.fault.empty()) return c.fail(r.code, r.fault);
       if (!r.access.outputs.empty())
         c.output(0, c.has(8) ? c.dtype(8) : c.has(7) ? c.dtype(0) : DType::float32, dims_of(r.access, r.access.outputs[0]));
     },
     .work = integer_work, .cost = {.matrix_per_point = 2, .vector_per_output = sc::quantize}},
    {MICROSOFT("MatMulInteger16"), .access = product, .access_rule = matmul_access, .work = integer_work, .result = DType::int32, .cost = {.matrix_per_point = 2}},
    {MICROSOFT("MatMulIntegerToFloat"), .access = product, .access_rule = matmul_access,
     .infer = [](InferContext& c) {
       const AccessResult r = matmul_access(c);
       if (!r.fault.empty()) return c.fail(r.code, r.fault);
       if (!r.access.outputs.empty()) c.output(0, c.in(2) ? c.dtype(2) : DType::float32, dims_of(r.access, r.access.outputs[0]));
     },
     .work = integer_work, .cost = {.matrix_per_point = 2, .vector_per_output = 1}},
    {MICROSOFT("DynamicQuantizeMatMul"), .access = product, .access_rule = matmul_access, .work = dynamic_work, .cost = {.matrix_per_point = 2}},
    {MICROSOFT("MatMulNBits"), .access = "b.. k, n k 1 -> b.. n", .access_rule = packed_access, .infer = infer_packed, .work = packed_work,
     .cost = {.matrix_per_point = 2}, .auxiliary = 0b1100, .packed_weight = nbits_weight, .formula = "2*points*N*K; vector 2*N*K to dequantise"},
    {MICROSOFT("MatMulBnb4"), .access = "b.. k, n k 1 -> b.. n", .access_rule = packed_access, .infer = infer_packed, .work = packed_work,
     .cost = {.matrix_per_point = 2}, .auxiliary = 0b1100, .packed_weight = nbits_weight, .formula = "2*points*N*K; vector N*K to dequantise"},
    {MICROSOFT("SparseToDenseMatMul"), .access = product, .access_rule = fused_matmul_access, .cost = {.matrix_per_point = 2},
     .uncounted = "the number of non-zeros is decided by data"},
};

}  // namespace

OpFamily contraction_ops() { return table; }

}  // namespace roofcast
