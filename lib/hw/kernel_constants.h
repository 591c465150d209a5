// What the kernel model may know of a device beside its figures: the [kernel] table of hardware files.
//
// One table names each constant, says what it means and where a fit may look for it; the struct holds
// their values, so that models read members, not names. What a file lacks keeps the value here: "no such
// effect", or what is usual.
#pragma once

#include "roofcast/hardware.h"

#include <span>
#include <string_view>

namespace roofcast {

// Of matrix products by one sort of kernel.
struct GemmConstants {
  double call = 0;                // s: of one call: launch, dispatch, ramp of the memory pipeline
  double tile = 0;                // s: fill and drain of one tile
  double efficiency = 1;          // of the peak, of tiles without end
  double l2_rate = 1e9;           // bytes a clock and core from L2 into the core
  double dram_core_rate = 1e9;    // bytes a clock and core from main memory, as one core's loads in flight allow
  double dram_efficiency = 1;     // of the memory bandwidth
  double split = 0;               // s: of splitting k and adding up
  double depth_fill = 0;          // elements of k that the pipeline's fill costs beside
  double throttle = 0;            // how much the clock falls per share of use above `throttle_from`
  double throttle_from = 1;
  double swizzle = 1e9;           // elements of a side that tiles running together cover, at least
  double preference = 0;          // how libraries prefer large tiles: exponent of the area
  double epilogue = 0;            // share of writing a tile that nothing hides
  double misaligned = 0;          // what rows that are no multiple of 16 bytes cost more
  double wide = 1e9;              // columns beyond 4096 that double a tile's time
};

// Of matrix products on vector lanes.
struct LaneGemmConstants {
  double call = 0;                // s: of one call
  double tile = 0;                // s: fill and drain of one tile
  double efficiency = 1;          // of the peak, of tiles without end
  double store = 0;               // s: start of a tile's stores
  double store_rate = 1e9;        // bytes of the result a clock and core
  double l2_rate = 1e9;           // bytes a clock and core from L2 into the core
  double dram_efficiency = 1;     // of the memory bandwidth
  double swizzle = 1e9;           // elements of a side that tiles running together cover, at least
  double split = 0;               // s: of splitting k and adding up
  double split_depth = 1e9;       // elements of k that a part has, at least
  double tail = 1;                // share of the last wave's gap that nothing fills
  double preference = 0;          // how libraries prefer large tiles: exponent of the area
  double largest = 1e9;           // tile, in elements of the result
  double throttle = 0;            // fall of the clock per share of use above `throttle_from`
  double throttle_from = 1;
  double throttle_after = 0;      // s: a kernel that long meets half of the fall
  double misaligned = 0;          // what rows that are no multiple of 16 bytes cost more
  double wide = 1e9;              // columns beyond 4096 that double a tile's time
};

// Of convolutions by one sort of unit.
struct ConvConstants {
  LaneGemmConstants tiles;        // of implicit products
  double fused = 1;               // speed of Winograd's algorithm in one kernel, over a product's; 0: there is none
  double fused_call = 0;          // s: of transforming the filters for it
  double apart = 1;               // speed of the products between its transforms, where these are kernels
  double apart_call = 0;          // s: of those kernels
  double transform_rate = 1;      // of the memory bandwidth, of the transforms
  double transform_l2_rate = 1e9;  // bytes a clock and core, of what they leave in L2
  double data_share = 1, weight_share = 1;  // of forward's speed, of the data's and the weight's gradient
  double backward_call = 0;       // s: of a gradient's further kernels
  double shallow = 0;             // elements of channels · taps that its indexing costs
};

// Of fused attention over many queries.
struct PrefillConstants {
  double call = 0;                // s: of one call, its launch included
  double block = 0;               // s: fill and drain of a block of queries
  double efficiency = 1;          // of the matrix peak
  double head_fill = 0;           // elements of a head that the pipeline's fill costs beside
  double exponentials = 1e9;      // a clock and core
  double extra_keys = 0;          // that a block of queries costs beside those that it sees
  double dram_efficiency = 1;     // of the memory bandwidth
  double append = 0;              // of the time that appended keys and values take at the memory bandwidth
  double throttle = 0;            // fall of the clock per share of use above 0.4
  double pack = 0;                // blocks of 256 rows that the queries of a group of heads are packed into
  double tail = 0;                // share of the longest block that nothing fills
  double sequence = 0;            // s: of a sequence on one core
  double l2_rate = 1e9;           // bytes a clock and core out of L2
  double kept_from = 0, kept_to = 0;  // operands of L2's size that repeated calls find there, and do not at all
};

// Of fused attention of one query a sequence over cached keys.
struct DecodeConstants {
  double call = 0;                // s: of one call, its launch included
  double block = 0;               // s: of one sequence and kv head on a core
  double core_rate = 1e9;         // bytes a clock and core
  double most_splits = 1;         // parts that the keys of a sequence are split into
  double combine = 0;             // s: adding up the parts
  double dram_efficiency = 1;     // of the memory bandwidth
  double pack = 64;               // query heads of a group that share a block
  double pack_windows = 1;        // below a half: heads are not packed under a window
  double most_group = 1e9;        // heads that share keys beyond which each goes alone
  double alone_block = 1;         // of a head alone, as one in a group of one: its block's time over the others'
  double alone_rate = 1;          // and its rates
  double resident = 1;            // blocks on a core at a time
  double split_below = 1;         // share of the cores: with fewer blocks, keys are split
  double head = 0;                // s: of a query head on one core
  double step = 0;                // s: of 64 keys on one core
  double l2_rate = 1e9;           // bytes a clock and core out of L2
  double kept_from = 0, kept_to = 0;  // keys and values of L2's size that repeated calls find there, and do not at all
};

// Of kernels that pass over lines of their operands, which a core takes one by one.
struct LineConstants {
  double call = 0;                // s: of one call beside the launch
  double line = 0;                // s: of a line on a core
  double rate = 1e9;              // bytes a clock and core
  double flops = 1;               // share of the vector peak
  double again = 0;               // of the bytes read: what further passes read, once a line is not kept
  double resident = 1;            // lines on a core at a time
  double cache = 1;               // of L2, against a kernel that passes once
};

// Of collectives of one kind inside the innermost level of links. What files lack: latencies and rates of
// NVLink in NCCL 2.19, src/graph/tuning.cc.
struct CollectiveConstants {
  double call = 6.6e-6;           // s: of one call by the protocol of small messages
  double hop = 0.6e-6;            // s: of one step of it
  double ramp = 0;                // what a step costs more with large messages
  double ramp_bytes = 1e6;        // of the message with half of that
  double rate = 0.25;             // of the link's bandwidth
  double bulk_call = 8.4e-6;      // s: of one call by the protocol of large messages
  double bulk_hop = 3.4e-6;       // s: of one step of it, once buffers fill
  double fill_bytes = 1e5;        // of the message with half of that
  double step = 0;                // s: of one step of it at any size
  double bulk_rate = 0.8;         // of the link's bandwidth, among many ranks
  double pair = 0;                // what two ranks alone lack of it
  double preference = 1;          // over the second protocol's time: what the first one's may be to be taken
  double switch_rate = 1;         // of the link's bandwidth, of sums inside the switch
  double switch_from = 8;         // ranks
  double eager = 0;               // s: least time of an eager call
};

struct KernelConstants {
  double launch_overhead = 0;
  double eager_overhead = 0;
  double host_overhead = 0;

