// Convolutions: the fastest of
//
//   implicit product  filters × (batch · output positions), deep channels · taps: tiles as in lane_gemm.cpp,
//                     traffic of the image and the filters alone
//   Winograd          3×3 with stride 1: fewer multiplications, 2.25 at best, by two more steps
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
  const bool winograd = c.winograd > 1 && s.three_by_three && s.image_points < 2 * s.out_points && s.direction != Direction::weight;
  Explanation direct, fast;
  Kernel k = tiled_time(g, bytes, slow, c.tiles, d, explanation ? &direct : nullptr);
  if (winograd) {
    Kernel w = tiled_time(g, bytes, slow / c.winograd, c.tiles, d, explanation ? &fast : nullptr);
    const double steps = c.winograd_call + c.winograd_bytes * (image + result) * s.bits / 8 / d.memory_rate;
    w.seconds += steps, w.overhead += c.winograd_call, w.memory += steps - c.winograd_call;
    if (w.seconds < k.seconds) {
      k = w;
      fast.push_back({"Winograd", steps, "transforms of the image and the result"});
      direct = std::move(fast);
    }
  }
  k.overhead += call, k.seconds += call;
  if (explanation) explanation->insert(explanation->end(), direct.begin(), direct.end());
  return k;
}

}  // namespace roofcast
