// Convolutions by cuDNN's graph API, through its backend descriptors: convolution, and a bias if there is one.
#include "measure/cuda/libraries.h"

#include <cudnn_graph.h>
#include <cudnn_ops.h>

#include <algorithm>
#include <memory>

namespace roofcast::cuda {
namespace {

cudnnHandle_t handle() {
  static const cudnnHandle_t only = [] {
    cudnnHandle_t made = nullptr;
    return cudnnCreate(&made) == CUDNN_STATUS_SUCCESS ? made : nullptr;
  }();
  return only;
}

// A backend descriptor; any failing call makes it bad, which is asked once at the end.
class Descriptor {
public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) { good_ = cudnnBackendCreateDescriptor(type, &raw_) == CUDNN_STATUS_SUCCESS; }
  ~Descriptor() {
    if (raw_) cudnnBackendDestroyDescriptor(raw_);
  }
  Descriptor(const Descriptor&) = delete;

  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values) {
    good_ = good_ && cudnnBackendSetAttribute(raw_, name, type, count, values) == CUDNN_STATUS_SUCCESS;
    return *this;
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& other) { return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.raw_); }
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
    return set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, int64_t value) { return set(name, CUDNN_TYPE_INT64, 1, &value); }
  Descriptor& finish() {
    good_ = good_ && cudnnBackendFinalize(raw_) == CUDNN_STATUS_SUCCESS;
    return *this;
  }
  bool good() const { return good_; }
  cudnnBackendDescriptor_t raw() const { return raw_; }

private:
  cudnnBackendDescriptor_t raw_ = nullptr;
  bool good_ = false;
};
using Shared = std::shared_ptr<Descriptor>;
Shared make(cudnnBackendDescriptorType_t type) { return std::make_shared<Descriptor>(type); }

std::optional<cudnnDataType_t> data_type(DType type) {
  switch (type) {
  case DType::float32: return CUDNN_DATA_FLOAT;
  case DType::float16: return CUDNN_DATA_HALF;
  case DType::bfloat16: return CUDNN_DATA_BFLOAT16;
  default: return std::nullopt;
  }
}

// Channels are neighbours, then the spatial dims from the last one on, then the batch.
std::vector<int64_t> channels_last(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  strides[1] = 1;
  int64_t stride = dims[1];
  for (size_t i = dims.size(); i-- > 2;) strides[i] = stride, stride *= dims[i];
  strides[0] = stride;
  return strides;
}

Shared tensor(int64_t id, cudnnDataType_t type, std::vector<int64_t> dims, bool is_virtual = false) {
  Shared t = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t->set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id).set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  t->set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16}).set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims).set(CUDNN_ATTR_TENSOR_STRIDES, channels_last(dims));
  t->set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  t->finish();
  return t;
}

// Tensor cores take fp32 only rounded to TF32, which is another op.
bool uses_tensor_cores(const Descriptor& config) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.raw();
  int64_t count = 0;
  if (cudnnBackendGetAttribute(config.raw(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw) != CUDNN_STATUS_SUCCESS) return false;
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  if (cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) != CUDNN_STATUS_SUCCESS) return false;
  return std::find(notes, notes + count, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != notes + count;
}

struct Plan {
  std::vector<Shared> parts;  // everything that the execution plan refers to
  Shared execution;
  Shared variant;
};

}  // namespace

