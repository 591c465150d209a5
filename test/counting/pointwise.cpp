// Pointwise ops: their definitions, on random shapes that broadcast.
#include "counting/compare.h"

#include <algorithm>

namespace counting {
namespace {

using Unary = Counted (*)(Counted);
using Binary = Counted (*)(Counted, Counted);

Counted elementary(Counted a) { return special(a.value); }  // one operation, whatever it is
Counted elementary(Counted a, Counted) { return special(a.value); }
Counted relu(Counted x) { return max(x, 0.0); }
Counted sigmoid(Counted x) { return 1.0 / (exp(-x) + 1.0); }
Counted silu(Counted x) { return x * sigmoid(x); }
Counted softplus(Counted x) { return log(exp(x) + 1.0); }
Counted leaky(Counted x, Counted slope) { return select(x < 0.0, x * slope, x); }
Counted elu(Counted x) { return select(x > 0.0, x, (exp(x) - 1.0) * 2.0); }
Counted hard_sigmoid(Counted x) { return max(min(x * 0.2 + 0.5, 1.0), 0.0); }
Counted gelu(Counted x) { return x * 0.5 * (erf(x * 0.7071) + 1.0); }
Counted gelu_tanh(Counted x) {
  return x * 0.5 * (tanh((x * x * x * 0.044715 + x) * 0.7979) + 1.0);
}
Counted dropout(Counted x) { return select(x < 0.3, 0.0, x) * 2.0; }

struct UnaryRow {
  const char* name;
  Unary definition;
  const char* domain = "";
};
const UnaryRow unary[] = {
    {"Abs", elementary}, {"Acos", elementary}, {"Acosh", elementary}, {"Asin", elementary},
    {"Asinh", elementary}, {"Atan", elementary}, {"Atanh", elementary}, {"BitwiseNot", elementary},
    {"Ceil", elementary}, {"Cos", elementary}, {"Cosh", elementary}, {"Erf", elementary},
    {"Exp", elementary}, {"Floor", elementary}, {"IsInf", elementary}, {"IsNaN", elementary},
    {"Log", elementary}, {"Neg", elementary}, {"Not", elementary}, {"Reciprocal", elementary},
    {"Round", elementary}, {"Sin", elementary}, {"Sinh", elementary}, {"Sqrt", elementary},
    {"Tan", elementary}, {"Tanh", elementary},
    {"Celu", [](Counted x) { return max(x, 0.0) + min((exp(x / 2.0) - 1.0) * 2.0, 0.0); }},
    {"Elu", elu},
    {"Gelu", gelu},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", [](Counted x) { return x * hard_sigmoid(x); }},
    {"LeakyRelu", [](Counted x) { return leaky(x, 0.01); }},
    {"Mish", [](Counted x) { return x * tanh(softplus(x)); }},
    {"Relu", relu},
    {"Selu", [](Counted x) { return elu(x) * 1.05; }},
    {"Shrink", [](Counted x) {
       return select(x < -0.5, x + 0.1, select(x > 0.5, x - 0.1, 0.0));
     }},
    {"Sigmoid", sigmoid},
    {"Sign", [](Counted x) { return Counted(x > 0.0) - Counted(x < 0.0); }},
    {"Softplus", softplus},
    {"Softsign", [](Counted x) { return x / (abs(x) + 1.0); }},
    {"Swish", silu},
    {"ThresholdedRelu", [](Counted x) { return select(x > 1.0, x, 0.0); }},
    {"Affine", [](Counted x) { return x * 2.0 + 1.0; }},
    {"ParametricSoftplus", [](Counted x) { return log(exp(x * 2.0) + 1.0) * 3.0; }},
    {"ScaledTanh", [](Counted x) { return tanh(x * 2.0) * 3.0; }},
    {"ImageScaler", [](Counted x) { return x * 2.0 + 1.0; }},
    {"Scale", [](Counted x) { return x * 2.0; }},
    {"Gelu", gelu, "com.microsoft"},
    {"QuickGelu", [](Counted x) { return x * sigmoid(x * 1.702); }, "com.microsoft"},
};

struct BinaryRow {
  const char* name;
  Binary definition;
};
const BinaryRow binary[] = {
    {"Add", elementary}, {"Sub", elementary}, {"Mul", elementary}, {"Div", elementary},
    {"Mod", elementary}, {"Pow", elementary}, {"BitShift", elementary}, {"BitwiseAnd", elementary},
    {"BitwiseOr", elementary}, {"BitwiseXor", elementary}, {"And", elementary}, {"Or", elementary},
    {"Xor", elementary}, {"Equal", elementary}, {"Greater", elementary}, {"Less", elementary},
    {"GreaterOrEqual", elementary}, {"LessOrEqual", elementary},
};

// A shape of `rank` dims that broadcasts to `full`.
Shape narrowed(Random& random, const Shape& full) {
  Shape s(full.end() - random(0, static_cast<int64_t>(full.size())), full.end());
  for (int64_t& d : s)
    if (random(0, 3) == 0) d = 1;
  return s;
}

Counts one_operand(const Shape& shape, const std::function<Counted(Counted)>& f) {
  const Tensor x(shape);
  return {{}, count([&] {
            for (Counted v : x.data) f(v);
          }), shape};
}

void variadic(Compared& compared, const char* name, bool mean) {
  Random& random = compared.random;
  const Shape full = random.shape(random(1, 4));
  std::vector<Tensor> operands{Tensor(full)};
  OneOp op(name);
  op.input(dims(full));
  for (int64_t more = random(0, 3); more > 0; --more) {
    operands.emplace_back(narrowed(random, full));
    op.input(dims(operands.back().shape));
  }
  const Tally t = count([&] {
    each(full, [&](const Shape& at) {
      Counted y = operands[0].broadcast(at);
      for (size_t i = 1; i < operands.size(); ++i) y += operands[i].broadcast(at);
      if (mean) y /= static_cast<double>(operands.size());
    });
  });
  compared(op, {{}, t, full});
}

// Dropout as training runs it; what random numbers take is not the op's.
void dropouts(Compared& compared, const Shape& shape) {
  OneOp training("Dropout");
  training.input(dims(shape)).reals({0.3}).values({1});
  compared(training, one_operand(shape, dropout));
  OneOp inference("Dropout");
  inference.input(dims(shape));
  compared(inference, {{}, {}, shape});
  OneOp packed("BitmaskDropout", 1, "com.microsoft");
  packed.input(dims(shape)).reals({0.3}).values({1});
  compared(packed, one_operand(shape, dropout));
  for (const char* name : {"BiasDropout", "BitmaskBiasDropout"})
    for (bool residual : {false, true}) {
      OneOp op(name, 1, "com.microsoft");
      op.input(dims(shape)).input({shape.back()});
      residual ? op.input(dims(shape)) : op.absent();
      op.reals({0.3}).values({1});
      compared(op, one_operand(shape, [&](Counted x) {
                 const Counted y = dropout(x + 1.0);
                 return residual ? y + 1.0 : y;
               }));
    }
}

// com.microsoft: biases and gates.
void fused(Compared& compared, const Shape& shape) {
  OneOp bias_gelu("BiasGelu", 1, "com.microsoft");
  bias_gelu.input(dims(shape)).input({shape.back()});
  compared(bias_gelu, one_operand(shape, [](Counted x) { return gelu(x + 1.0); }));
  for (bool bias : {false, true}) {
    OneOp fast("FastGelu", 1, "com.microsoft");
    fast.input(dims(shape));
    if (bias) fast.input({shape.back()});
    compared(fast, one_operand(shape, [&](Counted x) { return gelu_tanh(bias ? x + 1.0 : x); }));
  }
  OneOp add("BiasAdd", 1, "com.microsoft");
  add.input(dims(shape)).input({shape.back()}).input(dims(shape));
  compared(add, one_operand(shape, [](Counted x) { return x + 1.0 + 2.0; }));
  Shape twice = shape;
  twice.back() *= 2;
  OneOp split("BiasSplitGelu", 1, "com.microsoft");
  split.input(dims(twice)).input({twice.back()});
  compared(split, one_operand(shape, [](Counted x) { return (x + 1.0) * gelu(x + 2.0); }));
}

}  // namespace

void compare_pointwise(Compared& compared) {
  Random& random = compared.random;
  for (const UnaryRow& row : unary) {
    const Shape shape = random.shape(random(0, 4));
    OneOp op(row.name, 28, row.domain);
    op.input(dims(shape));
    compared(op, one_operand(shape, row.definition));
  }
  for (const BinaryRow& row : binary)
    for (int round = 0; round < 3; ++round) {
      const Shape full = random.shape(random(1, 4)), other = narrowed(random, full);
      const Tensor a(full), b(other);
      const bool swap = random.coin();
      OneOp op(row.name);
      op.input(dims(swap ? other : full)).input(dims(swap ? full : other));
      compared(op, {{}, count([&] {
                      each(full, [&](const Shape& at) {
                        row.definition(a.broadcast(at), b.broadcast(at));
                      });
                    }), full});
    }
  for (const char* name : {"Max", "Min", "Sum"}) variadic(compared, name, false);
  variadic(compared, "Mean", true);
  const Shape shape{2, 3, 4};
  for (int bounds : {0, 1, 2}) {
    OneOp clip("Clip");
    clip.input(dims(shape));
    for (int i = 0; i < bounds; ++i) clip.input({});
    compared(clip, one_operand(shape, [&](Counted x) {
               const Counted low = bounds > 0 ? max(x, -1.0) : x;
               return bounds > 1 ? min(low, 1.0) : low;
             }));
  }
  OneOp tanh_gelu("Gelu");
  tanh_gelu.input(dims(shape)).set("approximate", "tanh");
  compared(tanh_gelu, one_operand(shape, gelu_tanh));
  OneOp swish("Swish");
  swish.input(dims(shape)).set("alpha", 1.5);
  compared(swish, one_operand(shape, [](Counted x) { return x * sigmoid(x * 1.5); }));
  OneOp prelu("PRelu");
  prelu.input(dims(shape)).input({3, 1});
  compared(prelu, one_operand(shape, [](Counted x) { return leaky(x, 0.25); }));
  OneOp by_channel("PRelu", 6);
  by_channel.input(dims(shape)).input({3});
  compared(by_channel, one_operand(shape, [](Counted x) { return leaky(x, 0.25); }));
  OneOp where("Where");
  where.input({3, 1}, roofcast::DType::boolean).input(dims(shape)).input({4});
  compared(where, one_operand(shape, [](Counted x) { return select(true, x, 0.0); }));
  for (const char* name : {"Cast", "CastLike", "BitCast"}) {
    OneOp op(name);
    op.input(dims(shape)).input({}).set("to", 1);
    compared(op, {{}, {}, shape});
  }
  dropouts(compared, shape);
  fused(compared, shape);
}

}  // namespace counting
