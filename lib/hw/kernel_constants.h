// What the kernel model may know of a device beside its figures: the [kernel] table of hardware files.
//
// One table names each constant, says what it means and where a fit may look for it; the struct holds
// their values, so that models read members, not names. A file that lacks a constant leaves the value
// here, which means "no such effect".
#pragma once

#include "roofcast/hardware.h"

#include <span>
#include <string_view>

namespace roofcast {

struct KernelConstants {
  double launch_overhead = 0;
  double eager_overhead = 0;
  double host_overhead = 0;

  // CPUs
  double contraction_efficiency = 1, convolution_efficiency = 1, depthwise_efficiency = 1, depthwise_fill = 0;
  double pooling_efficiency = 1, pointwise_efficiency = 1, reduction_efficiency = 1, softmax_efficiency = 1;
  double normalization_efficiency = 1, movement_bandwidth = 1e30, lookup_bandwidth = 1e30;
  double vector_lanes = 1, memory_overlap = 1;
};

// Which models read a constant.
enum class ConstantUse : uint8_t { any, cpu, gemm, convolution, attention, streaming, collective };

struct KernelConstant {
  std::string_view name, unit, meaning;
  double KernelConstants::*member;
  double low, high;                  // where a fit looks for it
  ConstantUse use = ConstantUse::any;
};
std::span<const KernelConstant> kernel_constant_table();

KernelConstants kernel_constants(const Hardware& hardware);

}  // namespace roofcast
