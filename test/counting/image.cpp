// Image ops: a value made of t others takes t products and t − 1 additions; weights count where
// data decides the places.
#include "counting/compare.h"

namespace counting {
namespace {

using roofcast::DType;

// The value of one output: its neighbours by their weights.
Counted blend(int64_t taps) {
  Counted v = Counted(0.5) * 0.25;
  for (int64_t i = 1; i < taps; ++i) v += Counted(0.5) * 0.25;
  return v;
}

// Weights along one axis: linear, or Keys' cubic with its distances 1 + f, f, 1 − f, 2 − f.
std::vector<Counted> axis_weights(int64_t taps) {
  const Counted f = Counted(0.3) - 0.0;  // the place's fraction
  if (taps == 2) return {1.0 - f, f};
  const double a = -0.75;
  const auto near = [&](Counted x) { return (x * (a + 2) - (a + 3)) * x * x + 1.0; };
  const auto far = [&](Counted x) { return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(f + 1.0), near(f), near(1.0 - f), far(2.0 - f)};
}

// All weights of a place in `rank` dims.
void place_weights(int64_t taps, size_t rank) {
  std::vector<Counted> weights = axis_weights(taps);
  std::vector<std::vector<Counted>> axes{weights};
  for (size_t d = 1; d < rank; ++d) axes.push_back(axis_weights(taps));
  each(Shape(rank, taps), [&](const Shape& at) {
    Counted w = axes[0][static_cast<size_t>(at[0])];
    for (size_t d = 1; d < rank; ++d) w *= axes[d][static_cast<size_t>(at[d])];
  });
}

void resize(Compared& compared, const char* mode, int64_t taps) {
  Random& random = compared.random;
  const Shape x = random.shape(4, 6);
  Shape y = x;
  int64_t all = 1;
  const bool antialias = random.coin() && taps > 1;
  for (size_t d = 2; d < 4; ++d) {
    while (y[d] == x[d]) y[d] = random(1, 9);
    int64_t width = taps;
    while (antialias && width * y[d] < taps * x[d]) ++width;  // widened by the scale, rounded up
    all *= width;
  }
  OneOp op("Resize", 19);
  op.input(dims(x)).absent().absent().values({y[2], y[3]}).set("axes", Shape{2, -1});
  op.set("mode", mode).set("antialias", antialias);
  compared(op, {{}, count([&] {
                  if (taps > 1) each(y, [&](const Shape&) { blend(all); });
                }), y});

  OneOp scaled("Upsample", 9);
  scaled.input(dims(x)).reals({1, 1, 2, 3}).set("mode", mode);
  const Shape larger{x[0], x[1], x[2] * 2, x[3] * 3};
  compared(scaled, {{}, count([&] {
                      if (taps > 1) each(larger, [&](const Shape&) { blend(taps * taps); });
                    }), larger});
}

void grid_sample(Compared& compared, const char* mode, int64_t taps, size_t rank) {
  Random& random = compared.random;
  const int64_t n = random(1, 2), c = random(1, 3);
  Shape x{n, c}, y{n, c}, grid{n};
  for (size_t d = 0; d < rank; ++d) {
    x.push_back(random(4, 6)), grid.push_back(random(1, 3));
    y.push_back(grid.back());
  }
  grid.push_back(static_cast<int64_t>(rank));
  Shape places(grid.begin(), grid.end() - 1);
  int64_t all = 1;
  for (size_t d = 0; d < rank; ++d) all *= taps;
  const Tally t = count([&] {
    if (taps == 1) return;
    each(places, [&](const Shape&) { place_weights(taps, rank); });
    each(y, [&](const Shape&) { blend(all); });
  });
  for (const char* domain : {"", "com.microsoft"}) {
    if (*domain && rank != 2) continue;
    OneOp op("GridSample", *domain ? 1 : 20, domain);
    op.input(dims(x)).input(dims(grid)).set("mode", mode);
    compared(op, {{}, t, y});
  }
}

}  // namespace

void compare_images(Compared& compared) {
  Random& random = compared.random;
  for (int round = 0; round < 10; ++round) {
    resize(compared, "nearest", 1);
    resize(compared, "linear", 2);
    resize(compared, "cubic", 4);
    for (size_t rank : {2, 3}) {
      grid_sample(compared, "nearest", 1, rank);
      grid_sample(compared, "linear", 2, rank);
      grid_sample(compared, "cubic", 4, rank);
    }
    const int64_t k = random(1, 4), c = random(1, 3), h = random(1, 4), w = random(1, 4);
    OneOp crop("CropAndResize", 1, "com.microsoft");
    crop.input({2, c, 8, 8}).input({k, 4}).input({k}, DType::int32).values({h, w});
    compared(crop, {{}, count([&] {
                      each({k, h, w}, [&](const Shape&) { place_weights(2, 2); });
                      each({k, c, h, w}, [&](const Shape&) { blend(4); });
                    }), {k, c, h, w}});
    // Each coordinate is a row of theta by the place (.., 1).
    OneOp grid("AffineGrid");
    grid.input({k, 2, 3}).values({k, c, h, w});
    compared(grid, {{}, count([&] {
                      each({k, h, w, 2}, [&](const Shape&) {
                        Counted(0.5) * 0.5 + Counted(0.5) * 0.5 + 0.5;
                      });
                    }), {k, h, w, 2}});
  }
  OneOp old("Crop", 1);
  old.input({1, 2, 6, 8}).set("border", Shape{1, 2, 1, 2});
  compared(old, {{}, {}, {1, 2, 2, 6}});
  compared.ops.insert(":ImageDecoder");  // bytes only
}

}  // namespace counting
