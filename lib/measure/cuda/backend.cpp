// The CUDA backend: cuBLASLt and cuDNN where they have the op, own kernels for what streams.
#include "measure/backend.h"
#include "measure/cuda/kernels.h"
#include "measure/cuda/libraries.h"
#include "measure/cuda/nvml.h"
#include "measure/device.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <numeric>

namespace roofcast {
namespace cuda {
namespace {

using Ints = std::vector<int64_t>;

int64_t product_of(const Ints& dims, size_t from, size_t to) {
  return std::accumulate(dims.begin() + static_cast<long>(from), dims.begin() + static_cast<long>(to), int64_t{1}, std::multiplies<>());
}

// Elements from row-major to channels-last, or back.
std::vector<std::byte> swap_channels(const Operand& o, const std::vector<std::byte>& bytes, bool to_last) {
  const size_t size = static_cast<size_t>(bits(o.dtype) / 8);
  const size_t batch = static_cast<size_t>(o.dims[0]), channels = static_cast<size_t>(o.dims[1]), plane = static_cast<size_t>(product_of(o.dims, 2, o.dims.size()));
  std::vector<std::byte> out(bytes.size());
  for (size_t n = 0; n < batch; ++n)
    for (size_t c = 0; c < channels; ++c)
      for (size_t p = 0; p < plane; ++p) {
        const size_t first = (n * channels + c) * plane + p, last = (n * plane + p) * channels + c;
        std::copy_n(bytes.begin() + static_cast<long>((to_last ? first : last) * size), size, out.begin() + static_cast<long>((to_last ? last : first) * size));
      }
  return out;
}

// Dims of a broadcast op, as they are: kernels walk up to six.
std::optional<PointwiseShape> broadcast_shape(const Task& task) {
  const Ints& out = task.outputs[0].dims;
  if (out.size() > most_dims || task.inputs.size() > 3) return std::nullopt;
  PointwiseShape s;
  s.rank = static_cast<int>(out.size());
  s.count = task.outputs[0].elements();
  s.contiguous = true;
  std::copy(out.begin(), out.end(), s.dims);
  for (size_t i = 0; i < task.inputs.size(); ++i) {
    const Ints& dims = task.inputs[i].dims;
    s.contiguous = s.contiguous && task.inputs[i].elements() == s.count;
    int64_t stride = 1;
    for (size_t d = dims.size(); d-- > 0;) {
      s.strides[i][d + out.size() - dims.size()] = dims[d] == 1 ? 0 : stride;
      stride *= dims[d];
    }
  }
  return s;
}

// Turns a task whose operands lie on the device into a launch; empty if there is no kernel for it.
struct Planner {
  const DeviceTable& device;
  cudaStream_t stream;
  const Task& task;
  const std::vector<void*>& in;
  void* out;
  std::vector<DeviceBuffer>& memory;

  DType type() const { return task.inputs[0].dtype; }
  const Ints& dims(size_t i) const { return task.inputs[i].dims; }
  // All float operands have one type.
  bool uniform() const {
    return std::all_of(task.inputs.begin(), task.inputs.end(), [&](const Operand& o) { return o.dtype == task.outputs[0].dtype; });
  }
  // Launches once to see whether there is such a kernel.
  template <class F> Launch if_runs(F run) const {
    if (!run()) return {};
    return [run] { run(); };
  }

  Launch operator()(const form::Product&) { return plan_product(device, stream, task, in, out, memory); }
  Launch operator()(const form::Convolution&) { return plan_convolution(device, stream, task, in, out, memory); }

  Launch operator()(const form::Pooling& p) {
    if (dims(0).size() < 3 || dims(0).size() > 5) return {};
    PoolingShape s;
    s.planes = dims(0)[0] * dims(0)[1];
    const size_t n = p.kernel.size(), skip = 3 - n;
    for (size_t i = 0; i < n; ++i) {
      s.in[skip + i] = dims(0)[i + 2], s.out[skip + i] = task.outputs[0].dims[i + 2];
      s.kernel[skip + i] = p.kernel[i], s.stride[skip + i] = p.strides[i], s.dilation[skip + i] = p.dilations[i], s.pad[skip + i] = p.pads[i];
    }
    s.average = p.average, s.count_padding = p.count_padding;
    return if_runs([=, t = type(), a = in[0], y = out, q = stream] { return pooling(q, t, s, a, y); });
  }

  Launch operator()(const form::Pointwise& p) {
    const auto s = broadcast_shape(task);
    const bool where = p.function == form::Function::where;
    if (!s || (where ? task.inputs[0].dtype != DType::boolean || task.inputs[1].dtype != task.outputs[0].dtype || task.inputs[2].dtype != task.outputs[0].dtype : !uniform())) return {};
    return if_runs([=, s = *s, t = task.outputs[0].dtype, n = static_cast<int>(in.size()), a = in, y = out, q = stream] { return pointwise(q, t, p, n, s, a.data(), y); });
  }

