// Normalizations, line by line as their specification defines them.
#include "counting/compare.h"

#include <algorithm>

namespace counting {
namespace {

using Line = std::vector<Counted>;

Line line_of(int64_t n) { return Line(static_cast<size_t>(n), 0.5); }

Counted sum(const Line& line) {
  Counted total = line[0];
  for (size_t i = 1; i < line.size(); ++i) total += line[i];
  return total;
}
Counted mean(const Line& line) { return sum(line) / static_cast<double>(line.size()); }
template <class F> Line map(const Line& line, F&& f) {
  Line out;
  for (Counted x : line) out.push_back(f(x));
  return out;
}
Line deviations(const Line& line) {
  const Counted m = mean(line);
  return map(line, [&](Counted x) { return x - m; });
}
Counted mean_square(const Line& line) {
  return mean(map(line, [](Counted x) { return x * x; }));
}
Counted silu(Counted x) { return x * (1.0 / (exp(-x) + 1.0)); }

// Each element has a scale of its own; a bias and an activation as asked.
void layer(const Line& line, bool bias, bool activate = false) {
  const Line d = deviations(line);
  const Counted inverse = 1.0 / sqrt(mean_square(d) + 1e-5);
  for (Counted x : d) {
    Counted y = x * inverse * 2.0;
    if (bias) y += 1.0;
    if (activate) silu(y);
  }
}
void rms(const Line& line) {
  const Counted inverse = 1.0 / sqrt(mean_square(line) + 1e-5);
  for (Counted x : line) x* inverse * 2.0;
}
// One scale and bias for the line.
void instance(const Line& line) {
  const Line d = deviations(line);
  const Counted factor = 2.0 / sqrt(mean_square(d) + 1e-5);
  for (Counted x : d) x* factor + 1.0;
}

template <class F> Counts lines(int64_t count_of_lines, int64_t n, const Shape& shape, F&& f) {
  return {{}, count([&] {
            for (int64_t i = 0; i < count_of_lines; ++i) f(line_of(n));
          }), shape};
}

void layers(Compared& compared, const char* domain) {
  Random& random = compared.random;
  const Shape shape = random.shape(random(1, 4));
  const int64_t rank = static_cast<int64_t>(shape.size()), axis = random(0, rank - 1);
  const Shape line(shape.begin() + axis, shape.end());
  const int64_t n = elements(line), many = elements(shape) / n;
  for (bool bias : {false, true}) {
    OneOp op("LayerNormalization", 17, domain);
    op.input(dims(shape)).input(dims(line)).set("axis", axis - rank).outputs(3);
    if (bias) op.input(dims(line));
    compared(op, lines(many, n, shape, [&](const Line& l) { layer(l, bias); }));
  }
  for (const char* name : {"RMSNormalization", "SimplifiedLayerNormalization"}) {
    if (*domain && std::string_view(name) == "RMSNormalization") continue;
    OneOp op(name, 23, domain);
    op.input(dims(shape)).input(dims(line)).set("axis", axis);
    compared(op, lines(many, n, shape, rms));
  }
}

void batch(Compared& compared, int opset, bool training) {
  Random& random = compared.random;
  const Shape shape = random.shape(random(2, 4));
  const int64_t channels = shape[1], n = elements(shape) / channels;
  OneOp op("BatchNormalization", opset);
  op.input(dims(shape));
  for (int i = 0; i < 4; ++i) op.input({channels});
  if (training) op.outputs(opset >= 14 ? 3 : 5);
  if (training && opset >= 14) op.set("training_mode", 1);
  const Tally t = count([&] {
    for (int64_t c = 0; c < channels; ++c) {
      const Line line = line_of(n);
      if (training) {
        instance(line);
        for (int statistic = 0; statistic < 2; ++statistic) Counted(0.5) * 0.9 + Counted(1.0) * 0.1;
      } else {
        const Counted a = 2.0 / sqrt(Counted(1.0) + 1e-5), b = 1.0 - a * 0.5;
        for (Counted x : line) x* a + b;
      }
    }
  });
  compared(op, {{}, t, shape});
}

void by_channel(Compared& compared) {
  Random& random = compared.random;
  const Shape shape = random.shape(random(3, 5));
  const int64_t n = elements(shape) / shape[0] / shape[1];
  OneOp op("InstanceNormalization");
  op.input(dims(shape)).input({shape[1]}).input({shape[1]});
  compared(op, lines(shape[0] * shape[1], n, shape, instance));

  const int64_t groups = random(1, 3), size = random(1, 3);
  Shape grouped = shape;
  grouped[1] = groups * size;
  const int64_t group_elements = n * size, many = grouped[0] * groups;
  for (int opset : {18, 21}) {
    OneOp group("GroupNormalization", opset);
    const int64_t scales = opset < 21 ? groups : grouped[1];
    group.input(dims(grouped)).input({scales}).input({scales}).set("num_groups", groups);
    compared(group, lines(many, group_elements, grouped, [&](const Line& l) {
               opset < 21 ? instance(l) : layer(l, true);
             }));
  }
  Shape last = grouped;
  std::rotate(last.begin() + 1, last.begin() + 2, last.end());
  for (int activation : {0, 1}) {
    OneOp contrib("GroupNorm", 1, "com.microsoft");
    contrib.input(dims(last)).input({last.back()}).input({last.back()});
    contrib.set("groups", groups).set("activation", activation);
    compared(contrib, lines(many, group_elements, last, [&](const Line& l) {
               layer(l, true, activation == 1);
             }));
    for (bool bias : {false, true}) {
      OneOp skip("SkipGroupNorm", 1, "com.microsoft");
      skip.input(dims(last)).input({last.back()}).input({last.back()}).input(dims(last));
      if (bias) skip.input({last.back()});
      skip.set("groups", groups).set("activation", activation).outputs(2);
      compared(skip, lines(many, group_elements, last, [&](const Line& l) {
                 layer(map(l, [&](Counted x) { return bias ? x + 1.0 + 2.0 : x + 1.0; }), true,
                       activation == 1);
               }));
    }
  }
}

void others(Compared& compared) {
  Random& random = compared.random;
  const Shape shape = random.shape(4);
  const int64_t axis = random(0, 3), n = shape[static_cast<size_t>(axis)];
  for (int p : {1, 2}) {
    OneOp op("LpNormalization");
    op.input(dims(shape)).set("axis", axis).set("p", p);
    compared(op, lines(elements(shape) / n, n, shape, [&](const Line& l) {
               const Counted norm =
                   p == 1 ? sum(map(l, [](Counted x) { return abs(x); }))
                          : sqrt(sum(map(l, [](Counted x) { return x * x; })));
               for (Counted x : l) x / norm;
             }));
  }
  OneOp variance("MeanVarianceNormalization");
  variance.input(dims(shape));
  compared(variance, lines(shape[1], elements(shape) / shape[1], shape, [](const Line& l) {
             const Line d = deviations(l);
             const Counted deviation = sqrt(mean_square(d)) + 1e-9;
             for (Counted x : d) x / deviation;
           }));
  const int64_t size = random(1, 5);
  OneOp lrn("LRN");
  lrn.input(dims(shape)).set("size", size);
  Tensor x(shape), squares(shape);
  const Tally t = count([&] {
    each(shape, [&](const Shape& at) { squares[at] = x[at] * x[at]; });
    each(shape, [&](const Shape& at) {
      Line window;
      for (int64_t r = 0; r < size; ++r) {
        Shape near = at;
        near[1] += r - (size - 1) / 2;
        window.push_back(squares.padded(near));
      }
      x[at] / pow(sum(window) * 1e-4 + 1.0, 0.75);
    });
  });
  compared(lrn, {{}, t, shape});
}

void residual(Compared& compared) {
  Random& random = compared.random;
  const Shape shape = random.shape(3);
  const int64_t h = shape[2], many = shape[0] * shape[1];
  for (bool bias : {false, true})
    for (bool beta : {false, true}) {
      OneOp op("SkipLayerNormalization", 1, "com.microsoft");
      op.input(dims(shape)).input({shape[1], h}).input({h});
      beta ? op.input({h}) : op.absent();
      if (bias) op.input({h});
      op.outputs(4);
      compared(op, lines(many, h, shape, [&](const Line& l) {
                 layer(map(l, [&](Counted x) { return bias ? x + 1.0 + 2.0 : x + 1.0; }), beta);
               }));
    }
  for (bool bias : {false, true}) {
    OneOp op("SkipSimplifiedLayerNormalization", 1, "com.microsoft");
    op.input(dims(shape)).input(dims(shape)).input({h});
    if (bias) op.input({h});
    compared(op, lines(many, h, shape, [&](const Line& l) {
               rms(map(l, [&](Counted x) { return bias ? x + 1.0 + 2.0 : x + 1.0; }));
             }));
  }
  for (bool segments : {false, true})
    for (bool mask : {false, true}) {
      using roofcast::DType;
      const Shape ids{shape[0], shape[1]};
      OneOp op("EmbedLayerNormalization", 1, "com.microsoft");
      op.input(dims(ids), DType::int32);
      segments ? op.input(dims(ids), DType::int32) : op.absent();
      op.input({100, h}).input({20, h});
      segments ? op.input({2, h}) : op.absent();
      op.input({h}).input({h});
      if (mask) op.input(dims(ids), DType::int32);
      op.outputs(2);
      Counts counts = lines(many, h, shape, [&](const Line& l) {
        layer(map(l, [&](Counted x) { return segments ? x + 1.0 + 2.0 : x + 1.0; }), true);
      });
      if (mask) counts.vector.sums += many;  // one per position, to find the mask's length
      compared(op, counts);
    }
  const int64_t heads = random(1, 3);
  const Shape packed{shape[0], heads * h};
  for (const char* gate : {"silu", "sigmoid"}) {
    OneOp op("GatedRMSNorm", 1, "com.microsoft");
    op.input(dims(packed)).input({h}).input(dims(packed)).set("activation", gate);
    compared(op, lines(shape[0] * heads, h, packed, [&](const Line& l) {
               rms(l);
               const bool times_itself = std::string_view(gate) == "silu";
               for (Counted x : l)
                 Counted(0.5) * (times_itself ? silu(x) : 1.0 / (exp(-x) + 1.0));
             }));
  }
}

}  // namespace

void compare_normalizations(Compared& compared) {
  for (int round = 0; round < 4; ++round) {
    layers(compared, "");
    layers(compared, "com.microsoft");
    for (int opset : {7, 9, 15}) {
      batch(compared, opset, false);
      batch(compared, opset, true);
    }
    by_channel(compared);
    others(compared);
    residual(compared);
  }
}

}  // namespace counting
