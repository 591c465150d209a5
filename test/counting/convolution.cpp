// Convolutions: every kernel position of every output position, padding included.
#include "counting/window.h"

namespace counting {
namespace {

using roofcast::DType;

struct Problem {
  Windows windows;
  int64_t batch, groups, channels, filters;  // channels and filters of one group
  Shape x, w, y;                             // channels first
};

Problem problem(Random& random) {
  Problem p{random_windows(random, static_cast<size_t>(random(1, 3)), false), random(1, 2),
            random(1, 3), random(1, 2), random(1, 2), {}, {}, {}};
  p.x = joined({p.batch, p.groups * p.channels}, p.windows.size);
  p.w = joined({p.groups * p.filters, p.channels}, p.windows.kernel);
  p.y = joined({p.batch, p.groups * p.filters}, p.windows.output());
  return p;
}

Tally products(const Problem& p) {
  Tensor x(p.x), w(p.w), y(p.y, 0);
  return count([&] {
    each(p.y, [&](const Shape& at) {
      const int64_t group = at[1] / p.filters;
      Counted sum = 0.0;
      each(joined({p.channels}, p.windows.kernel), [&](const Shape& k) {
        Shape from{at[0], group * p.channels + k[0]}, weight{at[1], k[0]};
        for (size_t d = 0; d < p.windows.kernel.size(); ++d) {
          from.push_back(p.windows.place(d, at[d + 2], k[d + 1]));
          weight.push_back(k[d + 1]);
        }
        sum += x.padded(from) * w[weight];
      });
      y[at] = sum;
    });
  });
}

Tally per_output(const Problem& p, const std::function<Counted(Counted)>& f) {
  return count([&] { each(p.y, [&](const Shape&) { f(0.5); }); });
}

Shape channels_last(Shape s) {
  s.push_back(s[1]);
  s.erase(s.begin() + 1);
  return s;
}

Counted silu(Counted x) { return x * (1.0 / (exp(-x) + 1.0)); }

void plain(Compared& compared) {
  const Problem p = problem(compared.random);
  const bool bias = compared.random.coin();
  const auto with_bias = [&](Counted v) { return bias ? v + 1.0 : v; };
  OneOp conv("Conv");
  conv.input(dims(p.x)).input(dims(p.w)).set("group", p.groups);
  if (bias) conv.input({p.w[0]});
  p.windows.set_attributes(conv);
  compared(conv, {products(p), per_output(p, with_bias), p.y});

  for (const char* activation : {"Relu", "LeakyRelu", "Sigmoid"})
    for (const char* name : {"FusedConv", "NhwcFusedConv"}) {
      const bool last = name[0] == 'N';
      OneOp fused(name, 1, "com.microsoft");
      fused.input(dims(last ? channels_last(p.x) : p.x)).input(dims(p.w)).input({p.w[0]});
      fused.input(dims(last ? channels_last(p.y) : p.y));
      fused.set("group", p.groups).set("activation", activation);
      p.windows.set_attributes(fused);
      const auto epilogue = [&](Counted v) {
        v = v + 1.0 + 2.0;
        if (activation[0] == 'R') return max(v, 0.0);
        if (activation[0] == 'L') return select(v < 0.0, v * 0.01, v);
        return 1.0 / (exp(-v) + 1.0);
      };
      compared(fused, {products(p), per_output(p, epilogue), last ? channels_last(p.y) : p.y});
    }
  OneOp nhwc("NhwcConv", 1, "com.microsoft");
  nhwc.input(dims(channels_last(p.x))).input(dims(p.w)).set("group", p.groups);
  p.windows.set_attributes(nhwc);
  compared(nhwc, {products(p), {}, channels_last(p.y)});
}

void quantized(Compared& compared) {
  const Problem p = problem(compared.random);
  OneOp integer("ConvInteger");
  integer.input(dims(p.x), DType::uint8).input(dims(p.w), DType::int8).set("group", p.groups);
  p.windows.set_attributes(integer);
  compared(integer, {products(p), {}, p.y});
  for (const char* domain : {"", "com.microsoft"})
    for (bool bias : {false, true}) {
      const bool last = *domain && compared.random.coin();
      OneOp op("QLinearConv", *domain ? 1 : 10, domain);
      op.input(dims(last ? channels_last(p.x) : p.x), DType::uint8).input({});
      op.input({}, DType::uint8).input(dims(p.w), DType::int8).input({p.w[0]});
      op.input({p.w[0]}, DType::int8).input({}).input({}, DType::uint8).set("group", p.groups);
      if (bias) op.input({p.w[0]}, DType::int32);
      if (last) op.set("channels_last", 1);
      p.windows.set_attributes(op);
      compared(op, {products(p), per_output(p, [&](Counted v) {
                      return requantize(bias ? v + 1.0 : v);
                    }), last ? channels_last(p.y) : p.y});
    }
}

// Each input position adds a kernel's worth to the output.
void transposed(Compared& compared, const char* name, const char* domain) {
  Random& random = compared.random;
  Windows windows = random_windows(random, static_cast<size_t>(random(1, 3)), false);
  windows.auto_pad = "NOTSET";
  const int64_t batch = random(1, 2), groups = random(1, 3);
  const int64_t channels = random(1, 2), filters = random(1, 2);
  const Shape x = joined({batch, groups * channels}, windows.size);
  const Shape w = joined({groups * channels, filters}, windows.kernel);
  Shape y{batch, groups * filters}, extra;
  for (size_t d = 0; d < windows.size.size(); ++d) {
    extra.push_back(random(0, windows.stride[d] - 1));
    y.push_back((windows.size[d] - 1) * windows.stride[d] + windows.reach(d) + extra[d] -
                windows.begin[d] - windows.end[d]);
    if (y.back() < 0) return;
  }
  const Tally matrix = count([&] {
    Tensor data(x), weights(w);
    each(x, [&](const Shape& at) {
      each(joined({filters}, windows.kernel), [&](const Shape& k) {
        Shape weight{at[1], k[0]};
        weight.insert(weight.end(), k.begin() + 1, k.end());
        Counted(0.0) + data[at] * weights[weight];  // added where it lands, or cut off
      });
    });
  });
  const bool quantized = name[0] == 'Q', dynamic = std::string_view(name).ends_with("Pads");
  const bool bias = random.coin();
  OneOp op(name, *domain ? 1 : 22, domain);
  op.input(dims(x), quantized ? DType::uint8 : DType::float32);
  if (quantized) op.input({}).input({}, DType::uint8);
  op.input(dims(w), quantized ? DType::int8 : DType::float32);
  if (quantized) op.input({}).input({}, DType::int8).input({}).input({}, DType::uint8);
  if (dynamic) op.values(joined(windows.begin, windows.end));
  if (bias) op.input({y[1]});
  windows.set_attributes(op);
  op.set("group", groups).set("output_padding", extra);
  compared(op, {matrix, count([&] {
                  each(y, [&](const Shape&) {
                    const Counted v = bias ? Counted(0.5) + 1.0 : Counted(0.5);
                    if (quantized) requantize(v);
                  });
                }), y});
}

void deformable(Compared& compared) {
  Random& random = compared.random;
  Problem p = problem(random);
  while (p.windows.size.size() != 2 || p.windows.auto_pad != "NOTSET") p = problem(random);
  const int64_t channels = p.x[1];
  const bool mask = random.coin(), bias = random.coin();
  int64_t offset_groups = random(1, channels);
  while (channels % offset_groups) --offset_groups;
  const int64_t taps = elements(p.windows.kernel);
  const Shape places{p.batch, p.y[2], p.y[3], taps};
  const Tally vector = count([&] {
    each(places, [&](const Shape&) {
      std::vector<Counted> weights;
      for (int64_t g = 0; g < offset_groups; ++g) {
        const Counted y = Counted(0.3) - 0.0, x = Counted(0.6) - 0.0;  // fractions
        const Counted below = 1.0 - y, left = 1.0 - x;
        weights = {below * left, below * x, y * left, y * x};
      }
      for (int64_t c = 0; c < channels; ++c) {
        Counted v = weights[0] * 0.5;
        for (size_t i = 1; i < 4; ++i) v += weights[i] * 0.5;
        if (mask) v *= 0.5;
      }
    });
    if (bias) each(p.y, [&](const Shape&) { Counted(0.5) + 1.0; });
  });
  OneOp op("DeformConv");
  op.input(dims(p.x)).input(dims(p.w));
  op.input({p.batch, offset_groups * 2 * taps, p.y[2], p.y[3]});
  bias ? op.input({p.w[0]}) : op.absent();
  if (mask) op.input({p.batch, offset_groups * taps, p.y[2], p.y[3]});
  p.windows.set_attributes(op);
  op.set("group", p.groups).set("offset_group", offset_groups);
  compared(op, {products(p), vector, p.y});
}

void causal(Compared& compared) {
  Random& random = compared.random;
  const int64_t batch = random(1, 2), channels = random(1, 3), length = random(1, 6);
  const int64_t kernel = random(1, 4);
  for (const char* domain : {"", "com.microsoft"})
    for (const char* activation : {"none", "silu"}) {
      const Shape x{batch, channels, length};
      const bool bias = random.coin(), act = activation[0] == 's';
      const Tally matrix = count([&] {
        each({batch, channels, length, kernel}, [&](const Shape&) {
          Counted(0.0) + Counted(0.5) * 0.5;
        });
      });
      const Tally vector = count([&] {
        each(x, [&](const Shape&) {
          Counted v = 0.5;
          if (bias) v += 1.0;
          if (act) silu(v);
        });
      });
      OneOp op("CausalConvWithState", *domain ? 1 : 27, domain);
      op.input(dims(x)).input({channels, 1, kernel});
      bias ? op.input({channels}) : op.absent();
      op.set("activation", activation).outputs(2);
      compared(op, {matrix, vector, x});
      if (!*domain) continue;
      OneOp packed("VarlenCausalConvWithState", 1, domain);
      packed.input({batch * length, channels}).input({channels, 1, kernel});
      packed.input({batch + 1}, DType::int32);
      bias ? packed.input({channels}) : packed.absent();
      packed.input({batch, channels, kernel - 1}).set("activation", activation).outputs(2);
      compared(packed, {matrix, vector, {batch * length, channels}});
    }
}

}  // namespace

void compare_convolutions(Compared& compared) {
  for (int round = 0; round < 20; ++round) {
    plain(compared);
    quantized(compared);
    transposed(compared, "ConvTranspose", "");
    transposed(compared, "QLinearConvTranspose", "com.microsoft");
    transposed(compared, "ConvTransposeWithDynamicPads", "com.microsoft");
    deformable(compared);
    causal(compared);
  }
}

}  // namespace counting
