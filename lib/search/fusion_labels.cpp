// The names under which people know groups, and which runtimes have such a kernel.
//
// A name is made of what a group holds: each feature below is a question to its ops and their edges, not
// a pattern of a whole group, so that one exporter's casts or another's order do not matter.
#include "search/fusion.h"

#include "ops/op_info.h"

#include <algorithm>
#include <map>
#include <span>

namespace roofcast {
namespace {

// Where runtimes say that they have such kernels.
constexpr std::pair<std::string_view, std::string_view>
    ort_attention{"ONNX Runtime", "onnxruntime docs/ContribOperators.md: Attention, MultiHeadAttention"},
    trt_attention{"TensorRT", "TensorRT documentation, Types of Fusions: multi-head attention fusion"},
    cudnn_attention{"cuDNN", "cuDNN frontend documentation: scaled dot product attention"},
    flash{"FlashAttention", "T. Dao et al., NeurIPS 2022, arXiv 2205.14135"},
    torch_attention{"PyTorch", "torch.nn.functional.scaled_dot_product_attention"},
    vllm_attention{"vLLM", "vLLM documentation: attention backends"},
    trtllm_attention{"TensorRT-LLM", "TensorRT-LLM documentation: multi-head, multi-query and group-query attention"},
    ort_skip_norm{"ONNX Runtime", "onnxruntime docs/ContribOperators.md: SkipLayerNormalization, SkipSimplifiedLayerNormalization"},
    ort_norm{"ONNX Runtime", "onnxruntime graph optimizations: layer normalization fusion"},
    trt_norm{"TensorRT", "TensorRT documentation, Types of Fusions: reduction and normalization"},
    vllm_norm{"vLLM", "vLLM csrc/layernorm_kernels.cu: rms_norm, fused_add_rms_norm"},
    cudnn_norm{"cuDNN", "cuDNN frontend documentation: layernorm, RMSnorm"},
    ort_gelu{"ONNX Runtime", "onnxruntime docs/ContribOperators.md: Gelu, BiasGelu, FastGelu"},
    trt_gelu{"TensorRT", "TensorRT documentation, Types of Fusions: GELU fusion"},
    cublas_epilogue{"cuBLASLt", "cuBLAS documentation: cublasLtEpilogue_t (bias, RELU, GELU)"},
    trt_pointwise{"TensorRT", "TensorRT documentation, Types of Fusions: pointwise fusion"},
    inductor{"inductor", "J. Ansel et al., PyTorch 2, ASPLOS 2024: pointwise and reduction fusion"},
    inductor_epilogue{"inductor", "PyTorch documentation, torch.compile max-autotune: epilogue fusion of GEMM templates"},
    xla{"XLA", "OpenXLA documentation: fusion of elementwise and reduce ops"},
    xla_gemm{"XLA", "OpenXLA documentation: GPU emitters, Triton GEMM fusion"},
    trt_conv{"TensorRT", "TensorRT documentation, Types of Fusions: convolution and ReLU, scale, elementwise sum"},
    ort_conv{"ONNX Runtime", "onnxruntime graph optimizations: Conv BatchNorm fusion, Conv activation fusion"},
    cudnn_conv{"cuDNN", "cuDNN documentation: runtime fusion engines, convolution with pointwise epilogues"},
    vllm_qkv{"vLLM", "vLLM model_executor/layers/linear.py: QKVParallelLinear"},
    vllm_gate{"vLLM", "vLLM model_executor/layers: MergedColumnParallelLinear, SiluAndMul"},
    trtllm_gate{"TensorRT-LLM", "TensorRT-LLM documentation: GEMM + SwiGLU plugin"},
    ort_matmul_nbits{"ONNX Runtime", "onnxruntime docs/ContribOperators.md: MatMulNBits"},
    vllm_quant{"vLLM", "vLLM documentation: quantization, Marlin kernels"},
    trt_quant{"TensorRT", "TensorRT documentation: working with quantized types, Q/DQ fusion"},
    ort_rotary{"ONNX Runtime", "onnxruntime docs/ContribOperators.md: RotaryEmbedding"},
    vllm_rotary{"vLLM", "vLLM csrc/pos_encoding_kernels.cu: rotary_embedding"},
    ort_softmax{"ONNX Runtime", "onnx operators: Softmax is one kernel"};

class Features {
public:
  Features(const FusionGraph& graph, const std::vector<uint32_t>& members, const Module& module) : g_(graph), members_(members), m_(module) {
    for (uint32_t i : members_) {
      const FusionGraph::Op& op = g_.ops[i];
      ++count_[type(i)];
      if (op.kind == Kind::convolution) ++convolutions_;
      if (op.kind == Kind::contraction) products_.push_back(i);
      weighted_ += op.kind == Kind::contraction && op.weighted;
    }
  }