  Launch operator()(const form::Reduction& r) {
    for (size_t i = 1; i < r.axes.size(); ++i)
      if (r.axes[i] != r.axes[i - 1] + 1) return {};
    if (r.axes.empty()) return {};
    const size_t first = static_cast<size_t>(r.axes.front()), last = static_cast<size_t>(r.axes.back()) + 1;
    const int64_t outer = product_of(dims(0), 0, first), line = product_of(dims(0), first, last), inner = product_of(dims(0), last, dims(0).size());
    return if_runs([=, t = type(), reducer = r.reducer, a = in[0], y = out, q = stream] { return reduction(q, t, reducer, outer, line, inner, a, y); });
  }

  Launch operator()(const form::Softmax& s) {
    const size_t axis = static_cast<size_t>(s.axis);
    const int64_t outer = product_of(dims(0), 0, axis), line = dims(0)[axis], inner = product_of(dims(0), axis + 1, dims(0).size());
    return if_runs([=, t = type(), log = s.log, a = in[0], y = out, q = stream] { return softmax(q, t, log, outer, line, inner, a, y); });
  }

  Launch operator()(const form::Normalization& n) {
    if (!uniform()) return {};
    const float epsilon = static_cast<float>(n.epsilon);
    if (n.normalizer == form::Normalizer::batch) {
      const int64_t count = task.inputs[0].elements(), channels = dims(0)[1], plane = product_of(dims(0), 2, dims(0).size());
      return if_runs([=, t = type(), a = in, y = out, q = stream] { return batch_normalization(q, t, epsilon, count, channels, plane, a.data(), y); });
    }
    const int64_t line = product_of(dims(0), static_cast<size_t>(n.axis), dims(0).size()), rows = task.inputs[0].elements() / std::max<int64_t>(1, line);
    return if_runs([=, t = type(), kind = n.normalizer, a = in[0], scale = in.size() > 1 ? in[1] : nullptr, bias = in.size() > 2 ? in[2] : nullptr, y = out, q = stream] {
      return normalization(q, t, kind, epsilon, rows, line, a, scale, bias, y);
    });
  }

  Launch operator()(const form::Permutation& p) {
    if (p.order.size() > most_dims) return {};
    PermutationShape s;
    s.rank = static_cast<int>(p.order.size());
    s.count = task.outputs[0].elements();
    for (size_t i = 0; i < p.order.size(); ++i) {
      const size_t from = static_cast<size_t>(p.order[i]);
      s.dims[i] = task.outputs[0].dims[i];
      s.strides[i] = product_of(dims(0), from + 1, dims(0).size());
    }
    return if_runs([=, bytes = bits(type()) / 8, a = in[0], y = out, q = stream] { return permutation(q, bytes, s, a, y); });
  }

  Launch operator()(const form::Concatenation& c) {
    const size_t axis = static_cast<size_t>(c.axis), size = static_cast<size_t>(bits(type()) / 8);
    const Ints& y = task.outputs[0].dims;
    const size_t outer = static_cast<size_t>(product_of(y, 0, axis)), pitch = static_cast<size_t>(product_of(y, axis, y.size())) * size;
    std::vector<size_t> pieces;
    for (const Operand& o : task.inputs) pieces.push_back(static_cast<size_t>(product_of(o.dims, axis, o.dims.size())) * size);
    return [=, a = in, to = static_cast<std::byte*>(out), q = stream] {
      size_t at = 0;
      for (size_t i = 0; i < pieces.size(); at += pieces[i++]) cudaMemcpy2DAsync(to + at, pitch, a[i], pieces[i], pieces[i], outer, cudaMemcpyDeviceToDevice, q);
    };
  }

  Launch operator()(const form::Lookup& l) {
    const size_t axis = static_cast<size_t>(l.axis);
    const int64_t outer = product_of(dims(0), 0, axis), rows = dims(0)[axis], taken = task.inputs[1].elements();
    const int64_t row_bytes = product_of(dims(0), axis + 1, dims(0).size()) * bits(type()) / 8;
    return if_runs([=, wide = task.inputs[1].dtype == DType::int64, a = in[0], indices = in[1], y = out, q = stream] {
      return lookup(q, outer, rows, taken, row_bytes, wide, a, indices, y);
    });
  }
};

class Prepared : public PreparedOp {
public:
  Prepared(const DeviceTable& device, Task task) : device_(device), task_(std::move(task)) {}
  const DeviceTable& device_;
  Task task_;
  std::vector<DeviceBuffer> operands_, memory_;
  bool channels_last_ = false;
  Launch launch_;

