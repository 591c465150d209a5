// Transforms and windows. A Fourier transform of n points takes 5·n·log2(n) (complex radix-2 FFT,
// J. Cooley and J. Tukey, Math. Comp. 19, 1965), half of that for real input.
#include "ops/op_table.h"
#include "ops/rules.h"

#include <bit>

namespace roofcast {
namespace {

Expr half_plus_one(Expr n) { return floor_div(n, 2) + 1; }

// 5·n·ceil(log2 n) for each of `lines`.
Expr fft(Expr lines, Expr n, bool real) {
  if (!n.is_known() || !lines.is_known()) return {};
  const uint64_t points = static_cast<uint64_t>(std::max<int64_t>(2, n.as_constant().value_or(1 << 10)));
  const Expr total = lines * n * static_cast<int64_t>(5 * std::bit_width(points - 1));
  return real ? floor_div(total, 2) : total;
}

Expr one_value(const OpView& v, size_t i) {
  const auto values = v.has(i) ? v.exprs(i) : std::nullopt;
  return values && values->size() == 1 ? (*values)[0] : Expr();
}

struct Dft {
  size_t axis;
  Expr length, output;
};

std::optional<Dft> dft_of(const OpView& v) {
  if (!v.ranked(0) || v.rank(0) < 2) return std::nullopt;
  const int64_t rank = static_cast<int64_t>(v.rank(0));
  int64_t axis = v.integer("axis", 1);  // opset 17
  if (v.opset() >= 20) {
    const Expr given = v.has(2) ? one_value(v, 2) : Expr(-2);
    if (!given.is_constant()) return std::nullopt;
    axis = given.constant();
  }
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank - 1) return std::nullopt;
  Dft d{static_cast<size_t>(axis), v.dim(0, static_cast<size_t>(axis)), {}};
  const bool onesided = v.integer("onesided", 0), inverse = v.integer("inverse", 0);
  if (v.has(1)) d.length = one_value(v, 1);
  else if (onesided && inverse) d.length = (d.length - 1) * 2;
  d.output = onesided && !inverse && d.length.is_known() ? half_plus_one(d.length) : d.length;
  return d;
}

void infer_dft(InferContext& c) {
  if (!c.need_inputs(1)) return;
  if (!c.ranked(0)) return c.output_unranked(0, c.dtype(0));
  std::vector<Expr> dims = c.in(0)->dims;
  const auto d = dft_of(c);
  if (!d) return c.output(0, c.dtype(0), std::vector<Expr>(dims.size()));
  dims[d->axis] = d->output;
  dims.back() = c.integer("onesided", 0) && c.integer("inverse", 0) ? 1 : 2;
  c.output(0, c.dtype(0), std::move(dims));
}
void dft_work(const OpView& v, Work& w) {
  for (size_t i = 1; i < w.reads.size(); ++i) w.reads[i] = 0;
  const auto d = dft_of(v);
  if (!d) {
    w.vector_flops = {};
    return;
  }
  Expr lines = 1;
  for (size_t i = 0; i + 1 < v.rank(0); ++i)
    if (i != d->axis) lines *= v.dim(0, i);
  w.vector_flops = fft(lines, d->length, v.dim(0, v.rank(0) - 1) == Expr(1));
}

// signal [b, n, 1 or 2] → [b, frames, bins, 2].
struct Stft {
  Expr batch, frames, length, bins;
};
std::optional<Stft> stft_of(const OpView& v) {
  if (!v.ranked(0) || v.rank(0) < 2) return std::nullopt;
  Stft s;
  s.batch = v.dim(0, 0);
  const Expr step = one_value(v, 1);
  s.length = v.has(3) ? one_value(v, 3) : v.has(2) && v.ranked(2) && v.rank(2) == 1 ? v.dim(2, 0) : Expr();
  if (step.is_known() && step != Expr(0) && s.length.is_known()) s.frames = floor_div(v.dim(0, 1) - s.length, step) + 1;
  if (s.length.is_known()) s.bins = v.integer("onesided", 1) ? half_plus_one(s.length) : s.length;
  return s;
}
void infer_stft(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const auto s = stft_of(c);
  if (!s) return c.output_unranked(0, c.dtype(0));
  if (s->frames.is_constant() && s->frames.constant() < 0) return c.fail("dim-negative", "the signal is shorter than a frame");
  c.output(0, c.dtype(0), {s->batch, s->frames, s->bins, 2});
}
void stft_work(const OpView& v, Work& w) {
  const auto s = stft_of(v);
  w.vector_flops = {};
  for (size_t i : {1, 3})
    if (v.has(i)) w.reads[i] = 0;
  if (!s || !s->frames.is_known()) return;
  const bool real = v.rank(0) < 3 || v.dim(0, 2) == Expr(1);
  w.vector_flops = fft(s->batch * s->frames, s->length, real) + (v.has(2) ? s->batch * s->frames * s->length : Expr(0));
}

void infer_window(InferContext& c) {
  if (!c.need_inputs(1)) return;
  const int64_t d = c.integer("output_datatype", 1);
  c.output(0, d > 0 && d < dtype_count ? static_cast<DType>(d) : DType::float32, {one_value(c, 0)});
}
void infer_mel(InferContext& c) {
  if (!c.need_inputs(2)) return;
  const int64_t d = c.integer("output_datatype", 1);
  const Expr length = one_value(c, 1);
  c.output(0, d > 0 && d < dtype_count ? static_cast<DType>(d) : DType::float32, {length.is_known() ? half_plus_one(length) : Expr(), one_value(c, 0)});
}
template <int PerElement> void made(const OpView& v, Work& w) {
  for (Expr& r : w.reads) r = 0;
  if (v.out(0)) w.vector_flops = v.out(0)->elements() * PerElement;
}

// com.microsoft: the complex pair is a last dim of its own.
void infer_rfft(InferContext& c) {
  if (!c.need_inputs(1) || !c.need_rank(0, 1)) return;
  std::vector<Expr> dims = c.in(0)->dims;
  if (c.integer("onesided", 1)) dims.back() = half_plus_one(dims.back());
  dims.push_back(2);
  c.output(0, c.dtype(0), std::move(dims));
}
void infer_irfft(InferContext& c) {
  if (!c.need_inputs(1) || !c.need_rank(0, 2)) return;
  std::vector<Expr> dims(c.in(0)->dims.begin(), c.in(0)->dims.end() - 1);
  if (c.integer("onesided", 1)) dims.back() = (dims.back() - 1) * 2;
  c.output(0, c.dtype(0), std::move(dims));
}
void rfft_work(const OpView& v, Work& w) {
  const Type real = v.op_name() == "Rfft" ? v.in(0) : v.out(0);
  if (!real || !real->ranked || real->dims.empty()) return;
  const Expr n = real->dims.back();
  Expr lines = 1;
  for (size_t d = 0; d + 1 < real->dims.size(); ++d) lines *= real->dims[d];
  w.vector_flops = fft(lines, n, true);
}

constexpr OpInfo table[] = {
    {.name = "DFT", .since = 17, .kind = Kind::signal, .infer = infer_dft, .work = dft_work, .formula = "5*lines*n*ceil(log2(n)), half for real input"},
    {.name = "STFT", .since = 17, .kind = Kind::signal, .infer = infer_stft, .work = stft_work, .formula = "5*frames*n*ceil(log2(n)), half for real input; n per frame for a window"},
    {.name = "HannWindow", .since = 17, .kind = Kind::signal, .infer = infer_window, .work = made<5>, .formula = "5*n"},
    {.name = "HammingWindow", .since = 17, .kind = Kind::signal, .infer = infer_window, .work = made<5>, .formula = "5*n"},
    {.name = "BlackmanWindow", .since = 17, .kind = Kind::signal, .infer = infer_window, .work = made<9>, .formula = "9*n"},
    {.name = "MelWeightMatrix", .since = 17, .kind = Kind::signal, .infer = infer_mel, .work = made<4>, .formula = "4*n"},
    {.domain = "com.microsoft", .name = "Rfft", .since = 1, .kind = Kind::signal, .infer = infer_rfft, .work = rfft_work, .formula = "5/2*lines*n*ceil(log2(n))"},
    {.domain = "com.microsoft", .name = "Irfft", .since = 1, .kind = Kind::signal, .infer = infer_irfft, .work = rfft_work, .formula = "5/2*lines*n*ceil(log2(n))"},
};

}  // namespace

OpFamily signal_ops() { return table; }

}  // namespace roofcast