  int count(std::string_view op) const {
    const auto at = count_.find(op);
    return at == count_.end() ? 0 : at->second;
  }
  bool any(std::initializer_list<std::string_view> ops) const {
    return std::any_of(ops.begin(), ops.end(), [&](std::string_view op) { return count(op) > 0; });
  }
  int convolutions() const { return convolutions_; }
  size_t products() const { return products_.size(); }
  bool merged() const { return products_.size() > 1 && static_cast<size_t>(weighted_) == products_.size(); }
  bool softmax() const { return any({"Softmax", "LogSoftmax"}) || (count("Exp") && count("ReduceSum") && count("Div")); }
  bool attention() const { return products_.size() == 2 && weighted_ == 0 && softmax(); }
  bool silu() const { return any({"Swish", "QuickGelu"}) || (any({"Sigmoid"}) && any({"Mul"})); }
  bool gelu() const {
    return any({"Gelu", "BiasGelu", "FastGelu", "Erf"}) || (any({"Tanh"}) && count("Mul") >= 3);
  }
  std::string_view activation() const {
    if (gelu()) return "GELU";
    if (silu()) return "SiLU";
    for (std::string_view op : {"Relu", "HardSwish", "HardSigmoid", "Clip", "Tanh", "Sigmoid", "LeakyRelu", "Elu", "Mish"})
      if (count(op)) return op == "Relu" ? "ReLU" : op == "Clip" ? "ReLU6" : op;
    return {};
  }
  std::string_view normalization() const {
    if (any({"BatchNormalization"})) return "BN";
    if (any({"LayerNormalization", "SkipLayerNormalization", "EmbedLayerNormalization"})) return "LayerNorm";
    if (any({"RMSNormalization", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization"})) return "RMSNorm";
    if (any({"GroupNormalization", "GroupNorm", "SkipGroupNorm"})) return "GroupNorm";
    if (any({"InstanceNormalization"})) return "InstanceNorm";
    const bool root = any({"Sqrt", "Rsqrt"}) || count("Pow") >= 2;
    if (count("ReduceMean") >= 2 && root && any({"Sub"})) return "LayerNorm";
    if ((count("ReduceMean") == 1 || any({"ReduceSumSquare", "ReduceL2"})) && root) return "RMSNorm";
    return {};
  }
  bool rotary() const { return any({"RotaryEmbedding"}) || (any({"Neg"}) && any({"Concat"}) && count("Mul") >= 2 && any({"Add"})); }
  bool quantized() const { return any({"DequantizeLinear", "QuantizeLinear", "DynamicQuantizeLinear"}); }

  // An addition of two activations of one size: the residual stream.
  bool residual() const {
    for (uint32_t i : members_) {
      if (type(i).starts_with("Skip")) return true;
      if (type(i) != "Add") continue;
      int whole = 0;
      const auto inputs = m_.inputs(m_[g_.ops[i].node]);
      for (ValueId v : inputs)
        if (v.valid() && m_[v].storage != Storage::weight && m_[v].storage != Storage::constant && m_[v].type && m_[v].type->ranked &&
            m_[v].type == m_[inputs[0]].type)
          ++whole;
      if (whole == 2 && comes_from_outside(i)) return true;
    }
    return false;
  }
  // An addition of a vector of weights, or a product that has one.
  bool bias() const {
    return any({"BiasGelu"}) || std::any_of(members_.begin(), members_.end(), [&](uint32_t i) {
      return type(i) == "Gemm" ? m_.inputs(m_[g_.ops[i].node]).size() > 2 : type(i) == "Add" && reads_weights(i);
    });
  }
  // A product with a vector of weights, place by place.
  bool scaled() const {
    return std::any_of(members_.begin(), members_.end(), [&](uint32_t i) { return type(i) == "Mul" && reads_weights(i); });
  }

private:
  bool reads_weights(uint32_t i) const {
    const auto inputs = m_.inputs(m_[g_.ops[i].node]);
    return std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) { return v.valid() && m_[v].storage == Storage::weight && !is_scalar(v); });
  }
  bool is_scalar(ValueId v) const {
    const Type type = m_[v].type;
    return type && type->ranked && std::all_of(type->dims.begin(), type->dims.end(), [](Expr d) { return d == Expr(1); });
  }
  std::string_view type(uint32_t i) const { return m_.names[m_[g_.ops[i].node].op_type]; }
  bool comes_from_outside(uint32_t i) const {
    for (uint32_t v : g_.ops[i].inputs)
      if (g_.maker[v] == UINT32_MAX || !std::binary_search(members_.begin(), members_.end(), g_.maker[v])) return true;
    return false;
  }

  const FusionGraph& g_;
  const std::vector<uint32_t>& members_;
  const Module& m_;
  std::map<std::string_view, int> count_;
  std::vector<uint32_t> products_;
  int convolutions_ = 0, weighted_ = 0;
};

}  // namespace

Implementations overlap_implementations() {
  return {{"XLA", "S. Wang et al., ASPLOS 2023: collective matmul"},
          {"PyTorch", "PyTorch documentation: torch.distributed._symmetric_memory, asynchronous tensor parallelism"},
          {"Transformer Engine", "Transformer Engine documentation: communication-GEMM overlap (userbuffers)"},
          {"vLLM", "vLLM documentation: compilation, async tensor parallelism"}};
}

FusionLabel label_of(const FusionGraph& graph, const std::vector<uint32_t>& members, const Module& module) {
  const Features f(graph, members, module);
  const std::string_view norm = f.normalization(), act = f.activation();
  std::string tail;  // what else it holds, in the order in which it usually runs
  auto add = [&](std::string_view part) { tail += (tail.empty() ? "" : " + ") + std::string(part); };

  if (f.attention()) return {"flash attention", {flash, cudnn_attention, torch_attention, ort_attention, trt_attention, trtllm_attention, vllm_attention}};
  if (f.convolutions() == 1 && f.products() == 0) {
    tail = "conv";
    if (norm == "BN" || (f.scaled() && f.bias())) add("BN");
    if (f.residual()) add("residual");
    if (!act.empty()) add(act);
    return {tail == "conv" ? "conv epilogue" : tail, {trt_conv, ort_conv, cudnn_conv}};
  }
  if (f.merged()) {
    if (f.products() == 2 && (f.silu() || f.gelu()) && f.count("Mul") > 0) return {f.gelu() ? "GeGLU" : "SwiGLU", {vllm_gate, trtllm_gate}};
    if (f.products() == 3) return {f.rotary() ? "QKV merge + rotary" : "QKV merge", {vllm_qkv, ort_attention}};
    return {"merged projections", {vllm_gate}};
  }
  if (f.products() == 1) {
    if (f.quantized()) add("dequant");
    add("matmul");
    if (f.bias()) add("bias");
    if (f.rotary()) add("rotary");
    if (!act.empty()) add(act);
    if (f.residual()) add("residual");
    if (!norm.empty()) add(norm);
    else if (f.softmax()) add("softmax");
    if (f.quantized()) return {tail, {ort_matmul_nbits, trt_quant, vllm_quant}};
    if (tail == "matmul") return {"matmul epilogue", {cublas_epilogue, inductor_epilogue}};
    if (!norm.empty() || f.softmax() || f.rotary()) return {tail, {xla_gemm}};
    if (tail == "matmul + bias + GELU") return {"bias + GELU epilogue", {cublas_epilogue, ort_gelu, inductor_epilogue}};
    return {tail + " epilogue", {cublas_epilogue, inductor_epilogue, trt_pointwise}};
  }
  if (!norm.empty()) {
    if (f.residual()) add("residual");
    add(norm);
    if (f.residual()) return {tail, {ort_skip_norm, vllm_norm, trt_norm, inductor}};
    return {tail, {ort_norm, cudnn_norm, trt_norm, inductor}};
  }
  if (f.softmax()) return {"softmax", {ort_softmax, inductor, xla}};
  if (f.rotary()) return {"rotary", {ort_rotary, vllm_rotary, trtllm_attention}};
  if (f.gelu()) return {f.bias() ? "bias + GELU" : "GELU", {ort_gelu, trt_gelu, inductor}};
  if (f.silu()) return {f.count("Mul") > 1 ? "SiLU gate" : "SiLU", {vllm_gate, inductor, xla}};
  if (f.quantized()) return {"quantize", {trt_quant}};
  if (f.residual()) return {"residual pointwise", {inductor, xla, trt_pointwise}};
  return {"", {}};
}

}  // namespace roofcast