  std::vector<double> time(const RunOptions& options) override {
    std::vector<double> samples = time_on_device(device_, launch_, options);
    // Times of a launch that failed say nothing.
    return cudaDeviceSynchronize() == cudaSuccess && cudaGetLastError() == cudaSuccess ? samples : std::vector<double>();
  }
  std::vector<HostTensor> outputs() override {
    launch_();
    HostTensor host{task_.outputs[0], std::vector<std::byte>(static_cast<size_t>(task_.outputs[0].bytes()))};
    device_.download(host.bytes.data(), operands_.back().data(), host.bytes.size());
    if (channels_last_) host.bytes = swap_channels(host.operand, host.bytes, false);
    return {std::move(host)};
  }
};

class CudaBackend : public Backend {
public:
  explicit CudaBackend(int index) {
    cudaSetDevice(index);
    cudaDeviceProp properties{};
    cudaGetDeviceProperties(&properties, index);
    char bus[32] = {};
    cudaDeviceGetPCIBusId(bus, sizeof bus, index);
    bus_ = bus;
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    cudaEventCreate(&begin_), cudaEventCreate(&end_);
    table_.name = properties.name;
    table_.cache_bytes = properties.l2CacheSize;
    table_.free_memory = [] {
      size_t have = 0, all = 0;
      return cudaMemGetInfo(&have, &all) == cudaSuccess ? static_cast<double>(have) : 0.0;
    };
    table_.allocate = [](size_t bytes) {
      void* made = nullptr;
      if (cudaMalloc(&made, bytes) == cudaSuccess) return made;
      cudaGetLastError();  // the failed call is not to be seen again
      return static_cast<void*>(nullptr);
    };
    table_.release = [](void* p) { cudaFree(p); };
    table_.upload = [](void* to, const void* from, size_t bytes) { cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice); };
    table_.download = [](void* to, const void* from, size_t bytes) {
      cudaDeviceSynchronize();
      cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost);
    };
    table_.fill = [this](void* to, int value, size_t bytes) { cudaMemsetAsync(to, value & 0xFF, bytes, stream_); };
    table_.elapsed = [this](const std::function<void()>& launches) {
      cudaEventRecord(begin_, stream_);
      launches();
      cudaEventRecord(end_, stream_);
      cudaEventSynchronize(end_);
      float milliseconds = 0;
      cudaEventElapsedTime(&milliseconds, begin_, end_);
      return milliseconds * 1e-3;
    };
  }
  ~CudaBackend() override { cudaEventDestroy(begin_), cudaEventDestroy(end_), cudaStreamDestroy(stream_); }

  std::string device() const override { return table_.name; }
  double free_memory() const override { return table_.free_memory(); }
  std::string note() const override {
    const auto sensors = read_sensors(bus_);
    return sensors ? describe(*sensors) : std::string();
  }

  Result<std::unique_ptr<PreparedOp>> prepare(const Task& task, std::span<const HostTensor> inputs) override {
    auto op = std::make_unique<Prepared>(table_, task);
    op->channels_last_ = std::holds_alternative<form::Convolution>(task.form);
    std::vector<void*> in;
    for (const HostTensor& t : inputs) {
      op->operands_.emplace_back(table_, t.bytes.size());
      const bool swap = op->channels_last_ && t.operand.dims.size() > 2;
      const std::vector<std::byte> other = swap ? swap_channels(t.operand, t.bytes, true) : std::vector<std::byte>();
      table_.upload(op->operands_.back().data(), swap ? other.data() : t.bytes.data(), t.bytes.size());
      in.push_back(op->operands_.back().data());
    }
    op->operands_.emplace_back(table_, static_cast<size_t>(task.outputs[0].bytes()));
    op->launch_ = std::visit(Planner{table_, stream_, op->task_, in, op->operands_.back().data(), op->memory_}, op->task_.form);
    const cudaError_t fault = cudaStreamSynchronize(stream_);
    if (fault != cudaSuccess) return error("op-not-run", cudaGetErrorString(fault));
    if (!op->launch_) return error("op-not-run", "no library or kernel runs it for " + std::string(name(task.outputs[0].dtype)));
    return std::unique_ptr<PreparedOp>(std::move(op));
  }

private:
  DeviceTable table_;
  std::string bus_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<Backend>> make_cuda_backend() {
  int count = 0;
  const cudaError_t fault = cudaGetDeviceCount(&count);
  if (fault != cudaSuccess || count == 0)
    return error("device-missing", std::string("no CUDA device: ") + (fault == cudaSuccess ? "none is there" : cudaGetErrorString(fault)), {}, "`nvidia-smi` lists what the driver sees");
  return std::unique_ptr<Backend>(std::make_unique<cuda::CudaBackend>(0));
}

}  // namespace roofcast
