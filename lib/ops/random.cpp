// Random numbers: one op a number drawn for a uniform one, four more for the Box-Muller of a normal one.
#include "ops/op_table.h"
#include "ops/rules.h"

namespace roofcast {
namespace {

DType type_of(const OpView& v, DType otherwise) {
  const int64_t d = v.integer("dtype", 0);
  return d > 0 && d < dtype_count ? static_cast<DType>(d) : otherwise;
}

void infer_shape_attribute(InferContext& c) {
  const auto shape = c.integers("shape");
  if (!shape) return c.fail("onnx-attribute", "needs shape");
  c.output(0, type_of(c, DType::float32), {shape->begin(), shape->end()});
}

template <DType Otherwise> void infer_like(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const DType d = type_of(c, Otherwise == DType::undefined ? c.dtype(0) : Otherwise);
  if (c.ranked(0)) c.output(0, d, c.in(0)->dims);
  else c.output_unranked(0, d);
}

void infer_multinomial(InferContext& c) {
  if (!c.need_inputs(1)) return;
  c.output(0, type_of(c, DType::int32), {c.ranked(0) && c.rank(0) == 2 ? c.dim(0, 0) : Expr(), c.integer("sample_size", 1)});
}
// Cumulative sums of each row, then a search for each sample.
void multinomial_work(const OpView& v, Work& w) {
  if (v.in(0) && v.out(0)) w.vector_flops = v.in(0)->elements() * 2 + v.out(0)->elements();
}

template <int PerElement, bool ReadsInput> void draw(const OpView& v, Work& w) {
  if (!ReadsInput)
    for (Expr& r : w.reads) r = 0;
  if (v.out(0)) w.vector_flops = v.out(0)->elements() * PerElement;
}

constexpr OpInfo table[] = {
    {.name = "RandomNormal", .since = 1, .kind = Kind::random, .infer = infer_shape_attribute, .work = draw<7, false>, .formula = "7*n: draw, Box-Muller, scale, shift"},
    {.name = "RandomUniform", .since = 1, .kind = Kind::random, .infer = infer_shape_attribute, .work = draw<3, false>, .formula = "3*n: draw, scale, shift"},
    {.name = "RandomNormalLike", .since = 1, .kind = Kind::random, .infer = infer_like<DType::undefined>, .work = draw<7, false>, .formula = "7*n"},
    {.name = "RandomUniformLike", .since = 1, .kind = Kind::random, .infer = infer_like<DType::undefined>, .work = draw<3, false>, .formula = "3*n"},
    {.name = "Bernoulli", .since = 15, .kind = Kind::random, .infer = infer_like<DType::undefined>, .work = draw<2, true>, .formula = "2*n: draw, compare"},
    {.name = "Multinomial", .since = 7, .kind = Kind::random, .infer = infer_multinomial, .work = multinomial_work, .formula = "2*inputs + samples"},
    {.name = "EyeLike", .since = 9, .kind = Kind::movement, .infer = infer_like<DType::undefined>, .work = draw<0, false>, .formula = "0"},
};

}  // namespace

OpFamily random_ops() { return table; }

}  // namespace roofcast