Launch plan_convolution(const DeviceTable& device, cudaStream_t stream, const Task& task, const std::vector<void*>& in, void* out, std::vector<DeviceBuffer>& memory) {
  const form::Convolution& c = std::get<form::Convolution>(task.form);
  const auto type = data_type(task.inputs[0].dtype);
  const std::vector<int64_t>&x = task.inputs[0].dims, &w = task.inputs[1].dims, &y = task.outputs[0].dims;
  if (!handle() || !type || x.size() < 4 || cudnnSetStream(handle(), stream) != CUDNN_STATUS_SUCCESS) return {};
  const bool bias = task.inputs.size() > 2;
  const cudnnDataType_t accumulate = CUDNN_DATA_FLOAT;
  auto plan = std::make_shared<Plan>();
  auto keep = [&](Shared part) {
    plan->parts.push_back(part);
    return part;
  };

  std::vector<int64_t> behind(c.pads.size());
  for (size_t i = 0; i < behind.size(); ++i)
    behind[i] = std::max<int64_t>(0, (y[i + 2] - 1) * c.strides[i] + (w[i + 2] - 1) * c.dilations[i] + 1 - x[i + 2] - c.pads[i]);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const Shared convolution = keep(make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  convolution->set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &accumulate);
  convolution->set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  convolution->set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(c.strides.size())).set(CUDNN_ATTR_CONVOLUTION_DILATIONS, c.dilations);
  convolution->set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c.strides).set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c.pads).set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, behind);
  convolution->finish();

  const Shared x_tensor = keep(tensor('x', *type, x)), w_tensor = keep(tensor('w', *type, w)), y_tensor = keep(tensor('y', *type, y));
  const Shared sum_tensor = bias ? keep(tensor('s', accumulate, y, true)) : y_tensor;
  const float one = 1, zero = 0;
  const Shared forward = keep(make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
  forward->set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, *x_tensor).set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, *w_tensor);
  forward->set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, *sum_tensor).set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, *convolution);
  forward->set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one).set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
  forward->finish();
  std::vector<cudnnBackendDescriptor_t> operations = {forward->raw()};
  std::vector<int64_t> ids = {'x', 'w', 'y'};
  std::vector<void*> pointers = {in[0], in[1], out};
  bool good = forward->good();
  if (bias) {
    std::vector<int64_t> dims(y.size(), 1);
    dims[1] = y[1];
    const Shared b_tensor = keep(tensor('b', *type, dims));
    const cudnnPointwiseMode_t add = CUDNN_POINTWISE_ADD;
    const Shared how = keep(make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
    how->set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &add).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &accumulate).finish();
    const Shared plus = keep(make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR));
    plus->set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *how).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *sum_tensor);
    plus->set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b_tensor).set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y_tensor).finish();
    operations.push_back(plus->raw());
    ids.push_back('b'), pointers.push_back(in[2]);
    good = good && plus->good();
  }
  if (!good) return {};

  cudnnHandle_t library = handle();
  const Shared graph = keep(make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  graph->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(operations.size()), operations.data());
  graph->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &library).finish();
  const cudnnBackendHeurMode_t mode_a = CUDNN_HEUR_MODE_A;
  const Shared heuristics = keep(make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  heuristics->set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode_a).finish();
  if (!heuristics->good()) return {};

  // The first of the engines offered that builds and runs; the heuristics put the fastest first.
  constexpr int offered = 16;
  std::vector<Shared> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int i = 0; i < offered; ++i) configs.push_back(keep(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR))), raw.push_back(configs.back()->raw());
  int64_t found = 0;
  if (cudnnBackendGetAttribute(heuristics->raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, offered, &found, raw.data()) != CUDNN_STATUS_SUCCESS) return {};
  for (int64_t i = 0; i < found && i < offered; ++i) {
    if (task.inputs[0].dtype == DType::float32 && uses_tensor_cores(*configs[static_cast<size_t>(i)])) continue;
    const Shared execution = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    execution->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &library).set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *configs[static_cast<size_t>(i)]).finish();
    if (!execution->good()) continue;
    int64_t bytes = 0, count = 0;
    if (cudnnBackendGetAttribute(execution->raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes) != CUDNN_STATUS_SUCCESS) continue;
    if (static_cast<double>(bytes) > device.free_memory() / 2) continue;
    DeviceBuffer scratch(device, static_cast<size_t>(bytes));
    void* const workspace = scratch.data();
    const Shared variant = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    variant->set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
    variant->set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(pointers.size()), pointers.data());
    variant->set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace).finish();
    if (!variant->good() || cudnnBackendExecute(library, execution->raw(), variant->raw()) != CUDNN_STATUS_SUCCESS) continue;
    memory.push_back(std::move(scratch));
    plan->execution = execution, plan->variant = variant;
    return [plan] { cudnnBackendExecute(handle(), plan->execution->raw(), plan->variant->raw()); };
  }
  return {};
}

}  // namespace roofcast::cuda
