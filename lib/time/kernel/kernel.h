// The kernel model: how long one kernel takes on a GPU, from its shape alone.
//
//   const KernelDevice device(hardware);                 // figures and constants by name, once
//   Kernel k = gemm_time({.m = 4096, .n = 4096, .k = 4096}, device);
//   k.seconds                                            // launch + the work of its waves of tiles
//
// A kernel is described by plain numbers, so that problems of models, rows of measured tables and fused
// groups all take one road: Problem → shape (lower.cpp) → time. One file a kind of kernel; formulas and
// their sources are in docs/time-model.md.
#pragma once

#include "hw/kernel_constants.h"
#include "time/time.h"

#include <algorithm>
#include <cmath>

namespace roofcast {

// What the model knows of a device, resolved once. Rates are 0 where the hardware lacks the figure.
struct KernelDevice {
  KernelDevice() = default;
  explicit KernelDevice(const Hardware& hardware);

  static constexpr int types = static_cast<int>(MathType::int4) + 1;
  double matrix_peak[types] = {}, vector_peak[types] = {};  // FLOP/s by MathType, as matrix_rate and vector_rate give
  bool matrix_unit[types] = {};                             // whether there is a matrix unit for it
  double memory_rate = 0;                                   // bytes/s of the main memory
  double l2_bytes = 1, cores = 1, clock = 1e9;
  bool known = false;                                       // the hardware has constants of this model
  KernelConstants c;

  double matrix(MathType t) const { return matrix_peak[static_cast<int>(t)]; }
  double vector(MathType t) const { return vector_peak[static_cast<int>(t)]; }
  bool has_unit(MathType t) const { return matrix_unit[static_cast<int>(t)]; }

  // Share of a working set of so many bytes that has left L2 before it is used again; of kernels that pass once.
  double left_l2(double bytes) const { return left(bytes, c.l2_kept_from, c.l2_kept_to); }
  double left_stream(double bytes) const { return left(bytes, c.stream_kept_from, c.stream_kept_to); }
  double left(double bytes, double from, double to) const {
    return std::min(1.0, std::max(0.0, (bytes / l2_bytes - from) / std::max(1e-3, to - from)));
  }
};

// The longer of two that overlap, but for what is not hidden at their seams: the 4-norm.
inline double overlapped(double a, double b) {
  const double a2 = a * a, b2 = b * b;
  return std::sqrt(std::sqrt(a2 * a2 + b2 * b2));
}

inline double blocks(double size, double block) { return std::ceil(size / block); }

// How long a kernel takes, and its parts, were each alone.
struct Kernel {
  double seconds = 0;
  double compute = 0, memory = 0, overhead = 0;
};

// C[b, m, n] = A[b, m, k] × B[b, k, n]
struct GemmShape {
  double batch = 1, m = 1, n = 1, k = 1;
  MathType math = MathType::bf16;
  double a_bits = 16, b_bits = 16, c_bits = 16;
  int32_t cycle = 0;   // copies of B that repeated runs cycle through; 0: B comes from main memory
};

struct ConvShape {
  enum class Direction : uint8_t { forward, data, weight };
  Direction direction = Direction::forward;
  double batch = 1, groups = 1, channels = 1, filters = 1;  // channels and filters of one group
  double image_points = 1, out_points = 1, taps = 1;        // products over the spatial dims
  double twos = 1, fours = 1;                               // squares of 2×2 and of 4×4 that cover the result
  bool three_by_three = false;
  MathType math = MathType::fp32;
  double bits = 32;
};

struct AttentionShape {
  double batch = 1, kv_heads = 1, group = 1, queries = 1, keys = 1, head = 64, value_head = 64;
  double flops = 0;              // of both products, those under the mask left out
  double kv_bytes = 0;           // read of keys and values
  double append_bytes = 0;       // written to their caches
  MathType math = MathType::bf16;
  double bits = 16, kv_bits = 16;
  bool causal = false, windowed = false;
};

// A kernel that passes over its operands once: pointwise, reduction, normalization, movement, lookup, …
struct StreamShape {
  Kind kind = Kind::pointwise;
  double rows = 1, cols = 1;     // cols: the line that a reduction, softmax or normalization runs along
  double bytes_read = 0, bytes_written = 0, flops = 0;
  MathType math = MathType::fp32;
  bool gated = false;            // an activation times a second operand, as in SwiGLU
  bool narrows = false;          // writes 8 bits of what it reads in more: quantises a row of activations
};

Kernel gemm_time(const GemmShape& shape, const KernelDevice& device, Explanation* explanation = nullptr);
// Bytes of A and B that tiles of t_m × t_n, so many running at a time, read again along the better side.
struct Panels {
  double a, b;       // bytes of A and B that L2 does not keep
  double swizzle;    // elements of a side that tiles running together cover, at least
};
double read_again(const GemmShape& shape, double t_m, double t_n, double running, const Panels& panels);
// Tiles of a product whose operands are `bytes` in all, `slow` times as long as the constants say.
Kernel tiled_time(const GemmShape& shape, double bytes, double slow, const LaneGemmConstants& constants, const KernelDevice& device,
                  Explanation* explanation = nullptr);
// Where no matrix unit takes the type: gemm_time calls it.
Kernel lane_gemm_time(const GemmShape& shape, const KernelDevice& device, Explanation* explanation = nullptr);
Kernel convolution_time(const ConvShape& shape, const KernelDevice& device, Explanation* explanation = nullptr);
Kernel attention_time(const AttentionShape& shape, const KernelDevice& device, Explanation* explanation = nullptr);
Kernel stream_time(const StreamShape& shape, const KernelDevice& device, Explanation* explanation = nullptr);

// The shape of a problem's kernel, and its time.
Kernel kernel_time(const Problem& problem, const KernelDevice& device, Explanation* explanation = nullptr);

// The shapes that problems have; their kinds are the shapes'.
GemmShape gemm_shape(const Problem& problem);
ConvShape convolution_shape(const Problem& problem);
AttentionShape attention_shape(const Problem& problem);
StreamShape stream_shape(const Problem& problem);

}  // namespace roofcast
