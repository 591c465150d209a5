#include "trace/kernel_classes.h"

#include <algorithm>
#include <string>

namespace roofcast::trace {
namespace {

struct Row {
  KernelClass kernel_class;
  bool exact_case;
  std::string_view patterns;  // alternatives; in lower case where case is ignored
};

// First match wins, so the order carries meaning: `nchwToNhwc` is part of a convolution before it is
// a copy, `convert` is no convolution, and a template name inside an elementwise kernel counts last.
constexpr Row rows[] = {
    {KernelClass::memcpy, false,
     "^memcpy|^hipmemcpy|^copyhosttodevice|^copydevicetohost|^copydevicetodevice|"
     "^__amd_rocclr_copybuffer"},
    {KernelClass::memset, false, "^memset|^fillbuffer|^__amd_rocclr_fillbuffer"},
    {KernelClass::collective, false,
     "ncclkernel|nccldevkernel|^nccl|rccl|msccl|mscclpp|oneshotall|twoshotall|multimem_all|"
     "cross_device_reduce|deep_ep::|intranode::|internode::|nvshmem|all_?reduce|all_?gather|"
     "reduce_?scatter|all_?to_?all|quick_?reduce"},
    {KernelClass::attention, false,
     "flash|fmha|sdpa|attn|attention|\\bmha\\b|paged|bwd_dq|dq_dk_dv|rope|rotary|sage_?fwd|"
     "\\bmla\\b|aotriton"},
    {KernelClass::norm, false,
     "batch_?norm|bn_(fw|bw)|layer_?norm|rms_?norm|group_?norm|rowwisemoments|gammabeta|"
     "computeinternalgradients|instance_?norm|cudnn::bn_"},
    {KernelClass::softmax, false, "soft_?max"},
    {KernelClass::conv, false,
     "conv(?!ert)|im2d2col|computeb?offsetskernel|implicit_?gemm|winograd|wgrad|dgrad|\\bfprop|"
     "scudnn|cudnn.*(fprop|wgrad|dgrad|gemm)|xmma_.*(fprop|dgrad|wgrad)|"
     "miopen(?!batchnorm|tensorop)|im2col|col2im|sp3asmconv|igemm|nchwtonhwc|nhwctonchw|"
     "nchwaddpadding|batched_transpose_"},
    {KernelClass::gemm, false,
     "gemm|gemv|^bmm_|matmul|\\bmm_|_mm_|cutlass|cijk_|cublas|splitk|split_k|h884|s884|h1688|s1688|"
     "s16816|wgmma|nvjet|rocblas|hipblas|tensile|^kernel2$|dot_kernel|\\bdot\\b|marlin"},
    {KernelClass::optimizer, false,
     "multi_tensor_apply|adam|\\bsgd|fusedsgd|fused_?optim|optimizer|\\blamb(?!da)|adagrad|"
     "\\blion_"},
    {KernelClass::embedding, false,
     "embedding|linearize_index|bounds_check_indices|indexselect|index_select|gather|scatter|"
     "index_put|indexing_backward|index_elementwise|indexfunc|indexadd"},
    {KernelClass::routing, false,
     "routing|moe_align|topk_?gating|get_dispatch_layout|get_fused_mapping|count_expert|"
     "expand_to_fused|bitmatrix"},
    {KernelClass::reduction, true,
     "reduce|reduction|\\bsum\\b|mean|max_?pool|avg_?pool|MaxPool|AvgPool|pooling|cumsum|scan|Scan|"
     "topk|TopK|radix|sort|Sort|argmax|cub::|rocprim|hipcub|nll_loss|cross_?entropy|cunn_|bitonic|"
     "unique|thrust"},
    {KernelClass::copy, true,
     "direct_copy|copy_kernel|recat_copy|_copy_|store_kvcache|CatArray|cat_array|transpose|permute|"
     "\\bcopy|Copy|pad|roll|contiguous|im2|tensor_transform|flip|upsample|reshape_and_cache|cast|"
     "convert|SubTensorOp|_to_copy|clone|slice|unfold"},
    {KernelClass::elementwise, false,
     "elementwise|swiglu|quant|scalepackedtensor|spin_kernel|vectorized|unrolled|pointwise|triton_|"
     "relu|gelu|silu|sigmoid|tanh|dropout|add|mul|fill|activation|functor|bernoulli|distribution|"
     "random|optensor|op_tensor|act_and_mul|where|clamp|masked|philox|at::native|arange|range"},
};

constexpr std::string_view class_names[kernel_class_count] = {
    "memcpy",    "memset",    "collective", "attention", "norm", "softmax",     "conv",  "gemm",
    "optimizer", "embedding", "routing",    "reduction", "copy", "elementwise", "graph", "other"};

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_plain(char c) { return is_word(c) || c == ':'; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// A set of the pairs of neighbouring characters of a name, hashed; most alternatives are ruled out
// by their first pair without a search.
constexpr size_t bigram_bits = 4096;
uint16_t bigram(char a, char b) {
  return static_cast<uint16_t>((static_cast<unsigned char>(a) * 67u + static_cast<unsigned char>(b)) %
                               bigram_bits);
}

template <class F> void each_alternative(std::string_view patterns, F&& f) {
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= patterns.size(); ++i) {
    if (i == patterns.size() || (patterns[i] == '|' && depth == 0)) {
      f(patterns.substr(begin, i - begin));
      begin = i + 1;
    } else if (patterns[i] == '(') {
      ++depth;
    } else if (patterns[i] == ')') {
      --depth;
    }
  }
}

// Whether `pattern`, one alternative, matches `text` from `at` on.
bool matches_at(std::string_view pattern, std::string_view text, size_t at) {
  for (size_t i = 0; i < pattern.size();) {
    const char c = pattern[i];
    if (c == '$') {
      if (at != text.size()) return false;
      ++i;
    } else if (c == '\\') {  // \b
      const bool before = at > 0 && is_word(text[at - 1]);
      const bool after = at < text.size() && is_word(text[at]);
      if (before == after) return false;
      i += 2;
    } else if (pattern.substr(i, 2) == ".*") {
      for (size_t from = at; from <= text.size(); ++from)
        if (matches_at(pattern.substr(i + 2), text, from)) return true;
      return false;
    } else if (c == '(') {  // a group ends its alternative
      const bool negative = pattern.substr(i, 3) == "(?!";
      const size_t begin = i + (negative ? 3 : 1);
      bool found = false;
      each_alternative(pattern.substr(begin, pattern.size() - 1 - begin),
                       [&](std::string_view inner) { found |= matches_at(inner, text, at); });
      return found != negative;
    } else if (pattern.substr(i + 1, 1) == "?") {
      if (at < text.size() && text[at] == c && matches_at(pattern.substr(i + 2), text, at + 1))
        return true;
      i += 2;
    } else {
      if (at >= text.size() || text[at] != c) return false;
      ++at, ++i;
    }
  }
  return true;
}

bool alternative_matches(std::string_view pattern, std::string_view text) {
  if (pattern.front() == '^') return matches_at(pattern.substr(1), text, 0);
  const char first = pattern.front();
  for (size_t at = 0; at <= text.size(); ++at) {
    if (is_plain(first)) at = std::min(text.find(first, at), text.size());
    if (matches_at(pattern, text, at)) return true;
  }
  return false;
}

}  // namespace

std::string_view to_string(KernelClass c) { return class_names[static_cast<size_t>(c)]; }

Leaning leaning_of(KernelClass c) {
  switch (c) {
  case KernelClass::attention:
  case KernelClass::conv:
  case KernelClass::gemm: return Leaning::matrix;
  case KernelClass::collective:
  case KernelClass::memcpy: return Leaning::link;
  case KernelClass::graph:
  case KernelClass::other: return Leaning::unknown;
  default: return Leaning::memory;
  }
}

KernelClassifier::KernelClassifier() {
  for (const Row& row : rows)
    each_alternative(row.patterns, [&](std::string_view pattern) {
      std::string_view head = pattern.substr(pattern.front() == '^' ? 1 : 0);
      if (head.starts_with("\\b")) head.remove_prefix(2);
      const bool optional = head.size() > 2 && head[2] == '?';
      const bool has_bigram = head.size() > 1 && is_plain(head[0]) && is_plain(head[1]) && !optional;
      alternatives_.push_back({pattern, row.kernel_class, row.exact_case,
                               has_bigram ? bigram(head[0], head[1]) : uint16_t{0}, has_bigram});
    });
}

KernelClass KernelClassifier::classify(std::string_view name) const {
  std::string lowered(name);
  for (char& c : lowered) c = lower(c);
  std::bitset<bigram_bits> exact_pairs, lowered_pairs;
  for (size_t i = 0; i + 1 < name.size(); ++i) {
    exact_pairs.set(bigram(name[i], name[i + 1]));
    lowered_pairs.set(bigram(lowered[i], lowered[i + 1]));
  }
  for (const Alternative& a : alternatives_) {
    if (a.has_bigram && !(a.exact_case ? exact_pairs : lowered_pairs).test(a.bigram)) continue;
    if (alternative_matches(a.pattern, a.exact_case ? name : std::string_view(lowered)))
      return a.kernel_class;
  }
  return KernelClass::other;
}

bool pattern_matches(std::string_view pattern, std::string_view text) {
  bool found = false;
  each_alternative(pattern, [&](std::string_view p) { found = found || alternative_matches(p, text); });
  return found;
}

}  // namespace roofcast::trace
