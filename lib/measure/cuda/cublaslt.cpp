// Products by cuBLASLt: the fastest of the algorithms that its heuristics offer.
#include "measure/cuda/libraries.h"

#include <cublasLt.h>

#include <algorithm>
#include <memory>

namespace roofcast::cuda {
namespace {

std::optional<cudaDataType> data_type(DType type) {
  switch (type) {
  case DType::float32: return CUDA_R_32F;
  case DType::float16: return CUDA_R_16F;
  case DType::bfloat16: return CUDA_R_16BF;
  case DType::float64: return CUDA_R_64F;
  case DType::int8: return CUDA_R_8I;
  case DType::int32: return CUDA_R_32I;
  case DType::float8e4m3fn: return CUDA_R_8F_E4M3;
  case DType::float8e5m2: return CUDA_R_8F_E5M2;
  default: return std::nullopt;
  }
}

template <auto destroy> struct Destroy {
  template <class T> void operator()(T* p) const { destroy(p); }
};
using Desc = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy<cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy<cublasLtMatrixLayoutDestroy>>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy<cublasLtMatmulPreferenceDestroy>>;

cublasLtHandle_t handle() {
  static const cublasLtHandle_t only = [] {
    cublasLtHandle_t made = nullptr;
    return cublasLtCreate(&made) == CUBLAS_STATUS_SUCCESS ? made : nullptr;
  }();
  return only;
}

// A row-major matrix is its transpose, column by column, which is how cuBLAS counts.
Layout layout(cudaDataType type, int64_t rows, int64_t columns, int64_t batch, int64_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  if (cublasLtMatrixLayoutCreate(&made, type, static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), columns) != CUBLAS_STATUS_SUCCESS) return nullptr;
  const int32_t count = static_cast<int32_t>(batch);
  cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  return Layout(made);
}

struct Plan {
  Desc desc;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes = 0;
};

}  // namespace

Launch plan_product(const DeviceTable& device, cudaStream_t stream, const Task& task, const std::vector<void*>& in, void* out, std::vector<DeviceBuffer>& memory) {
  const form::Product& p = std::get<form::Product>(task.form);
  std::vector<int64_t> a = task.inputs[0].dims, b = task.inputs[1].dims, y = task.outputs[0].dims;
  const auto type_a = data_type(task.inputs[0].dtype), type_b = data_type(task.inputs[1].dtype), type_y = data_type(task.outputs[0].dtype);
  if (!handle() || !type_a || !type_b || !type_y || a.size() < 2 || b.size() < 2) return {};
  // One B for all batches: their rows are rows of one product.
  if (b.size() == 2 && a.size() > 2 && !p.transpose_a) {
    const int64_t rows = task.inputs[0].elements() / std::max<int64_t>(1, a.back());
    a = {rows, a.back()}, y = {rows, y.back()};
  }
  auto batch_of = [](const std::vector<int64_t>& dims) {
    int64_t n = 1;
    for (size_t i = 0; i + 2 < dims.size(); ++i) n *= dims[i];
    return n;
  };
  const int64_t batch = batch_of(y);
  // Either side's matrices are one a batch, or one for all.
  for (const auto& dims : {a, b})
    if (batch_of(dims) != batch && batch_of(dims) != 1) return {};
  const int64_t rows = y[y.size() - 2], columns = y.back();
  auto stride_of = [&](const std::vector<int64_t>& dims) { return batch_of(dims) == 1 ? 0 : dims[dims.size() - 1] * dims[dims.size() - 2]; };

  const bool integer = *type_y == CUDA_R_32I, wide = *type_y == CUDA_R_64F;
  const bool fp8 = *type_a == CUDA_R_8F_E4M3 || *type_a == CUDA_R_8F_E5M2;
  const cublasComputeType_t compute = integer ? CUBLAS_COMPUTE_32I : wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
  const cudaDataType scale = integer ? CUDA_R_32I : wide ? CUDA_R_64F : CUDA_R_32F;
  auto plan = std::make_shared<Plan>();
  cublasLtMatmulDesc_t desc = nullptr;
  if (cublasLtMatmulDescCreate(&desc, compute, scale) != CUBLAS_STATUS_SUCCESS) return {};
  plan->desc.reset(desc);
  // Transposed, the product is Bᵀ·Aᵀ: B comes first.
  const cublasOperation_t first = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, second = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
  if (task.inputs.size() > 2) {
    if (p.beta != 1 || task.inputs[2].elements() != columns) return {};
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &in[2], sizeof in[2]);
  }
  if (fp8) {
    const int8_t fast = 1;
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
  }
  plan->a = layout(*type_b, b[b.size() - 2], b.back(), batch, stride_of(b));
  plan->b = layout(*type_a, a[a.size() - 2], a.back(), batch, stride_of(a));
  plan->c = layout(*type_y, rows, columns, batch, rows * columns);
  if (!plan->a || !plan->b || !plan->c) return {};

  constexpr size_t workspace = size_t{64} << 20;
  memory.emplace_back(device, workspace);
  void* const scratch = memory.back().data();
  cublasLtMatmulPreference_t made = nullptr;
  if (cublasLtMatmulPreferenceCreate(&made) != CUBLAS_STATUS_SUCCESS) return {};
  const Preference preference(made);
  cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
  constexpr int offered = 8;
  cublasLtMatmulHeuristicResult_t results[offered];
  int found = 0;
  if (cublasLtMatmulAlgoGetHeuristic(handle(), desc, plan->a.get(), plan->b.get(), plan->c.get(), plan->c.get(), made, offered, results, &found) != CUBLAS_STATUS_SUCCESS) return {};

  const double alpha = p.alpha;
  auto launch = [=, first_operand = in[1], second_operand = in[0]](const cublasLtMatmulAlgo_t& algorithm) {
    const float one_f = static_cast<float>(alpha), zero_f = 0;
    const double one_d = alpha, zero_d = 0;
    const int32_t one_i = 1, zero_i = 0;
    const void* const one = integer ? static_cast<const void*>(&one_i) : wide ? static_cast<const void*>(&one_d) : &one_f;
    const void* const zero = integer ? static_cast<const void*>(&zero_i) : wide ? static_cast<const void*>(&zero_d) : &zero_f;
    return cublasLtMatmul(handle(), plan->desc.get(), one, first_operand, plan->a.get(), second_operand, plan->b.get(), zero, out, plan->c.get(), out, plan->c.get(), &algorithm, scratch,
                          workspace, stream);
  };
  double least = 0;
  bool any = false;
  for (int i = 0; i < found; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS || launch(results[i].algo) != CUBLAS_STATUS_SUCCESS) continue;
    constexpr int repeats = 5;
    const double seconds = device.elapsed([&] {
      for (int r = 0; r < repeats; ++r) launch(results[i].algo);
    });
    if (!any || seconds < least) least = seconds, plan->algorithm = results[i].algo, any = true;
  }
  if (!any) return {};
  return [launch, plan] { launch(plan->algorithm); };
}

}  // namespace roofcast::cuda
