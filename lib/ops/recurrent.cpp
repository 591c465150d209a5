// Recurrent layers: LSTM, GRU, RNN. Products with W and R for each step and direction are matrix
// FLOPs; gates and state updates are vector FLOPs.
#include "ops/op_table.h"
#include "ops/rules.h"
#include "ops/scalar_costs.h"

namespace roofcast {
namespace {

namespace sc = scalar_cost;

struct Layer {
  Expr steps, batch, input, hidden;
  int64_t directions = 1;
  bool batch_first = false;
};

std::optional<Layer> layer_of(const OpView& v, int64_t gates) {
  Layer l;
  l.directions = v.string("direction", "forward") == "bidirectional" ? 2 : 1;
  l.batch_first = v.integer("layout", 0) != 0;
  if (const int64_t h = v.integer("hidden_size", 0); h > 0) l.hidden = h;
  else if (v.ranked(2) && v.rank(2) == 3) l.hidden = v.dim(2, 2);
  else if (v.ranked(1) && v.rank(1) == 3) l.hidden = floor_div(v.dim(1, 1), Expr(gates));
  if (!v.ranked(0) || v.rank(0) != 3) return std::nullopt;
  l.steps = v.dim(0, l.batch_first ? 1 : 0), l.batch = v.dim(0, l.batch_first ? 0 : 1), l.input = v.dim(0, 2);
  return l;
}

template <int64_t Gates, bool Cell> void infer_recurrent(InferContext& c) {
  if (!c.need_inputs(3)) return;
  if (c.ranked(0) && c.rank(0) != 3) return c.fail("rank-mismatch", "the input has " + std::to_string(c.rank(0)) + " dims, 3 are wanted");
  const auto l = layer_of(c, Gates);
  if (!l) {
    for (size_t i = 0; i < c.output_count(); ++i) c.output(i, c.dtype(0), std::vector<Expr>(i == 0 ? 4 : 3));
    return;
  }
  if (c.ranked(1) && c.rank(1) == 3 && c.dim(1, 2).is_constant() && l->input.is_constant() && c.dim(1, 2) != l->input)
    return c.fail("dim-mismatch", "the input has " + l->input.text() + " features, W takes " + c.dim(1, 2).text());
  const Expr n = l->directions;
  if (l->batch_first) {
    c.output(0, c.dtype(0), {l->batch, l->steps, n, l->hidden});
    for (size_t i = 1; i < 3; ++i) c.output(i, c.dtype(0), {l->batch, n, l->hidden});
  } else {
    c.output(0, c.dtype(0), {l->steps, n, l->batch, l->hidden});
    for (size_t i = 1; i < 3; ++i) c.output(i, c.dtype(0), {n, l->batch, l->hidden});
  }
}

// Per hidden unit and step: pre-activation sums and biases, the gates' activations, the state update.
// LSTM: 4 gates (sum 1, bias 2), 3 sigmoids, 2 tanh, c = f∘c + i∘g (3), h = o∘tanh(c) (1).
// GRU: 3 gates (sum 1, bias 2), 2 sigmoids, tanh, r∘h (1), h = (1 − z)∘n + z∘h (4).
// RNN: sum 1, bias 2, tanh.
template <int64_t Gates> int64_t per_unit() {
  if (Gates == 4) return 4 * 3 + 3 * sc::sigmoid + 2 * sc::special + 4;
  if (Gates == 3) return 3 * 3 + 2 * sc::sigmoid + sc::special + 5;
  return 3 + sc::special;
}

template <int64_t Gates> void recurrent_work(const OpView& v, Work& w) {
  const auto l = layer_of(v, Gates);
  if (!l) {
    w.matrix_flops = {};
    return;
  }
  const Expr runs = l->steps * l->batch * l->directions;
  w.matrix_flops = runs * l->hidden * (l->input + l->hidden) * (2 * Gates);
  w.vector_flops = runs * l->hidden * per_unit<Gates>();
}

// Weights are int8 and stored transposed: W [d, input, 4·hidden].
void infer_quantized_lstm(InferContext& c) {
  if (!c.need_inputs(3)) return;
  infer_recurrent<4, true>(c);
}

// t i, (n g h) …: the steps are ordered.
AccessResult recurrent_access(const OpView& v) {
  const int64_t gates = v.op_name() == "GRU" ? 3 : v.op_name() == "RNN" ? 1 : 4;
  const auto l = layer_of(v, gates);
  if (!l || !l->hidden.is_known()) return {};
  AccessBuilder b;
  auto one = [](uint8_t f) { return DimMap{DimMap::Kind::product, {f}}; };
  const uint8_t t = b.factor("t", l->steps, Role::ordered), n = b.factor("b", l->batch), i = b.factor("i", l->input, Role::reduce),
                d = b.factor("d", l->directions), h = b.factor("h", l->hidden);
  if (l->batch_first) b.input() = {{one(n), one(t), one(i)}};
  else b.input() = {{one(t), one(n), one(i)}};
  b.input() = {{one(d), one(h), one(i)}};
  b.input() = {{one(d), one(h), {}}};
  for (size_t k = 3; k < v.input_count(); ++k) b.input().outside = true;
  if (l->batch_first) b.output() = {{one(n), one(t), one(d), one(h)}};
  else b.output() = {{one(t), one(d), one(n), one(h)}};
  return {b.take(), {}, {}};
}

constexpr std::string_view notation = "t> b i, d (g h) i, d (g h) h -> t d b h";

constexpr OpInfo table[] = {
    {.name = "LSTM", .since = 1, .kind = Kind::recurrent, .access = notation, .access_rule = recurrent_access, .infer = infer_recurrent<4, true>, .work = recurrent_work<4>,
     .formula = "8*t*b*d*h*(i + h); vector 30 per unit and step"},
    {.name = "GRU", .since = 1, .kind = Kind::recurrent, .access = notation, .access_rule = recurrent_access, .infer = infer_recurrent<3, false>, .work = recurrent_work<3>,
     .formula = "6*t*b*d*h*(i + h); vector 23 per unit and step"},
    {.name = "RNN", .since = 1, .kind = Kind::recurrent, .access = notation, .access_rule = recurrent_access, .infer = infer_recurrent<1, false>, .work = recurrent_work<1>,
     .formula = "2*t*b*d*h*(i + h); vector 4 per unit and step"},
    {.domain = "com.microsoft", .name = "DynamicQuantizeLSTM", .since = 1, .kind = Kind::recurrent, .infer = infer_quantized_lstm, .work = recurrent_work<4>,
     .formula = "8*t*b*d*h*(i + h); vector 30 per unit and step"},
    {.domain = "com.microsoft", .name = "AttnLSTM", .since = 1, .kind = Kind::recurrent, .infer = infer_recurrent<4, true>, .uncounted = "its attention's size is decided by its memory lengths"},
};

}  // namespace

OpFamily recurrent_ops() { return table; }

}  // namespace roofcast
