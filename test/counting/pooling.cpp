// Pooling: every position of every window, padding included; regions at sampled places.
#include "counting/window.h"

namespace counting {
namespace {

using roofcast::DType;
using Line = std::vector<Counted>;

Counted sum(const Line& line) {
  Counted total = line[0];
  for (size_t i = 1; i < line.size(); ++i) total += line[i];
  return total;
}
Counted greatest(const Line& line) {
  Counted best = line[0];
  for (size_t i = 1; i < line.size(); ++i) best = max(best, line[i]);
  return best;
}
Counted mean(const Line& line) { return sum(line) / static_cast<double>(line.size()); }
Counted p_norm(Line line, int64_t p) {
  const double power = static_cast<double>(p);
  for (Counted& x : line) x = p == 1 ? abs(x) : p == 2 ? x * x : pow(abs(x), power);
  const Counted total = sum(line);
  return p == 1 ? total : p == 2 ? sqrt(total) : pow(total, 1.0 / power);
}

struct Pool {
  const char* name;
  std::function<Counted(const Line&)> definition;
  int opset = 22;
  const char* domain = "";
  bool channels_last = false, quantized = false;
  int64_t p = 0;
};

Shape placed(int64_t n, int64_t c, const Shape& spatial, bool channels_last) {
  return channels_last ? joined(joined({n}, spatial), {c}) : joined({n, c}, spatial);
}

Tally on_windows(const Pool& pool, const Shape& outputs, int64_t size) {
  const Line window(static_cast<size_t>(size), 0.5);
  return count([&] { each(outputs, [&](const Shape&) { pool.definition(window); }); });
}

void windows(Compared& compared, const Pool& pool) {
  Random& random = compared.random;
  const bool dilated = pool.opset >= 19 && !pool.quantized;
  const bool ceils = pool.opset >= 18;
  const Windows w = random_windows(random, static_cast<size_t>(random(1, 3)), ceils, dilated);
  const int64_t n = random(1, 2), c = random(1, 3);
  const Shape y = placed(n, c, w.output(), pool.channels_last);
  OneOp op(pool.name, pool.opset, pool.domain);
  op.input(dims(placed(n, c, w.size, pool.channels_last)),
           pool.quantized ? DType::uint8 : DType::float32);
  if (pool.quantized) op.input({}).input({}, DType::uint8).input({}).input({}, DType::uint8);
  if (pool.quantized) op.set("channels_last", pool.channels_last);
  if (std::string_view(pool.name) == "MaxPool" && random.coin()) op.outputs(2);
  if (pool.p) op.set("p", pool.p);
  op.set("kernel_shape", w.kernel);
  w.set_attributes(op, dilated);
  compared(op, {{}, on_windows(pool, y, elements(w.kernel)), y});
}

void global(Compared& compared, const Pool& pool) {
  Random& random = compared.random;
  const Shape spatial = random.shape(random(1, 3));
  const int64_t n = random(1, 2), c = random(1, 3);
  const Shape y = placed(n, c, Shape(spatial.size(), 1), pool.channels_last);
  OneOp op(pool.name, pool.opset, pool.domain);
  op.input(dims(placed(n, c, spatial, pool.channels_last)),
           pool.quantized ? DType::uint8 : DType::float32);
  if (pool.quantized) op.input({}).input({}, DType::uint8).input({}).input({}, DType::uint8);
  if (pool.quantized) op.set("channels_last", pool.channels_last);
  if (pool.p) op.set("p", pool.p);
  compared(op, {{}, on_windows(pool, y, elements(spatial)), y});
}

void regions(Compared& compared, const char* mode) {
  Random& random = compared.random;
  const int64_t k = random(1, 4), c = random(1, 3), h = random(1, 3), w = random(1, 3);
  const int64_t given = random(0, 3), ratio = given ? given : 2;
  const Shape y{k, c, h, w};
  const bool average = std::string_view(mode) == "avg";
  const Tally t = count([&] {
    each({k, h, w, ratio * ratio}, [&](const Shape&) {
      const Counted y = Counted(0.3) - 0.0, x = Counted(0.6) - 0.0, top = 1.0 - y, left = 1.0 - x;
      top* left, top* x, y* left, y* x;
    });
    each(y, [&](const Shape&) {
      Line samples;
      for (int64_t s = 0; s < ratio * ratio; ++s) {
        Counted v = Counted(0.5) * 0.25;
        for (int corner = 1; corner < 4; ++corner) v += Counted(0.5) * 0.25;
        samples.push_back(v);
      }
      average ? mean(samples) : greatest(samples);
    });
  });
  OneOp op("RoiAlign");
  op.input({2, c, 8, 8}).input({k, 4}).input({k}, DType::int64).set("mode", mode);
  op.set("output_height", h).set("output_width", w).set("sampling_ratio", given);
  compared(op, {{}, t, y});
}

}  // namespace

void compare_pooling(Compared& compared) {
  const auto quantized_mean = [](const Line& l) { return requantize(mean(l)); };
  for (int round = 0; round < 20; ++round) {
    for (int opset : {1, 11, 22}) windows(compared, {"MaxPool", greatest, opset});
    for (int opset : {7, 11, 22}) windows(compared, {"AveragePool", mean, opset});
    for (int64_t p : {1, 2, 3})
      windows(compared, {.name = "LpPool",
                         .definition = [p](const Line& l) { return p_norm(l, p); }, .p = p});
    windows(compared, {.name = "NhwcMaxPool", .definition = greatest, .domain = "com.microsoft",
                       .channels_last = true});
    for (bool last : {false, true}) {
      const char* domain = "com.microsoft";
      windows(compared, {"QLinearAveragePool", quantized_mean, 1, domain, last, true});
      global(compared, {"QLinearGlobalAveragePool", quantized_mean, 1, domain, last, true});
    }
    global(compared, {"GlobalMaxPool", greatest});
    global(compared, {"GlobalAveragePool", mean});
    for (int64_t p : {1, 2, 3})
      global(compared, {.name = "GlobalLpPool",
                        .definition = [p](const Line& l) { return p_norm(l, p); }, .p = p});
    windows(compared, {.name = "MaxpoolWithMask", .definition = [](const Line& l) {
                         Line kept;
                         for (Counted x : l) kept.push_back(select(true, x, 0.0));
                         return greatest(kept);
                       }, .opset = 1, .domain = "com.microsoft"});
    regions(compared, "avg");
    regions(compared, "max");
  }
  OneOp unpool("MaxUnpool");
  unpool.input({1, 2, 3, 3}).input({1, 2, 3, 3}, DType::int64);
  unpool.set("kernel_shape", std::vector<int64_t>{2, 2}).set("strides", std::vector<int64_t>{2, 2});
  compared(unpool, {{}, {}, {1, 2, 6, 6}});
  // Regions as large as the map: each value of it is compared once per region.
  OneOp regions_of("MaxRoiPool");
  regions_of.input({1, 2, 6, 8}).input({3, 5}).set("pooled_shape", std::vector<int64_t>{2, 2});
  compared(regions_of, {{}, count([&] {
                          each({3, 2, 6, 8}, [&](const Shape&) { max(0.5, Counted(0.25)); });
                        }), {3, 2, 2, 2}});
}

}  // namespace counting
