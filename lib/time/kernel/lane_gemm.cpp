// Matrix products on vector lanes: types that no matrix unit takes, fp32 above all. Convolutions as
// implicit products take the same road.
//
//   time = call + max4(waves · max4(loop, store) + min(loop, store), memory) [+ split]
//   loop    of one tile: columns beyond the result by warps of 32 cost nothing, rows beyond it all
//   store   of one tile: every row of it, the columns that exist
//
// A tile's stores run beside the next tile's loop. BLAS libraries see the transposed product, so that wide
// tiles come first; batched products get one tile for nearly every shape, single ones the better of a
// few: kernel names in the rows of NeuSight (S. Lee et al., ASPLOS 2025, data set). Waves and split k as in
// gemm.cpp.
#include "time/kernel/kernel.h"

#include "support/units.h"

#include <fmt/format.h>

namespace roofcast {
namespace {

struct Tile {
  double m, n;
};
constexpr Tile tiles[] = {{128, 128}, {64, 128}, {128, 64}, {64, 64}, {32, 128}, {128, 32}, {32, 64}, {64, 32}, {32, 32}};
constexpr double warp = 32, k_step = 8, most_waves = 3;

struct Choice {
  Tile tile{};
  double split = 1, waves = 1, compute = 0, memory = 0, seconds = 1e300, rank = 1e300;
};

}  // namespace

Kernel tiled_time(const GemmShape& s, double bytes, double slow, const LaneGemmConstants& c, const KernelDevice& d, Explanation* explanation) {
  const double a_bytes = s.a_bits / 8, b_bytes = s.b_bits / 8, c_bytes = s.c_bits / 8, cores = d.cores;
  const double peak = d.matrix(s.math), flops = 2 * s.batch * s.m * s.n * s.k;
  const double core_peak = peak / cores * c.efficiency / slow, core_l2 = c.l2_rate * d.clock;
  const double compulsory = d.left_stream(bytes) * bytes, rate = d.memory_rate * c.dram_efficiency;
  const double a = s.batch * s.m * s.k * a_bytes, b = s.batch * s.k * s.n * b_bytes;
  const Panels panels{d.left_stream(a / s.batch) * a, d.left_stream(b / s.batch) * b, c.swizzle};

  Choice best;
  for (const Tile& t : tiles) {
    if (t.m * t.n > c.largest) continue;
    const double rows = blocks(s.m, t.m), columns = blocks(s.n, t.n), count = s.batch * rows * columns;
    const double wide = std::min(1.0, blocks(s.n, warp) * warp / (columns * t.n));
    const double step = overlapped(2 * t.m * t.n * wide / core_peak, (t.m * a_bytes + t.n * wide * b_bytes) / core_l2);
    const double store = c.store + t.m * s.n / columns * c_bytes / (c.store_rate * d.clock);
    const double preferred = std::pow(16384 / (t.m * t.n), c.preference);
    const double memory = (compulsory + read_again(s, t.m, t.n, std::min(count, cores), panels)) / rate;
    double last = 0;
    for (double wanted = 0; wanted <= most_waves; ++wanted) {
      const double split = wanted == 0 ? 1 : std::min(std::floor(wanted * cores / count), std::floor(s.k / c.split_depth));
      if (split <= last) continue;
      last = split;
      const double loop = c.tile + step * blocks(s.k / split, k_step) * k_step;
      const double filled = count * split / cores, waves = std::max(1.0, filled + c.tail * (std::ceil(filled) - filled));
      const double compute = waves * overlapped(loop, store) + std::min(loop, store);
      const double seconds = overlapped(compute, memory) + (split > 1 ? c.split : 0);
      if (const double rank = seconds * preferred; rank < best.rank) best = {t, split, waves, compute, memory, seconds, rank};
    }
  }
  const double use = flops / peak / best.seconds;
  // Clocks fall once the power limit has been met for some time: short kernels run before it acts.
  const double slower = 1 + c.throttle * std::max(0.0, use - c.throttle_from) * best.seconds / (best.seconds + c.throttle_after);

  Kernel k;
  k.overhead = c.call;
  k.compute = best.compute * slower, k.memory = best.memory;
  k.seconds = k.overhead + best.seconds * slower;
  if (explanation) {
    auto add = [&](const char* name, double seconds, std::string why) { explanation->push_back({name, seconds, std::move(why)}); };
    add("launch", k.overhead, "start of a kernel and of its loads");
    add("peak", flops / peak, format_flops(flops) + " at " + format_rate(peak, "FLOP"));
    add("tiles", best.compute - flops / peak, fmt::format("{:.3g} waves of {:g}×{:g} tiles on {:g} cores{}", best.waves, best.tile.m, best.tile.n, cores,
                                                       best.split > 1 ? fmt::format(", k split in {:g}", best.split) : ""));
    add("memory", best.memory, format_bytes(compulsory) + " from main memory, and panels again");
    add("not hidden", best.seconds - std::max(best.compute, best.memory), "seams of compute and memory, sums of split k");
    if (slower > 1) add("sustained clock", best.seconds * (slower - 1), "the power limit at " + format_share(use) + " of the peak");
  }
  return k;
}

Kernel lane_gemm_time(const GemmShape& s, const KernelDevice& d, Explanation* explanation) {
  const LaneGemmConstants& c = s.batch > 1 ? d.c.batched32 : d.c.gemm32;
  const double a_bytes = s.a_bits / 8, b_bytes = s.b_bits / 8, c_bytes = s.c_bits / 8;
  const double bytes = s.batch * (s.m * s.k * a_bytes + s.k * s.n * b_bytes + s.m * s.n * c_bytes);
  const double align = 16 / std::max(a_bytes, b_bytes);
  const bool misaligned = std::fmod(s.k, align) != 0 || std::fmod(s.n, align) != 0;
  const double slow = (misaligned ? 1 + c.misaligned : 1) * (1 + std::max(0.0, s.n - 4096) / c.wide);
  return tiled_time(s, bytes, slow, c, d, explanation);
}

}  // namespace roofcast
