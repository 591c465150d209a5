// Contractions: a multiply-add for every point. Epilogues count per output.
#include "counting/compare.h"

#include <map>

namespace counting {
namespace {

using roofcast::DType;
using Matrix = Eigen::Matrix<Counted, Eigen::Dynamic, Eigen::Dynamic>;

// m × k times k × n, by Eigen.
Tally product(int64_t m, int64_t k, int64_t n, int64_t times = 1) {
  const Matrix a = Matrix::Constant(m, k, 0.5), b = Matrix::Constant(k, n, 0.5);
  return count([&] {
    for (int64_t i = 0; i < times; ++i) {
      Matrix c = Matrix::Constant(m, n, 0.0);
      c.noalias() += a.lazyProduct(b);
    }
  });
}

Tally per_output(const Shape& shape, const std::function<Counted(Counted)>& f) {
  return count([&] { each(shape, [&](const Shape&) { f(0.5); }); });
}

Counted gelu_tanh(Counted x) {
  return x * 0.5 * (tanh((x * x * x * 0.044715 + x) * 0.7979) + 1.0);
}

// A random batched product: operands [.., m, k] and [.., k, n] whose batch dims broadcast.
struct Product {
  int64_t m, k, n;
  Shape batch, a, b, y;

  explicit Product(Random& random) : m(random(1, 4)), k(random(1, 4)), n(random(1, 4)) {
    batch = random.shape(random(0, 2), 3);
    Shape left = batch, right = batch;
    for (size_t d = 0; d < batch.size(); ++d)
      if (const int64_t which = random(0, 3); which < 2) (which ? left : right)[d] = 1;
    if (random.coin()) right.clear(), left = batch;
    a = left, b = right, y = batch;
    a.insert(a.end(), {m, k}), b.insert(b.end(), {k, n}), y.insert(y.end(), {m, n});
  }
  Tally products() const { return product(m, k, n, elements(batch)); }
};

Shape swapped(Shape s) {
  std::swap(s[s.size() - 1], s[s.size() - 2]);
  return s;
}

void matmuls(Compared& compared) {
  Random& random = compared.random;
  const Product p(random);
  OneOp op("MatMul");
  op.input(dims(p.a)).input(dims(p.b));
  compared(op, {p.products(), {}, p.y});

  OneOp row("MatMul");  // a vector on either side
  row.input({p.k}).input(dims(p.b));
  Shape y(p.b.begin(), p.b.end() - 2);
  y.push_back(p.n);
  compared(row, {product(1, p.k, p.n, elements(y) / p.n), {}, y});
  OneOp dot("MatMul");
  dot.input({p.k}).input({p.k});
  compared(dot, {product(1, p.k, 1), {}, {}});

  for (const char* name : {"FusedMatMul", "TransposeMatMul", "FusedMatMulActivation"}) {
    const bool left = random.coin(), right = random.coin(), scaled = random.coin();
    const bool activated = std::string_view(name).ends_with("Activation");
    OneOp fused(name, 1, "com.microsoft");
    fused.input(dims(left ? swapped(p.a) : p.a)).input(dims(right ? swapped(p.b) : p.b));
    fused.set("transA", left).set("transB", right).set("alpha", scaled ? 0.125 : 1.0);
    if (activated) fused.set("activation", "Relu");
    compared(fused, {p.products(), per_output(p.y, [&](Counted v) {
                       if (scaled) v *= 0.125;
                       return activated ? max(v, 0.0) : v;
                     }), p.y});
  }
  for (const char* name : {"MatMulInteger", "MatMulInteger16"}) {
    OneOp integer(name, name[13] ? 1 : 10, name[13] ? "com.microsoft" : "");
    integer.input(dims(p.a), DType::uint8).input(dims(p.b), DType::int8);
    compared(integer, {p.products(), {}, p.y});
  }
}

void gemms(Compared& compared) {
  Random& random = compared.random;
  const int64_t m = random(1, 5), k = random(1, 5), n = random(1, 5);
  const Shape y{m, n};
  const bool left = random.coin(), right = random.coin(), bias = random.coin();
  const double alpha = random.coin() ? 1 : 0.5, beta = random.coin() ? 1 : 2;
  const auto epilogue = [&](Counted v) {
    if (alpha != 1) v *= alpha;
    if (!bias) return v;
    return v + (beta != 1 ? Counted(1.0) * beta : Counted(1.0));
  };
  for (const char* name : {"Gemm", "FusedGemm", "GemmFloat8"}) {
    const bool fused = name[0] == 'F', eights = std::string_view(name).ends_with("8");
    OneOp op(name, name[4] ? 1 : 13, name[4] ? "com.microsoft" : "");
    const DType dtype = eights ? DType::float8e4m3fn : DType::float32;
    op.input(dims(left ? Shape{k, m} : Shape{m, k}), dtype);
    op.input(dims(right ? Shape{n, k} : Shape{k, n}), dtype);
    if (bias) op.input(random.coin() ? OneOp::Dims{n} : OneOp::Dims{m, 1});
    op.set("transA", left).set("transB", right).set("alpha", alpha).set("beta", beta);
    if (fused) op.set("activation", "LeakyRelu");
    compared(op, {product(m, k, n), per_output(y, [&](Counted v) {
                    v = epilogue(v);
                    return fused ? select(v < 0.0, v * 0.01, v) : v;
                  }), y});
  }
  OneOp gelu("GemmFastGelu", 1, "com.microsoft");
  gelu.input({2, m, k}).input({k, n});
  if (bias) gelu.input({n});
  compared(gelu, {product(m, k, n, 2), per_output({2, m, n}, [&](Counted v) {
                    return gelu_tanh(bias ? v + 1.0 : v);
                  }), {2, m, n}});
}

void quantized(Compared& compared) {
  Random& random = compared.random;
  const Product p(random);
  OneOp linear("QLinearMatMul", 10);
  linear.input(dims(p.a), DType::uint8).input({}).input({}, DType::uint8);
  linear.input(dims(p.b), DType::uint8).input({}).input({}, DType::uint8);
  linear.input({}).input({}, DType::uint8);
  compared(linear, {p.products(), per_output(p.y, requantize), p.y});

  const int64_t m = p.m, k = p.k, n = p.n;
  const bool bias = random.coin(), to_float = random.coin();
  OneOp gemm("QGemm", 1, "com.microsoft");
  gemm.input({m, k}, DType::uint8).input({}).input({}, DType::uint8);
  gemm.input({k, n}, DType::int8).input({}).input({}, DType::int8);
  bias ? gemm.input({n}, DType::int32) : gemm.absent();
  if (!to_float) gemm.input({}).input({}, DType::uint8);
  compared(gemm, {product(m, k, n), per_output({m, n}, [&](Counted v) {
                    if (bias) v += 1.0;
                    return to_float ? v * 0.5 : requantize(v);
                  }), {m, n}});

  OneOp mixed("MatMulIntegerToFloat", 1, "com.microsoft");
  mixed.input(dims(p.a), DType::uint8).input(dims(p.b), DType::int8).input({}).input({});
  mixed.input({}, DType::uint8).input({}, DType::int8);
  if (bias) mixed.input({n});
  compared(mixed, {p.products(), per_output(p.y, [&](Counted v) {
                     v *= 0.5;
                     return bias ? v + 1.0 : v;
                   }), p.y});

  OneOp dynamic("DynamicQuantizeMatMul", 1, "com.microsoft");
  dynamic.input(dims(p.a)).input(dims(p.b), DType::int8).input({}).input({}, DType::int8);
  if (bias) dynamic.input({n});
  const Tally range = per_output(p.a, [](Counted x) {
    min(x, 0.0), max(x, 0.0);  // the range starts at zero
    return requantize(x);
  });
  Tally all = per_output(p.y, [&](Counted v) {
    v *= 0.5;
    return bias ? v + 1.0 : v;
  });
  all.sums += range.total();
  compared(dynamic, {p.products(), all, p.y});

  for (const char* name : {"MatMulNBits", "MatMulBnb4"}) {
    OneOp packed(name, 1, "com.microsoft");
    packed.input({2, m, 32}).input({n, 1, 16}, DType::uint8).input({n});
    packed.set("K", 32).set("N", n).set("bits", 4).set("block_size", 32);
    const bool table = std::string_view(name) == "MatMulBnb4";  // of the 16 values
    const Tally weights =
        per_output({n, 32}, [&](Counted w) { return (table ? w : w - 8.0) * 0.5; });
    compared(packed, {product(m, 32, n, 2), weights, {2, m, n}});
  }
}

// Two operands at a time, left to right; a letter is summed as soon as nothing later needs it.
void einsum(Compared& compared, const std::vector<std::string>& terms, const std::string& output) {
  std::map<char, int64_t> size;
  std::string equation;
  OneOp op("Einsum");
  auto shape_of = [&](const std::string& letters) {
    Shape s;
    for (char c : letters) s.push_back(size.try_emplace(c, compared.random(1, 4)).first->second);
    return s;
  };
  for (const std::string& term : terms) {
    op.input(dims(shape_of(term)));
    equation += (equation.empty() ? "" : ",") + term;
  }
  op.set("equation", (equation + "->" + output).c_str());
  Counts counts{{}, {}, shape_of(output)};
  std::string have = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string all = have, later = output, kept, summed;
    for (char c : terms[i])
      if (all.find(c) == all.npos) all += c;
    for (size_t j = i + 1; j < terms.size(); ++j) later += terms[j];
    for (char c : all) (later.find(c) != later.npos ? kept : summed) += c;
    const Tally t = count([&] {
      each(shape_of(kept), [&](const Shape&) {
        Counted sum = 0.0;
        each(shape_of(summed), [&](const Shape&) {
          const Counted v = Counted(0.5) * 0.5;
          if (!summed.empty()) sum += v;
        });
      });
    });
    (summed.empty() ? counts.vector : counts.matrix).products += t.total();
    have = kept;
  }
  if (terms.size() == 1) {  // sums over what the output lacks
    std::string summed;
    for (char c : have)
      if (output.find(c) == output.npos) summed += c;
    if (!summed.empty())
      counts.vector = count([&] {
        each(counts.shape, [&](const Shape&) {
          Counted sum = 0.5;
          for (int64_t i = 1; i < elements(shape_of(summed)); ++i) sum += 0.5;
        });
      });
  }
  compared(op, counts);
}

}  // namespace

void compare_contractions(Compared& compared) {
  for (int round = 0; round < 10; ++round) {
    matmuls(compared);
    gemms(compared);
    quantized(compared);
    einsum(compared, {"ij", "jk"}, "ik");
    einsum(compared, {"bhqd", "bhkd"}, "bhqk");
    einsum(compared, {"i", "i"}, "");
    einsum(compared, {"i", "j"}, "ij");
    einsum(compared, {"ij", "ij"}, "ij");
    einsum(compared, {"ij"}, "ji");
    einsum(compared, {"ijk"}, "j");
    einsum(compared, {"bij", "bjk", "kl"}, "bil");
    einsum(compared, {"bn", "anm", "bm"}, "ba");
  }
}

}  // namespace counting
