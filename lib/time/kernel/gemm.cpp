// Matrix products: tiles of the result in waves over the cores.
//
//   time = launch + call + max4(waves · (tile + loop), memory) [+ split]
//   loop    of one tile: the greater of its multiplications and of bringing its panels from L2
//   memory  what leaves L2 between uses, over the memory bandwidth
//
// Libraries pick the tile, and split k where tiles are too few; so does this. max4 is the 4-norm: of two
// that overlap, the lesser is not quite hidden. Tiles, waves and their tail: NVIDIA, "Matrix Multiplication
// Background User's Guide", section 4; split k: CUTLASS, "Efficient GEMM in CUDA".
#include "time/kernel/kernel.h"

#include "support/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace roofcast {
namespace {

struct Tile {
  double m, n;
};
constexpr Tile tiles[] = {{256, 128}, {128, 256}, {128, 192}, {192, 128}, {128, 128}, {256, 64}, {64, 256}, {128, 64},
                          {64, 128},  {64, 64},   {128, 32},  {32, 128},  {64, 32},   {32, 64},  {32, 32}};
constexpr double k_step = 32, least_depth = 256, most_waves = 4;

const GemmConstants& constants_of(const GemmShape& s, const KernelDevice& d) {
  if (s.math == MathType::fp8 || s.math == MathType::int8 || s.math == MathType::fp4) return d.c.gemm8;
  return s.b_bits < s.a_bits ? d.c.gemm_weights : d.c.gemm16;
}

struct Choice {
  Tile tile{};
  double split = 1, waves = 1, compute = 0, memory = 0, seconds = 1e300, rank = 1e300;
};

}  // namespace

double read_again(const GemmShape& s, double t_m, double t_n, double running, const Panels& p) {
  const double wide = std::max(p.swizzle, blocks(running, blocks(s.m, t_m)) * t_n);
  const double high = std::max(p.swizzle, blocks(running, blocks(s.n, t_n)) * t_m);
  return std::min(std::max(0.0, s.n / wide - 1) * p.a, std::max(0.0, s.m / high - 1) * p.b);
}

Kernel gemm_time(const GemmShape& s, const KernelDevice& d, Explanation* explanation) {
  if (!d.has_unit(s.math)) return lane_gemm_time(s, d, explanation);
  const GemmConstants& c = constants_of(s, d);
  const double peak = d.matrix(s.math), cores = d.cores;
  const double a_bytes = s.a_bits / 8, b_bytes = s.b_bits / 8, c_bytes = s.c_bits / 8;
  const double a = s.batch * s.m * s.k * a_bytes, b = s.batch * s.k * s.n * b_bytes, out = s.batch * s.m * s.n * c_bytes;

  // What is not in L2 any more: B after all copies have passed, A and the result after one run.
  const double left = d.left_l2(a + b + out);
  const double compulsory = (s.cycle > 0 ? d.left_l2(s.cycle * b + a + out) : 1) * b + left * (a + out);
  const double a_again = d.left_l2(a) * a, b_again = d.left_l2(b) * b;

  const double align = 16 / std::max(a_bytes, b_bytes);
  const bool misaligned = std::fmod(s.k, align) != 0 || std::fmod(s.n, align) != 0;
  const double slow = (misaligned ? 1 + c.misaligned : 1) * (1 + std::max(0.0, s.n - 4096) / c.wide);
  const double core_peak = peak / cores * c.efficiency / slow, core_l2 = c.l2_rate * d.clock;
  const double dram = d.memory_rate * c.dram_efficiency, l2 = core_l2 * cores;
  const double write_rate = left > 0.5 ? dram : l2;

  Choice best;
  for (const Tile& t : tiles) {
    // A tile twice as large as the product is never taken.
    if ((t.m > 64 && t.m >= 2 * s.m) || (t.n > 64 && t.n >= 2 * s.n)) continue;
    const double rows = blocks(s.m, t.m), columns = blocks(s.n, t.n), count = s.batch * rows * columns;
    const double step = overlapped(2 * t.m * t.n / core_peak, (t.m * a_bytes + t.n * b_bytes) / core_l2);
    const double preferred = std::pow(32768 / (t.m * t.n), c.preference);
    double last = 0;
    for (double wanted = 0; wanted <= most_waves; ++wanted) {
      double split = wanted == 0 ? 1 : std::floor(wanted * cores / count);
      if (split <= last) continue;
      split = std::min(split, std::max(1.0, std::floor(s.k / least_depth)));
      if (split <= last) break;
      last = split;
      const double running = std::min(count * split, cores), waves = blocks(count * split, cores);
      const double depth = blocks(s.k / split, k_step) * k_step + c.depth_fill;
      const double loop = c.tile + step * depth + c.epilogue * t.m * t.n * c_bytes * running / split / write_rate;
      const double compute = waves * loop;
      const double again = read_again(s, t.m, t.n, running / split, {a_again, b_again, c.swizzle});
      const double partial = split > 1 ? count * split * t.m * t.n * 8 : 0;
      const double rate = std::min(dram, running * c.dram_core_rate * d.clock);
      const double memory = std::max((compulsory + again) / rate, (a + b + out + partial) / l2);
      const double seconds = overlapped(compute, memory) + (split > 1 ? c.split : 0);
      if (const double rank = seconds * preferred; rank < best.rank) best = {t, split, waves, compute, memory, seconds, rank};
    }
  }
  const double use = 2 * s.batch * s.m * s.n * s.k / peak / best.seconds;
  const double slower = 1 + c.throttle * std::max(0.0, use - c.throttle_from);

  Kernel k;
  k.overhead = c.call;
  k.compute = best.compute * slower, k.memory = best.memory;
  k.seconds = k.overhead + best.seconds * slower;
  if (explanation) {
    auto add = [&](const char* name, double seconds, std::string why) { explanation->push_back({name, seconds, std::move(why)}); };
    add("launch", k.overhead, "start of a kernel and of its loads");
    const double ideal = 2 * s.batch * s.m * s.n * s.k / peak;
    add("matrix peak", ideal, format_flops(2 * s.batch * s.m * s.n * s.k) + " at " + format_rate(peak, "FLOP"));
    add("tiles", best.compute - ideal, fmt::format("{:g} waves of {:g}×{:g} tiles on {:g} cores{}", best.waves, best.tile.m, best.tile.n,
                                                   cores, best.split > 1 ? fmt::format(", k split in {:g}", best.split) : ""));
    add("memory", best.memory, format_bytes(compulsory) + " from main memory");
    add("not hidden", best.seconds - std::max(best.compute, best.memory), "seams of compute and memory, sums of split k");
    if (slower > 1) add("sustained clock", best.seconds * (slower - 1), "the power limit at " + format_share(use) + " of the peak");
  }
  return k;
}

}  // namespace roofcast
