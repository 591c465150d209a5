#include "measure/cuda/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

namespace roofcast::cuda {
namespace {

constexpr int threads = 256;
constexpr int64_t most_blocks = 1 << 20;  // grids loop over what is more

unsigned blocks_for(int64_t count, int per_block = threads) {
  return static_cast<unsigned>(std::clamp<int64_t>((count + per_block - 1) / per_block, 1, most_blocks));
}

template <class T> __device__ float to_float(T v) { return static_cast<float>(v); }
template <class T> __device__ T from_float(float v) { return static_cast<T>(v); }

// Calls f with a value of the element type.
template <class F> bool for_type(DType type, F&& f) {
  switch (type) {
  case DType::float32: f(float()); return true;
  case DType::float16: f(__half()); return true;
  case DType::bfloat16: f(__nv_bfloat16()); return true;
  default: return false;
  }
}

template <form::Function function> __device__ float apply(float x, float y, float alpha, float beta) {
  using F = form::Function;
  if constexpr (function == F::abs) return fabsf(x);
  if constexpr (function == F::add) return x + y;
  if constexpr (function == F::ceil) return ceilf(x);
  if constexpr (function == F::clip) return fminf(fmaxf(x, alpha), beta);
  if constexpr (function == F::cos) return cosf(x);
  if constexpr (function == F::divide) return x / y;
  if constexpr (function == F::elu) return x > 0 ? x : alpha * expm1f(x);
  if constexpr (function == F::erf) return erff(x);
  if constexpr (function == F::exp) return expf(x);
  if constexpr (function == F::floor) return floorf(x);
  if constexpr (function == F::gelu) return 0.5f * x * (1 + erff(x * 0.70710678f));
  if constexpr (function == F::gelu_tanh) return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
  if constexpr (function == F::hard_sigmoid) return fminf(fmaxf(alpha * x + beta, 0.0f), 1.0f);
  if constexpr (function == F::hard_swish) return x * fminf(fmaxf(x / 6 + 0.5f, 0.0f), 1.0f);
  if constexpr (function == F::leaky_relu) return x > 0 ? x : alpha * x;
  if constexpr (function == F::log) return logf(x);
  if constexpr (function == F::max) return fmaxf(x, y);
  if constexpr (function == F::min) return fminf(x, y);
  if constexpr (function == F::multiply) return x * y;
  if constexpr (function == F::negate) return -x;
  if constexpr (function == F::power) return powf(x, y);
  if constexpr (function == F::reciprocal) return 1 / x;
  if constexpr (function == F::relu) return fmaxf(x, 0.0f);
  if constexpr (function == F::round) return rintf(x);
  if constexpr (function == F::sigmoid) return 1 / (1 + expf(-x));
  if constexpr (function == F::sign) return static_cast<float>((x > 0) - (x < 0));
  if constexpr (function == F::silu) return x / (1 + expf(-x));
  if constexpr (function == F::sin) return sinf(x);
  if constexpr (function == F::softplus) return log1pf(expf(x));
  if constexpr (function == F::sqrt) return sqrtf(x);
  if constexpr (function == F::subtract) return x - y;
  if constexpr (function == F::tanh) return tanhf(x);
  return x;
}

// Sixteen bytes at a time where every operand lies as the output.
template <class T> struct alignas(16) Pack {
  static constexpr int size = 16 / sizeof(T);
  T at[size];
};

template <class T, form::Function function, int inputs>
__global__ void contiguous_kernel(int64_t packs, int64_t count, const T* a, const T* b, T* out, float alpha, float beta) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < packs; i += step) {
    const Pack<T> x = reinterpret_cast<const Pack<T>*>(a)[i];
    Pack<T> y{}, result;
    if constexpr (inputs == 2) y = reinterpret_cast<const Pack<T>*>(b)[i];
#pragma unroll
    for (int j = 0; j < Pack<T>::size; ++j) result.at[j] = from_float<T>(apply<function>(to_float(x.at[j]), to_float(y.at[j]), alpha, beta));
    reinterpret_cast<Pack<T>*>(out)[i] = result;
  }
  for (int64_t i = packs * Pack<T>::size + static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    out[i] = from_float<T>(apply<function>(to_float(a[i]), inputs == 2 ? to_float(b[i]) : 0.0f, alpha, beta));
}

__device__ void offsets_of(const PointwiseShape& s, int64_t i, int64_t (&at)[3]) {
  at[0] = at[1] = at[2] = 0;
  for (int d = s.rank - 1; d >= 0; --d) {
    const int64_t index = i % s.dims[d];
    i /= s.dims[d];
    for (int k = 0; k < 3; ++k) at[k] += index * s.strides[k][d];
  }
}

template <class T, form::Function function, int inputs>
__global__ void broadcast_kernel(PointwiseShape s, const T* a, const T* b, T* out, float alpha, float beta) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < s.count; i += step) {
    int64_t at[3];
    offsets_of(s, i, at);
    out[i] = from_float<T>(apply<function>(to_float(a[at[0]]), inputs == 2 ? to_float(b[at[1]]) : 0.0f, alpha, beta));
  }
}

