// Convolutions: the fastest of
//
//   implicit product  filters × (batch · output positions), deep channels · taps: tiles as in lane_gemm.cpp,
//                     traffic of the image and the filters alone
//   Winograd          3×3 with stride 1, in one kernel: squares of 2×2 of the result by 16 multiplications
//                     for 36; or its transforms as kernels of their own around 36 products: 4×4 by 36 for 144
//   pass over lines   few channels and filters a group (depthwise): nothing to make a tile of
//
// Backward products have the same FLOPs in other shapes: data's gradient sums over filters and taps, the
// weight's over batch and positions. S. Chetlur et al., "cuDNN", arXiv 1410.0759; A. Lavin, S. Gray, "Fast
// Algorithms for Convolutional Neural Networks", arXiv 1509.09308.
#include "time/kernel/kernel.h"

#include "support/units.h"

namespace roofcast {
namespace {

constexpr double least_group = 8;  // channels · filters of a group that a tile is made of

GemmShape product(const ConvShape& s) {
  GemmShape g;
  g.batch = s.groups, g.math = s.math;
  g.a_bits = g.b_bits = g.c_bits = s.bits;
  switch (s.direction) {
  case ConvShape::Direction::forward: g.m = s.filters, g.n = s.batch * s.out_points, g.k = s.channels * s.taps; break;
  case ConvShape::Direction::data: {
    // Of each image element, the taps that meet it.
    const double taps = std::max(1.0, s.taps * s.out_points / s.image_points);
    g.m = s.channels, g.n = s.batch * s.image_points, g.k = s.filters * taps;
    break;
  }
  case ConvShape::Direction::weight: g.m = s.filters, g.n = s.channels * s.taps, g.k = s.batch * s.out_points; break;
  }
  return g;
}

// Multiplications of Winograd's algorithm as one product per point of a square: the channels that are
// summed over, or squares in the weight's gradient.
GemmShape winograd_product(const ConvShape& s, double squares, double points) {
  const bool forward = s.direction == ConvShape::Direction::forward, weight = s.direction == ConvShape::Direction::weight;
  GemmShape g;
  g.batch = points * s.groups, g.math = s.math;
  g.a_bits = g.b_bits = g.c_bits = s.bits;
  g.m = forward || weight ? s.filters : s.channels;
  g.n = weight ? s.channels : s.batch * squares;
  g.k = weight ? s.batch * squares : forward ? s.channels : s.filters;
  return g;
}

// Seconds of passes that transform: what they leave in L2 at its rate, all else at main memory's.
double passes(double bytes, double kept, const ConvConstants& c, const KernelDevice& d) {
  return std::max(d.left_stream(kept) / (d.memory_rate * c.transform_rate), 1 / (d.cores * d.clock * c.transform_l2_rate)) * bytes;
}

Kernel winograd_fused(const ConvShape& s, const ConvConstants& c, double slow, const KernelDevice& d, Explanation* explanation) {
  GemmShape g = winograd_product(s, s.twos, 16);
  g.k *= 16, g.batch /= 16;
  const double filters = s.groups * s.filters * s.channels * s.bits / 8;
  const double elements = s.groups * s.batch * (s.channels * s.image_points + s.filters * s.out_points);
  Kernel k = tiled_time(g, elements * s.bits / 8 + 16 * filters, slow / c.fused, c.tiles, d, explanation);
  const double transform = passes((9 + 16) * filters, (9 + 16) * filters, c, d);
  k.overhead += c.fused_call, k.memory += transform, k.seconds += c.fused_call + transform;
  if (explanation) explanation->push_back({"Winograd", c.fused_call + transform, "transform of the filters; squares of 2×2 in one kernel"});
  return k;
}

Kernel winograd_apart(const ConvShape& s, const ConvConstants& c, double slow, const KernelDevice& d, Explanation* explanation) {
  const GemmShape g = winograd_product(s, s.fours, 36);
  const double a = s.groups * s.filters * s.channels, image = s.groups * s.batch * s.channels, result = s.groups * s.batch * s.filters, of = s.bits / 8;
  const double wide = 36 * (a + (image + result) * s.fours) * of;
  Kernel k = tiled_time(g, wide, slow / c.apart, c.tiles, d, explanation);
  const double bytes = wide + (9 * a + image * s.image_points + result * s.out_points) * of;
  const double transforms = passes(bytes, wide, c, d);
  k.overhead += c.apart_call, k.memory += transforms, k.seconds += c.apart_call + transforms;
  if (explanation) explanation->push_back({"Winograd", c.apart_call + transforms, "transforms of image, filters and result by " + format_bytes(bytes) + "; squares of 4×4"});
  return k;
}

}  // namespace

Kernel convolution_time(const ConvShape& s, const KernelDevice& d, Explanation* explanation) {
  using Direction = ConvShape::Direction;
  const double flops = 2 * s.batch * s.groups * s.channels * s.filters * s.out_points * s.taps;
  const double image = s.groups * s.batch * s.channels * s.image_points, result = s.groups * s.batch * s.filters * s.out_points;
  const double bytes = (image + result + s.groups * s.filters * s.channels * s.taps) * s.bits / 8;
  if (s.groups > 1 && s.channels * s.filters < least_group) {
    StreamShape lines;
    lines.kind = Kind::pooling;
    lines.rows = s.groups * s.batch, lines.cols = s.out_points;
    lines.bytes_read = bytes - result * s.bits / 8, lines.bytes_written = result * s.bits / 8;
    lines.flops = flops, lines.math = s.math;
    return stream_time(lines, d, explanation);
  }
  const ConvConstants& c = d.has_unit(s.math) ? d.c.convolution16 : d.c.convolution;
  const double share = s.direction == Direction::forward ? 1 : s.direction == Direction::data ? c.data_share : c.weight_share;
  const double call = s.direction == Direction::forward ? 0 : c.backward_call;
  const GemmShape g = product(s);
  // A thin image leaves threads of the loads idle.
  const double slow = (1 + c.shallow / g.k) / share;
  Explanation how;
  Kernel k = tiled_time(g, bytes, slow, c.tiles, d, explanation ? &how : nullptr);
  auto take_if_quicker = [&](auto&& algorithm) {
    Explanation other;
    const Kernel w = algorithm(s, c, 1 / share, d, explanation ? &other : nullptr);
    if (w.seconds < k.seconds) k = w, how = std::move(other);
  };
  if (s.three_by_three && s.image_points < 2 * s.out_points) {
    if (s.direction != Direction::weight) take_if_quicker(winograd_fused);
    take_if_quicker(winograd_apart);
  }
  k.overhead += call, k.seconds += call;
  if (explanation) explanation->insert(explanation->end(), how.begin(), how.end());
  return k;
}

}  // namespace roofcast
