// Recurrent layers: LSTM, GRU, RNN and their quantised and attending forms.
//
// The products with W and R for each step and direction are matrix FLOPs; biases, gates and state
// updates are vector FLOPs. Every sequence counts in full length, also where sequence_lens cuts it.
// Per hidden unit and step, g gates: sums g, biases 2·g if there are any, the activations, and
//   LSTM  c = f·c + i·g, h = o·tanh(c): 4, peepholes 6
//   GRU   r·h, h = (1 − z)·n + z·h: 5
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"

#include <algorithm>

namespace roofcast {
namespace {

namespace sc = scalar_cost;

// W is [directions, gates·hidden, input] and R [directions, gates·hidden, hidden];
// DynamicQuantizeLSTM keeps both transposed.
struct Layer {
  Expr steps, batch, input, hidden;
  int64_t directions = 1;
  bool batch_first = false;
};

bool transposed(const OpView& v) { return v.op_name() == "DynamicQuantizeLSTM"; }

std::optional<Layer> layer_of(const OpView& v, int64_t gates) {
  Layer l;
  l.directions = v.string("direction", "forward") == "bidirectional" ? 2 : 1;
  l.batch_first = v.integer("layout", 0) != 0;
  if (const int64_t h = v.integer("hidden_size", 0); h > 0) l.hidden = h;
  else if (v.ranked(2) && v.rank(2) == 3) l.hidden = v.dim(2, transposed(v) ? 1 : 2);
  else if (v.ranked(1) && v.rank(1) == 3)
    l.hidden = floor_div(v.dim(1, transposed(v) ? 2 : 1), Expr(gates));
  if (!v.ranked(0) || v.rank(0) != 3) return std::nullopt;
  l.steps = v.dim(0, l.batch_first ? 1 : 0), l.batch = v.dim(0, l.batch_first ? 0 : 1);
  l.input = v.dim(0, 2);
  return l;
}

template <int64_t Gates> void infer_recurrent(InferContext& c) {
  if (!c.need_inputs(3)) return;
  if (c.ranked(0) && !c.need_rank(0, 3, 3)) return;
  const auto l = layer_of(c, Gates);
  if (!l) {
    for (size_t i = 0; i < c.output_count(); ++i)
      c.output(i, c.dtype(0), std::vector<Expr>(i == 0 ? 4 : 3));
    return;
  }
  const Expr n = l->directions;
  if (l->batch_first) {
    c.output(0, c.dtype(0), {l->batch, l->steps, n, l->hidden});
    for (size_t i : {1, 2}) c.output(i, c.dtype(0), {l->batch, n, l->hidden});
  } else {
    c.output(0, c.dtype(0), {l->steps, n, l->batch, l->hidden});
    for (size_t i : {1, 2}) c.output(i, c.dtype(0), {n, l->batch, l->hidden});
  }
}

// As infer_recurrent, where W's features must be those of the input.
template <int64_t Gates> void infer_checked(InferContext& c) {
  infer_recurrent<Gates>(c);
  if (c.failed() || !c.ranked(0) || !c.ranked(1) || c.rank(1) != 3) return;
  const Expr have = c.dim(0, 2), want = c.dim(1, transposed(c) ? 1 : 2);
  if (have.is_constant() && want.is_constant() && have != want)
    c.fail("dim-mismatch", "the input has " + have.text() + " features, W takes " + want.text());
}

int64_t activation_cost(std::string_view name) {
  static constexpr std::pair<std::string_view, int64_t> costs[] = {
      {"Sigmoid", sc::sigmoid},
      {"HardSigmoid", sc::hard_sigmoid},
      {"LeakyRelu", sc::leaky_relu},
      {"Elu", sc::elu},
      {"Softsign", sc::softsign},
      {"Softplus", sc::softplus},
      {"Affine", 2},
      {"ScaledTanh", 3},
      {"ThresholdedRelu", sc::threshold}};
  for (const auto& [known, cost] : costs)
    if (known == name) return cost;
  return 1;  // Tanh, Relu
}

// The attribute lists one direction's activations after the other; defaults are f = Sigmoid and
// g = h = Tanh. f runs on all gates but one.
template <int64_t Gates> int64_t per_unit(const OpView& v) {
  const Attribute* given = v.attribute("activations");
  const size_t wanted = Gates == 4 ? 3 : Gates == 3 ? 2 : 1;
  const bool named =
      given && given->kind == Attribute::Kind::strings && given->strings.size() >= wanted;
  auto cost = [&](size_t i, int64_t otherwise) {
    return named ? activation_cost(given->strings[i]) : otherwise;
  };
  const int64_t sums = Gates * (v.has(3) ? 3 : 1);
  if (Gates == 4) {
    const int64_t peepholes = v.has(7) ? 6 : 0;
    return sums + 3 * cost(0, sc::sigmoid) + cost(1, 1) + cost(2, 1) + 4 + peepholes;
  }
  if (Gates == 3) return sums + 2 * cost(0, sc::sigmoid) + cost(1, 1) + 5;
  return sums + cost(0, 1);
}

template <int64_t Gates> void recurrent_work(const OpView& v, Work& w) {
  const auto l = layer_of(v, Gates);
  if (!l) {
    w.matrix_flops = {};
    return;
  }
  const Expr runs = l->steps * l->batch * l->directions;
  w.matrix_flops = runs * l->hidden * (l->input + l->hidden) * (2 * Gates);
  w.vector_flops = runs * l->hidden * per_unit<Gates>(v);
}

// Inputs and states are quantised at each step (minimum and maximum, then 5), sums scaled back.
void quantized_work(const OpView& v, Work& w) {
  recurrent_work<4>(v, w);
  w.math = MathType::int8;
  const auto l = layer_of(v, 4);
  if (!l) return;
  const Expr runs = l->steps * l->batch * l->directions;
  w.vector_flops += runs * ((l->input + l->hidden) * (2 + sc::quantize) + l->hidden * (2 * 4));
}

// AttnLSTM: before each step, Bahdanau attention over the memory M [b, m, depth] by weights
// QW [d, h, a], MW [d, depth, a], V [d, a], and the attention layer AW [d, depth + h, out] behind
// it.
void attending_work(const OpView& v, Work& w) {
  const auto l = layer_of(v, 4);
  auto ranks = [&](size_t i) { return v.ranked(i) && v.rank(i) == 3; };
  if (!l || !ranks(1) || !ranks(8) || !ranks(11)) {
    w.matrix_flops = {};
    return;
  }
  const Expr h = l->hidden, memory = v.dim(11, 1), depth = v.dim(11, 2), a = v.dim(8, 2);
  const Expr runs = l->steps * l->batch * l->directions;
  const Expr layer = ranks(13) ? v.dim(13, 1) * v.dim(13, 2) : Expr(0);
  const Expr step = h * (v.dim(1, 2) + h) * 4 + h * a + memory * (a + depth) + layer;
  w.matrix_flops = runs * step * 2 + l->batch * l->directions * memory * depth * a * 2;
  // Sum and tanh an element of the scores' layer, softmax 5 a score less 2.
  w.vector_flops = runs * (h * per_unit<4>(v) + memory * a * 2 + memory * 5 - 2);
}

// t i, (n g h) …: the steps are ordered.
template <int64_t Gates> AccessResult recurrent_access(const OpView& v) {
  const auto l = layer_of(v, Gates);
  if (!l || !l->hidden.is_known()) return {};
  AccessBuilder b;
  auto one = [](uint8_t f) { return DimMap{DimMap::Kind::product, {f}}; };
  const uint8_t t = b.factor("t", l->steps, Role::ordered), n = b.factor("b", l->batch),
                i = b.factor("i", l->input, Role::reduce), d = b.factor("d", l->directions),
                h = b.factor("h", l->hidden);
  if (l->batch_first) b.input() = {{one(n), one(t), one(i)}};
  else b.input() = {{one(t), one(n), one(i)}};
  if (transposed(v)) b.input() = {{one(d), one(i), one(h)}}, b.input() = {{one(d), {}, one(h)}};
  else b.input() = {{one(d), one(h), one(i)}}, b.input() = {{one(d), one(h), {}}};
  for (size_t k = 3; k < v.input_count(); ++k) b.input().outside = true;
  if (l->batch_first) b.output() = {{one(n), one(t), one(d), one(h)}};
  else b.output() = {{one(t), one(d), one(n), one(h)}};
  return {b.take(), {}, {}};
}

constexpr std::string_view notation = "t> b i, d (g h) i, d (g h) h -> t d b h";

#define RECURRENT(op_name, gates) \
  .name = op_name, .since = 1, .kind = Kind::recurrent, .access = notation, \
  .access_rule = recurrent_access<gates>, .infer = infer_checked<gates>

constexpr OpInfo table[] = {
    {RECURRENT("LSTM", 4), .work = recurrent_work<4>,
     .formula = "8*t*b*d*h*(i + h); vector 22 per unit and step, biases 8, peepholes 6"},
    {RECURRENT("GRU", 3), .work = recurrent_work<3>,
     .formula = "6*t*b*d*h*(i + h); vector 17 per unit and step, biases 6"},
    {RECURRENT("RNN", 1), .work = recurrent_work<1>,
     .formula = "2*t*b*d*h*(i + h); vector 2 per unit and step, biases 2"},
    {.domain = "com.microsoft", RECURRENT("DynamicQuantizeLSTM", 4), .work = quantized_work,
     .auxiliary = 0b111100000000,
     .formula = "8*t*b*d*h*(i + h) in int8; vector as LSTM, per step 7*(i + h) to quantise, 8*h"},
    {.domain = "com.microsoft", .name = "AttnLSTM", .since = 1, .kind = Kind::recurrent,
     .infer = infer_recurrent<4>, .work = attending_work,
     .formula = "per step, b and d: 8*h*(i + h) + 2*h*a + 2*m*(a + depth) + 2*(depth + h)*out; "
                "2*b*d*m*depth*a once"},
};

}  // namespace

OpFamily recurrent_ops() { return table; }

}  // namespace roofcast