template <class T> __global__ void where_kernel(PointwiseShape s, const bool* condition, const T* a, const T* b, T* out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < s.count; i += step) {
    int64_t at[3];
    offsets_of(s, i, at);
    out[i] = condition[at[0]] ? a[at[1]] : b[at[2]];
  }
}

template <class T, form::Function function, int inputs>
void launch_pointwise(cudaStream_t stream, const form::Pointwise& p, const PointwiseShape& s, const void* const* in, void* out) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = inputs == 2 ? static_cast<const T*>(in[1]) : nullptr;
  const float alpha = static_cast<float>(p.alpha), beta = static_cast<float>(p.beta);
  if (s.contiguous)
    contiguous_kernel<T, function, inputs><<<blocks_for(s.count / Pack<T>::size), threads, 0, stream>>>(s.count / Pack<T>::size, s.count, a, b, static_cast<T*>(out), alpha, beta);
  else
    broadcast_kernel<T, function, inputs><<<blocks_for(s.count), threads, 0, stream>>>(s, a, b, static_cast<T*>(out), alpha, beta);
}

// One table of what there is; the function is a constant inside each kernel.
template <class T> bool dispatch_pointwise(cudaStream_t stream, const form::Pointwise& p, int inputs, const PointwiseShape& s, const void* const* in, void* out) {
  using F = form::Function;
  using Launch = void (*)(cudaStream_t, const form::Pointwise&, const PointwiseShape&, const void* const*, void*);
  struct Row {
    F function;
    int inputs;
    Launch launch;
  };
#define ROOFCAST_UNARY(f) {F::f, 1, launch_pointwise<T, F::f, 1>}
#define ROOFCAST_BINARY(f) {F::f, 2, launch_pointwise<T, F::f, 2>}
  static const Row rows[] = {
      ROOFCAST_UNARY(abs), ROOFCAST_UNARY(ceil), ROOFCAST_UNARY(clip), ROOFCAST_UNARY(cos), ROOFCAST_UNARY(elu), ROOFCAST_UNARY(erf), ROOFCAST_UNARY(exp),
      ROOFCAST_UNARY(floor), ROOFCAST_UNARY(gelu), ROOFCAST_UNARY(gelu_tanh), ROOFCAST_UNARY(hard_sigmoid), ROOFCAST_UNARY(hard_swish),
      ROOFCAST_UNARY(leaky_relu), ROOFCAST_UNARY(log), ROOFCAST_UNARY(negate), ROOFCAST_UNARY(reciprocal), ROOFCAST_UNARY(relu), ROOFCAST_UNARY(round),
      ROOFCAST_UNARY(sigmoid), ROOFCAST_UNARY(sign), ROOFCAST_UNARY(silu), ROOFCAST_UNARY(sin), ROOFCAST_UNARY(softplus), ROOFCAST_UNARY(sqrt),
      ROOFCAST_UNARY(tanh), ROOFCAST_BINARY(add), ROOFCAST_BINARY(divide), ROOFCAST_BINARY(max), ROOFCAST_BINARY(min), ROOFCAST_BINARY(multiply),
      ROOFCAST_BINARY(power), ROOFCAST_BINARY(subtract)};
#undef ROOFCAST_UNARY
#undef ROOFCAST_BINARY
  for (const Row& row : rows)
    if (row.function == p.function && row.inputs == inputs) {
      row.launch(stream, p, s, in, out);
      return true;
    }
  return false;
}

