// Own CUDA kernels, as plain functions: streaming ops that no library has, or has behind more than a call.
#pragma once

#include "measure/task.h"

#include <cuda_runtime.h>

namespace roofcast::cuda {

inline constexpr int most_dims = 6;

// A broadcast op: dims merged, strides of each operand in elements (0: broadcast).
struct PointwiseShape {
  int rank = 0;
  int64_t count = 0;
  int64_t dims[most_dims] = {};
  int64_t strides[3][most_dims] = {};
  bool contiguous = false;             // every operand lies as the output
};

struct PoolingShape {
  int64_t planes = 0;                  // batch × channels
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {};
  bool average = false, count_padding = false;
};

struct PermutationShape {
  int rank = 0;
  int64_t count = 0;
  int64_t dims[most_dims] = {};        // of the output
  int64_t strides[most_dims] = {};     // of the input, in the output's order
};

// Element types: float32, float16, bfloat16; false if the kernel is not made for the type.
bool pointwise(cudaStream_t, DType, const form::Pointwise&, int inputs, const PointwiseShape&, const void* const* in, void* out);
bool pooling(cudaStream_t, DType, const PoolingShape&, const void* in, void* out);
bool reduction(cudaStream_t, DType, form::Reducer, int64_t outer, int64_t line, int64_t inner, const void* in, void* out);
bool softmax(cudaStream_t, DType, bool log, int64_t outer, int64_t line, int64_t inner, const void* in, void* out);
bool normalization(cudaStream_t, DType, form::Normalizer, float epsilon, int64_t rows, int64_t line, const void* in, const void* scale, const void* bias, void* out);
bool batch_normalization(cudaStream_t, DType, float epsilon, int64_t count, int64_t channels, int64_t plane, const void* const* in, void* out);
// By element size in bytes: 1, 2, 4 or 8.
bool permutation(cudaStream_t, int element_bytes, const PermutationShape&, const void* in, void* out);
bool lookup(cudaStream_t, int64_t outer, int64_t rows, int64_t taken, int64_t row_bytes, bool wide_indices, const void* in, const void* indices, void* out);

}  // namespace roofcast::cuda
