#include "api/fit_stages.h"

#include <algorithm>

namespace roofcast {

bool FitStage::takes(const MeasuredRow& row, const KernelDevice& device) const {
  auto listed = [](const auto& list, const auto& one) { return std::find(list.begin(), list.end(), one) != list.end(); };
  if (!listed(families, row.family)) return false;
  if (!collectives.empty()) return listed(collectives, row.collective.kind);
  auto fits = [](Only only, auto&& is) { return only == Only::any || (only == Only::yes) == is(); };
  const Problem& problem = row.problems.back();
  return (!kind || problem.kind == *kind) && fits(matrix_unit, [&] { return device.has_unit(problem.math); }) &&
         fits(math8, [&] { return problem.math == MathType::fp8 || problem.math == MathType::int8; }) &&
         fits(cache8, [&] { return attention_shape(problem).kv_bits <= 8; });
}

const std::vector<FitStage>& fit_stages() {
  using Use = ConstantUse;
  using Of = CollectiveKind;
  static const std::vector<FitStage> all = {
      {.name = "pointwise", .use = Use::pointwise, .families = {"pointwise"}},
      {.name = "softmax", .use = Use::softmax, .families = {"softmax_norm"}, .kind = Kind::softmax},
      {.name = "normalization", .use = Use::normalization, .families = {"softmax_norm"}, .kind = Kind::normalization},
      {.name = "gemm16", .use = Use::gemm16, .families = {"gemm_bf16"}},
      {.name = "gemm8", .use = Use::gemm8, .families = {"gemm_fp8", "gemm_int_weight"}, .math8 = Only::yes},
      {.name = "gemm_weights", .use = Use::gemm_weights, .families = {"gemm_int_weight"}, .math8 = Only::no},
      {.name = "gemm32", .use = Use::gemm32, .families = {"linear_fp32", "linear_fp32_p4"}},
      {.name = "batched32", .use = Use::batched32, .families = {"bmm"}},
      {.name = "convolution", .use = Use::convolution, .families = {"conv_fwd", "conv_bwd"}, .matrix_unit = Only::no},
      {.name = "convolution16", .use = Use::convolution16, .families = {"conv_fwd", "conv_bwd"}, .matrix_unit = Only::yes},
      {.name = "prefill", .use = Use::prefill, .families = {"attention_prefill"}, .cache8 = Only::no},
      {.name = "prefill8", .use = Use::prefill8, .families = {"attention_prefill"}, .cache8 = Only::yes},
      {.name = "decode", .use = Use::decode, .families = {"attention_decode"}, .cache8 = Only::no},
      {.name = "decode8", .use = Use::decode8, .families = {"attention_decode"}, .cache8 = Only::yes},
      {.name = "all_reduce", .use = Use::all_reduce, .families = {"collectives"}, .collectives = {Of::all_reduce}},
      {.name = "gather", .use = Use::gather, .families = {"collectives"}, .collectives = {Of::all_gather, Of::reduce_scatter}},
      {.name = "exchange", .use = Use::exchange, .families = {"collectives"}, .collectives = {Of::all_to_all}},
      {.name = "send", .use = Use::send, .families = {"p2p"}, .collectives = {Of::send_recv}},
  };
  return all;
}

}  // namespace roofcast