template <class T> __global__ void pooling_kernel(PoolingShape s, const T* in, T* out) {
  const int64_t per_plane = s.out[0] * s.out[1] * s.out[2], count = s.planes * per_plane;
  const int64_t in_plane = s.in[0] * s.in[1] * s.in[2];
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const T* plane = in + i / per_plane * in_plane;
    const int64_t z = i / (s.out[1] * s.out[2]) % s.out[0], y = i / s.out[2] % s.out[1], x = i % s.out[2];
    float sum = 0, most = -3.4e38f;
    int64_t inside = 0;
    for (int64_t a = 0; a < s.kernel[0]; ++a) {
      const int64_t at_z = z * s.stride[0] + a * s.dilation[0] - s.pad[0];
      if (at_z < 0 || at_z >= s.in[0]) continue;
      for (int64_t b = 0; b < s.kernel[1]; ++b) {
        const int64_t at_y = y * s.stride[1] + b * s.dilation[1] - s.pad[1];
        if (at_y < 0 || at_y >= s.in[1]) continue;
        for (int64_t c = 0; c < s.kernel[2]; ++c) {
          const int64_t at_x = x * s.stride[2] + c * s.dilation[2] - s.pad[2];
          if (at_x < 0 || at_x >= s.in[2]) continue;
          const float v = to_float(plane[(at_z * s.in[1] + at_y) * s.in[2] + at_x]);
          sum += v, most = fmaxf(most, v), ++inside;
        }
      }
    }
    const int64_t all = s.kernel[0] * s.kernel[1] * s.kernel[2];
    out[i] = from_float<T>(s.average ? sum / static_cast<float>(s.count_padding || inside == 0 ? all : inside) : most);
  }
}

enum class Combine { sum, max, min };
template <Combine combine> __device__ float join(float a, float b) {
  if constexpr (combine == Combine::sum) return a + b;
  return combine == Combine::max ? fmaxf(a, b) : fminf(a, b);
}
template <Combine combine> __device__ float neutral() { return combine == Combine::sum ? 0.0f : combine == Combine::max ? -3.4e38f : 3.4e38f; }

// The same value in every thread of the block.
template <Combine combine> __device__ float join_block(float v) {
  __shared__ float parts[32];
  for (int step = 16; step > 0; step /= 2) v = join<combine>(v, __shfl_xor_sync(0xFFFFFFFF, v, step));
  __syncthreads();  // a call before this one may still read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : neutral<combine>();
  for (int step = 16; step > 0; step /= 2) v = join<combine>(v, __shfl_xor_sync(0xFFFFFFFF, v, step));
  return v;
}