  double stream_read = 1, stream_write = 1;         // of the memory bandwidth
  double stream_l2_rate = 1e9;                      // bytes a clock and core out of L2
  double stream_kept_from = 0.5, stream_kept_to = 1;  // as l2_kept, of kernels that pass once
  LineConstants pointwise, gated, quantize, softmax, long_softmax, normalization;

  double l2_kept_from = 0.5, l2_kept_to = 1;  // working set of L2's size that stays in it, and that does not at all

  GemmConstants gemm16, gemm8, gemm_weights;
  LaneGemmConstants gemm32, batched32;

  ConvConstants convolution, convolution16;

  PrefillConstants prefill, prefill8;  // prefill8, decode8: with a cache of 8 bits
  DecodeConstants decode, decode8;

  CollectiveConstants all_reduce, gather, exchange, send;
  double network_hop = 14e-6;     // s: of one step through network cards; NCCL 2.19, src/graph/tuning.cc
  double network_rate = 0.92;     // of a network card's bandwidth, as InfiniBand's headers and NCCL's protocol leave
  double network_tree = 0.9;      // of that, of trees

  // CPUs
  double contraction_efficiency = 1, convolution_efficiency = 1, depthwise_efficiency = 1, depthwise_fill = 0;
  double pooling_efficiency = 1, pointwise_efficiency = 1, reduction_efficiency = 1, softmax_efficiency = 1;
  double normalization_efficiency = 1, movement_bandwidth = 1e30, lookup_bandwidth = 1e30;
  double vector_lanes = 1, memory_overlap = 1;
};

// What a constant is fitted for and with.
enum class ConstantUse : uint8_t {
  cpu, pointwise, softmax, normalization, gemm16, gemm8, gemm_weights, gemm32, batched32, convolution, convolution16, prefill, prefill8, decode, decode8,
  all_reduce, gather, exchange, send, network,
};

struct KernelConstant {
  std::string_view name, unit, meaning;
  size_t offset;                     // of a double in KernelConstants
  double low, high, start;           // where a fit looks for it, and from where
  ConstantUse use;

  double& of(KernelConstants& all) const { return *reinterpret_cast<double*>(reinterpret_cast<char*>(&all) + offset); }
  double of(const KernelConstants& all) const { return of(const_cast<KernelConstants&>(all)); }
};
std::span<const KernelConstant> kernel_constant_table();

KernelConstants kernel_constants(const Hardware& hardware);

// Gives `own` the constants of `shared` for each use of which it has none: constants that were fitted
// together stay together.
void inherit_constants(std::map<std::string, Figure>& own, const std::map<std::string, Figure>& shared);

}  // namespace roofcast