// A block a line where elements of a line are neighbours, else a thread a line.
template <class T, Combine combine> __global__ void reduce_rows(int64_t rows, int64_t line, float factor, const T* in, T* out) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    float v = neutral<combine>();
    for (int64_t i = threadIdx.x; i < line; i += blockDim.x) v = join<combine>(v, to_float(in[row * line + i]));
    v = join_block<combine>(v);
    if (threadIdx.x == 0) out[row] = from_float<T>(v * factor);
  }
}
template <class T, Combine combine> __global__ void reduce_columns(int64_t outer, int64_t line, int64_t inner, float factor, const T* in, T* out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < outer * inner; i += step) {
    const T* column = in + i / inner * line * inner + i % inner;
    float v = neutral<combine>();
    for (int64_t j = 0; j < line; ++j) v = join<combine>(v, to_float(column[j * inner]));
    out[i] = from_float<T>(v * factor);
  }
}
template <class T, Combine combine> void launch_reduction(cudaStream_t stream, int64_t outer, int64_t line, int64_t inner, float factor, const void* in, void* out) {
  if (inner == 1) reduce_rows<T, combine><<<blocks_for(outer, 1), threads, 0, stream>>>(outer, line, factor, static_cast<const T*>(in), static_cast<T*>(out));
  else reduce_columns<T, combine><<<blocks_for(outer * inner), threads, 0, stream>>>(outer, line, inner, factor, static_cast<const T*>(in), static_cast<T*>(out));
}

template <class T> __global__ void softmax_kernel(int64_t lines, int64_t line, int64_t inner, bool log, const T* in, T* out) {
  for (int64_t l = blockIdx.x; l < lines; l += gridDim.x) {
    const int64_t start = l / inner * line * inner + l % inner;
    float most = -3.4e38f, sum = 0;
    for (int64_t i = threadIdx.x; i < line; i += blockDim.x) most = fmaxf(most, to_float(in[start + i * inner]));
    most = join_block<Combine::max>(most);
    for (int64_t i = threadIdx.x; i < line; i += blockDim.x) sum += expf(to_float(in[start + i * inner]) - most);
    sum = join_block<Combine::sum>(sum);
    const float shift = logf(sum);
    for (int64_t i = threadIdx.x; i < line; i += blockDim.x) {
      const float v = to_float(in[start + i * inner]) - most;
      out[start + i * inner] = from_float<T>(log ? v - shift : expf(v) / sum);
    }
  }
}

template <class T> __global__ void normalization_kernel(int64_t rows, int64_t line, bool centered, float epsilon, const T* in, const T* scale, const T* bias, T* out) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* x = in + row * line;
    float mean = 0, square = 0;
    if (centered) {
      for (int64_t i = threadIdx.x; i < line; i += blockDim.x) mean += to_float(x[i]);
      mean = join_block<Combine::sum>(mean) / static_cast<float>(line);
    }
    for (int64_t i = threadIdx.x; i < line; i += blockDim.x) square += (to_float(x[i]) - mean) * (to_float(x[i]) - mean);
    const float factor = rsqrtf(join_block<Combine::sum>(square) / static_cast<float>(line) + epsilon);
    for (int64_t i = threadIdx.x; i < line; i += blockDim.x) {
      float v = (to_float(x[i]) - mean) * factor;
      if (scale) v *= to_float(scale[i]);
      if (bias) v += to_float(bias[i]);
      out[row * line + i] = from_float<T>(v);
    }
  }
}

template <class T>
__global__ void batch_normalization_kernel(int64_t count, int64_t channels, int64_t plane, float epsilon, const T* in, const T* scale, const T* bias, const T* mean,
                                           const T* variance, T* out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const int64_t c = i / plane % channels;
    out[i] = from_float<T>((to_float(in[i]) - to_float(mean[c])) * rsqrtf(to_float(variance[c]) + epsilon) * to_float(scale[c]) + to_float(bias[c]));
  }
}

template <class T> __global__ void permutation_kernel(PermutationShape s, const T* in, T* out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < s.count; i += step) {
    int64_t rest = i, at = 0;
    for (int d = s.rank - 1; d >= 0; --d) at += rest % s.dims[d] * s.strides[d], rest /= s.dims[d];
    out[i] = in[at];
  }
}

// Tiles through shared memory where the innermost dims change places: both sides move whole rows.
template <class T> __global__ void transpose_kernel(int64_t rows, int64_t columns, const T* in, T* out) {
  constexpr int tile = 32;
  __shared__ T part[tile][tile + 1];  // one more column: no two rows start in the same bank
  const int64_t plane = static_cast<int64_t>(blockIdx.z) * rows * columns;
  const int64_t x = static_cast<int64_t>(blockIdx.x) * tile, y = static_cast<int64_t>(blockIdx.y) * tile;
  for (int i = threadIdx.y; i < tile; i += blockDim.y)
    if (y + i < rows && x + threadIdx.x < columns) part[i][threadIdx.x] = in[plane + (y + i) * columns + x + threadIdx.x];
  __syncthreads();
  for (int i = threadIdx.y; i < tile; i += blockDim.y)
    if (x + i < columns && y + threadIdx.x < rows) out[plane + (x + i) * rows + y + threadIdx.x] = part[threadIdx.x][i];
}

template <class T> void launch_permutation(cudaStream_t stream, const PermutationShape& s, const void* in, void* out) {
  // [planes, columns, rows] of [planes, rows, columns]
  const int64_t rows = s.rank >= 2 ? s.dims[s.rank - 1] : 0, columns = s.rank >= 2 ? s.dims[s.rank - 2] : 0;
  const int64_t planes = s.rank == 3 ? s.dims[0] : 1;
  const bool plain = (s.rank == 2 || (s.rank == 3 && s.strides[0] == rows * columns)) && s.strides[s.rank - 1] == columns && s.strides[s.rank - 2] == 1;
  const int64_t grid_y = (rows + 31) / 32;
  if (plain && planes <= 65535 && grid_y <= 65535) {
    const dim3 grid(static_cast<unsigned>((columns + 31) / 32), static_cast<unsigned>(grid_y), static_cast<unsigned>(planes));
    transpose_kernel<T><<<grid, dim3(32, 8), 0, stream>>>(rows, columns, static_cast<const T*>(in), static_cast<T*>(out));
    return;
  }
  permutation_kernel<T><<<blocks_for(s.count), threads, 0, stream>>>(s, static_cast<const T*>(in), static_cast<T*>(out));
}

// `Piece` is the widest type that divides a row.
template <class Piece, class Index>
__global__ void lookup_kernel(int64_t count, int64_t rows, int64_t taken, int64_t pieces, const Piece* in, const Index* indices, Piece* out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count * pieces; i += step) {
    const int64_t row = i / pieces;
    int64_t chosen = static_cast<int64_t>(indices[row % taken]);
    if (chosen < 0) chosen += rows;
    out[i] = in[(row / taken * rows + chosen) * pieces + i % pieces];
  }
}
template <class Piece>
void launch_lookup(cudaStream_t stream, int64_t outer, int64_t rows, int64_t taken, int64_t row_bytes, bool wide, const void* in, const void* indices, void* out) {
  const int64_t pieces = row_bytes / static_cast<int64_t>(sizeof(Piece)), count = outer * taken;
  const unsigned blocks = blocks_for(count * pieces);
  if (wide)
    lookup_kernel<Piece, int64_t><<<blocks, threads, 0, stream>>>(count, rows, taken, pieces, static_cast<const Piece*>(in), static_cast<const int64_t*>(indices), static_cast<Piece*>(out));
  else
    lookup_kernel<Piece, int32_t><<<blocks, threads, 0, stream>>>(count, rows, taken, pieces, static_cast<const Piece*>(in), static_cast<const int32_t*>(indices), static_cast<Piece*>(out));
}

}  // namespace

bool pointwise(cudaStream_t stream, DType type, const form::Pointwise& p, int inputs, const PointwiseShape& s, const void* const* in, void* out) {
  bool found = false;
  const bool known = for_type(type, [&]<class T>(T) {
    if (p.function == form::Function::where) {
      where_kernel<T><<<blocks_for(s.count), threads, 0, stream>>>(s, static_cast<const bool*>(in[0]), static_cast<const T*>(in[1]), static_cast<const T*>(in[2]), static_cast<T*>(out));
      found = true;
    } else {
      found = dispatch_pointwise<T>(stream, p, inputs, s, in, out);
    }
  });
  return known && found;
}

bool pooling(cudaStream_t stream, DType type, const PoolingShape& s, const void* in, void* out) {
  return for_type(type, [&]<class T>(T) {
    pooling_kernel<T><<<blocks_for(s.planes * s.out[0] * s.out[1] * s.out[2]), threads, 0, stream>>>(s, static_cast<const T*>(in), static_cast<T*>(out));
  });
}

bool reduction(cudaStream_t stream, DType type, form::Reducer reducer, int64_t outer, int64_t line, int64_t inner, const void* in, void* out) {
  const float factor = reducer == form::Reducer::mean ? 1.0f / static_cast<float>(line) : 1.0f;
  return for_type(type, [&]<class T>(T) {
    if (reducer == form::Reducer::max) launch_reduction<T, Combine::max>(stream, outer, line, inner, factor, in, out);
    else if (reducer == form::Reducer::min) launch_reduction<T, Combine::min>(stream, outer, line, inner, factor, in, out);
    else launch_reduction<T, Combine::sum>(stream, outer, line, inner, factor, in, out);
  });
}

bool softmax(cudaStream_t stream, DType type, bool log, int64_t outer, int64_t line, int64_t inner, const void* in, void* out) {
  return for_type(type, [&]<class T>(T) {
    softmax_kernel<T><<<blocks_for(outer * inner, 1), threads, 0, stream>>>(outer * inner, line, inner, log, static_cast<const T*>(in), static_cast<T*>(out));
  });
}

bool normalization(cudaStream_t stream, DType type, form::Normalizer normalizer, float epsilon, int64_t rows, int64_t line, const void* in, const void* scale,
                   const void* bias, void* out) {
  return for_type(type, [&]<class T>(T) {
    normalization_kernel<T><<<blocks_for(rows, 1), threads, 0, stream>>>(rows, line, normalizer == form::Normalizer::layer, epsilon, static_cast<const T*>(in),
                                                                         static_cast<const T*>(scale), static_cast<const T*>(bias), static_cast<T*>(out));
  });
}

bool batch_normalization(cudaStream_t stream, DType type, float epsilon, int64_t count, int64_t channels, int64_t plane, const void* const* in, void* out) {
  return for_type(type, [&]<class T>(T) {
    batch_normalization_kernel<T><<<blocks_for(count), threads, 0, stream>>>(count, channels, plane, epsilon, static_cast<const T*>(in[0]), static_cast<const T*>(in[1]),
                                                                             static_cast<const T*>(in[2]), static_cast<const T*>(in[3]), static_cast<const T*>(in[4]), static_cast<T*>(out));
  });
}

bool permutation(cudaStream_t stream, int element_bytes, const PermutationShape& s, const void* in, void* out) {
  switch (element_bytes) {
  case 1: launch_permutation<uint8_t>(stream, s, in, out); return true;
  case 2: launch_permutation<uint16_t>(stream, s, in, out); return true;
  case 4: launch_permutation<uint32_t>(stream, s, in, out); return true;
  case 8: launch_permutation<uint64_t>(stream, s, in, out); return true;
  default: return false;
  }
}

bool lookup(cudaStream_t stream, int64_t outer, int64_t rows, int64_t taken, int64_t row_bytes, bool wide_indices, const void* in, const void* indices, void* out) {
  if (row_bytes % 16 == 0) launch_lookup<uint4>(stream, outer, rows, taken, row_bytes, wide_indices, in, indices, out);
  else if (row_bytes % 4 == 0) launch_lookup<uint32_t>(stream, outer, rows, taken, row_bytes, wide_indices, in, indices, out);
  else launch_lookup<uint8_t>(stream, outer, rows, taken, row_bytes, wide_indices, in, indices, out);
  return true;
}

}  // namespace roofcast::cuda
