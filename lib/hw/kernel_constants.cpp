#include "hw/kernel_constants.h"

#include <cstddef>
#include <set>

namespace roofcast {
namespace {

using Use = ConstantUse;

#define AT(member) offsetof(KernelConstants, member)
// The same constants for each sort of kernel that multiplies matrices.
#define GEMM(prefix, set)                                                                                                       \
  {prefix "_call", "s", "of one call: launch, dispatch and the memory pipeline's ramp", AT(set.call), 1e-7, 8e-5, 2e-6, Use::set}, \
      {prefix "_tile", "s", "fill and drain of one tile", AT(set.tile), 1e-8, 2e-5, 1e-6, Use::set},                                    \
      {prefix "_efficiency", "share", "of the peak, in tiles without end", AT(set.efficiency), 0.1, 1.1, 0.85, Use::set},              \
      {prefix "_l2_rate", "B/clock", "from L2 into one core", AT(set.l2_rate), 4, 256, 50, Use::set},                                \
      {prefix "_dram_core_rate", "B/clock", "from main memory into one core", AT(set.dram_core_rate), 4, 256, 40, Use::set},         \
      {prefix "_dram_efficiency", "share", "of the memory bandwidth", AT(set.dram_efficiency), 0.3, 1, 0.85, Use::set},                \
      {prefix "_split", "s", "splitting k and adding up", AT(set.split), 1e-7, 2e-5, 1.5e-6, Use::set},                                  \
      {prefix "_depth_fill", "elements", "of k that filling the pipeline costs", AT(set.depth_fill), 1, 500, 50, Use::set},          \
      {prefix "_throttle", "", "fall of the clock per share of use above throttle_from", AT(set.throttle), 1e-3, 2, 0.1, Use::set},   \
      {prefix "_throttle_from", "share", "use of the peak from which the clock falls", AT(set.throttle_from), 0.1, 1, 0.5, Use::set}, \
      {prefix "_swizzle", "elements", "of a side that tiles running together cover", AT(set.swizzle), 64, 1e5, 500, Use::set},        \
      {prefix "_preference", "", "exponent by which large tiles are preferred", AT(set.preference), 1e-3, 1, 0.02, Use::set},          \
      {prefix "_epilogue", "share", "of writing a tile that nothing hides", AT(set.epilogue), 1e-3, 20, 0.3, Use::set},               \
      {prefix "_misaligned", "share", "that rows of no multiple of 16 bytes cost more", AT(set.misaligned), 1e-3, 1, 0.05, Use::set},  \
      {prefix "_wide", "columns", "beyond 4096 that double a tile's time", AT(set.wide), 3e3, 1e7, 2e5, Use::set}

#define LANE_GEMM(prefix, set, use) \
  {prefix "_call", "s", "of one call: launch, dispatch and the memory pipeline's ramp", AT(set.call), 1e-7, 8e-5, 4e-6, Use::use}, \
  {prefix "_tile", "s", "fill and drain of one tile", AT(set.tile), 1e-8, 2e-5, 2e-6, Use::use}, \
  {prefix "_efficiency", "share", "of the peak, in tiles without end", AT(set.efficiency), 0.1, 1.1, 0.85, Use::use}, \
  {prefix "_store", "s", "start of a tile's stores", AT(set.store), 1e-8, 2e-5, 1e-6, Use::use}, \
  {prefix "_store_rate", "B/clock", "of the result out of one core", AT(set.store_rate), 0.3, 100, 4, Use::use}, \
  {prefix "_l2_rate", "B/clock", "from L2 into one core", AT(set.l2_rate), 4, 256, 50, Use::use}, \
  {prefix "_dram_efficiency", "share", "of the memory bandwidth", AT(set.dram_efficiency), 0.3, 1, 0.85, Use::use}, \
  {prefix "_swizzle", "elements", "of a side that tiles running together cover", AT(set.swizzle), 64, 1e5, 500, Use::use}, \
  {prefix "_split", "s", "splitting k and adding up", AT(set.split), 1e-7, 2e-5, 2e-6, Use::use}, \
  {prefix "_split_depth", "elements", "of k that a part has, at least", AT(set.split_depth), 8, 4096, 128, Use::use}, \
  {prefix "_tail", "share", "of the last wave's gap that nothing fills", AT(set.tail), 0.05, 1, 0.4, Use::use}, \
  {prefix "_preference", "", "exponent by which large tiles are preferred", AT(set.preference), 1e-3, 3, 0.1, Use::use}, \
  {prefix "_largest", "elements", "of the result in the largest tile", AT(set.largest), 1100, 20000, 17000, Use::use}, \
  {prefix "_throttle", "", "fall of the clock per share of use above throttle_from", AT(set.throttle), 1e-3, 20, 0.3, Use::use}, \
  {prefix "_throttle_after", "s", "a kernel that long meets half of the clock's fall", AT(set.throttle_after), 1e-7, 1e-2, 1e-4, Use::use}, \
  {prefix "_throttle_from", "share", "use of the peak from which the clock falls", AT(set.throttle_from), 0.1, 1, 0.5, Use::use}, \
  {prefix "_misaligned", "share", "that rows of no multiple of 16 bytes cost more", AT(set.misaligned), 1e-3, 1, 0.05, Use::use}, \
  {prefix "_wide", "columns", "beyond 4096 that double a tile's time", AT(set.wide), 3e3, 1e7, 2e5, Use::use}

#define CONVOLUTION(prefix, set) \
  LANE_GEMM(prefix, set.tiles, set), \
  {prefix "_fused", "", "speed of Winograd's algorithm in one kernel, over a product's", AT(set.fused), 0.05, 2, 0.8, Use::set}, \
  {prefix "_fused_call", "s", "of transforming the filters for it", AT(set.fused_call), 1e-7, 1e-4, 5e-6, Use::set}, \
  {prefix "_apart", "", "speed of the products between its transforms, where these are kernels", AT(set.apart), 0.05, 2, 0.9, Use::set}, \
  {prefix "_apart_call", "s", "of those kernels", AT(set.apart_call), 1e-7, 2e-4, 2e-5, Use::set}, \
  {prefix "_transform_rate", "share", "of the memory bandwidth, of the transforms", AT(set.transform_rate), 0.05, 1.2, 0.6, Use::set}, \
  {prefix "_transform_l2_rate", "B/clock", "from one core, of what the transforms leave in L2", AT(set.transform_l2_rate), 1, 256, 20, Use::set}, \
  {prefix "_data_share", "share", "of forward's speed, of the data's gradient", AT(set.data_share), 0.1, 2, 0.8, Use::set}, \
  {prefix "_weight_share", "share", "of forward's speed, of the weight's gradient", AT(set.weight_share), 0.1, 2, 0.7, Use::set}, \
  {prefix "_backward_call", "s", "of a gradient's further kernels", AT(set.backward_call), 1e-7, 2e-4, 1e-5, Use::set}, \
  {prefix "_shallow", "elements", "of channels and taps that indexing costs", AT(set.shallow), 0.1, 1000, 10, Use::set}

#define KEPT(prefix, set) \
  {prefix "_l2_rate", "B/clock", "from L2 into one core", AT(set.l2_rate), 4, 256, 60, Use::set}, \
  {prefix "_kept_from", "share", "of L2: operands up to this stay there between calls", AT(set.kept_from), 0.02, 2, 0.5, Use::set}, \
  {prefix "_kept_to", "share", "of L2: none of them stay from here on", AT(set.kept_to), 0.05, 4, 1.2, Use::set}
#define PREFILL(prefix, set) \
  {prefix "_call", "s", "of one call, its launch included", AT(set.call), 1e-6, 8e-5, 1e-5, Use::set}, \
  {prefix "_block", "s", "fill and drain of a block of queries", AT(set.block), 5e-8, 2e-5, 1.5e-6, Use::set}, \
  {prefix "_efficiency", "share", "of the matrix peak", AT(set.efficiency), 0.05, 1.2, 0.6, Use::set}, \
  {prefix "_head_fill", "elements", "of a head that filling the pipeline costs", AT(set.head_fill), 0.1, 200, 10, Use::set}, \
  {prefix "_exponentials", "", "a clock and core", AT(set.exponentials), 1, 400, 16, Use::set}, \
  {prefix "_extra_keys", "keys", "that a block of queries costs beside those it sees", AT(set.extra_keys), 0.1, 1000, 20, Use::set}, \
  {prefix "_dram_efficiency", "share", "of the memory bandwidth", AT(set.dram_efficiency), 0.1, 1, 0.7, Use::set}, \
  {prefix "_append", "", "of the time of appended keys and values at the memory bandwidth", AT(set.append), 0.01, 30, 2, Use::set}, \
  {prefix "_throttle", "", "fall of the clock per share of use above 0.4", AT(set.throttle), 1e-3, 3, 0.1, Use::set}, \
  {prefix "_pack", "blocks", "of 256 rows that queries of a group of heads are packed into", AT(set.pack), 0.01, 30, 1, Use::set}, \
  {prefix "_tail", "share", "of the longest block that nothing fills", AT(set.tail), 1e-3, 2, 0.3, Use::set}, \
  {prefix "_sequence", "s", "of a sequence on one core", AT(set.sequence), 1e-9, 5e-5, 1e-7, Use::set}, \
  KEPT(prefix, set)
#define DECODE(prefix, set) \
  {prefix "_call", "s", "of one call, its launch included", AT(set.call), 1e-6, 8e-5, 8e-6, Use::set}, \
  {prefix "_block", "s", "of one sequence and kv head on a core", AT(set.block), 5e-8, 2e-5, 1.5e-6, Use::set}, \
  {prefix "_core_rate", "B/clock", "into one core", AT(set.core_rate), 1, 400, 16, Use::set}, \
  {prefix "_most_splits", "parts", "that the keys of a sequence are split into", AT(set.most_splits), 1, 256, 24, Use::set}, \
  {prefix "_combine", "s", "adding up the parts", AT(set.combine), 1e-8, 2e-5, 2e-6, Use::set}, \
  {prefix "_dram_efficiency", "share", "of the memory bandwidth", AT(set.dram_efficiency), 0.2, 1.3, 0.8, Use::set}, \
  {prefix "_pack", "heads", "of a group that share a block", AT(set.pack), 1, 256, 64, Use::set}, \
  {prefix "_pack_windows", "", "below a half: heads are not packed under a window", AT(set.pack_windows), 0.3, 1, 0.6, Use::set}, \
  {prefix "_most_group", "heads", "that share keys beyond which each goes alone", AT(set.most_group), 1, 300, 200, Use::set}, \
  {prefix "_alone_block", "", "a block's time of a head alone, over the others'", AT(set.alone_block), 0.1, 10, 1, Use::set}, \
  {prefix "_alone_rate", "", "the rates of a head alone, over the others'", AT(set.alone_rate), 0.1, 10, 1, Use::set}, \
  {prefix "_resident", "blocks", "on a core at a time", AT(set.resident), 0.5, 4, 1.2, Use::set}, \
  {prefix "_split_below", "share", "of the cores: with fewer blocks, keys are split", AT(set.split_below), 0.1, 1.5, 0.7, Use::set}, \
  {prefix "_head", "s", "of a query head on one core", AT(set.head), 1e-10, 3e-6, 1e-8, Use::set}, \
  {prefix "_step", "s", "of 64 keys on one core", AT(set.step), 1e-10, 2e-6, 1e-8, Use::set}, \
  KEPT(prefix, set)

#define COLLECTIVE(prefix, set) \
  {prefix "_call", "s", "of one call by the protocol of small messages", AT(set.call), 1e-6, 5e-5, 6e-6, Use::set}, \
  {prefix "_hop", "s", "of one step of it", AT(set.hop), 1e-8, 2e-5, 6e-7, Use::set}, \
  {prefix "_ramp", "", "what a step of it costs more with large messages", AT(set.ramp), 1e-2, 30, 1, Use::set}, \
  {prefix "_ramp_bytes", "B", "of the message with half of that", AT(set.ramp_bytes), 1e3, 1e7, 1e5, Use::set}, \
  {prefix "_rate", "share", "of the link's bandwidth, by the protocol of small messages", AT(set.rate), 0.02, 1.2, 0.3, Use::set}, \
  {prefix "_bulk_call", "s", "of one call by the protocol of large messages", AT(set.bulk_call), 1e-6, 1e-4, 1.5e-5, Use::set}, \
  {prefix "_bulk_hop", "s", "of one step of it, once buffers fill", AT(set.bulk_hop), 1e-8, 5e-5, 4e-6, Use::set}, \
  {prefix "_fill_bytes", "B", "of the message with half of that", AT(set.fill_bytes), 1e4, 1e9, 4e6, Use::set}, \
  {prefix "_step", "s", "of one step of it at any size", AT(set.step), 1e-9, 2e-5, 5e-7, Use::set}, \
  {prefix "_bulk_rate", "share", "of the link's bandwidth, by the protocol of large messages", AT(set.bulk_rate), 0.1, 1.2, 0.8, Use::set}, \
  {prefix "_pair", "", "what two ranks alone lack of it", AT(set.pair), 1e-3, 3, 0.3, Use::set}, \
  {prefix "_preference", "", "for small messages' protocol: its time over the other's up to which it is taken", AT(set.preference), 0.2, 3, 0.9, Use::set}, \
  {prefix "_switch_rate", "share", "of the link's bandwidth, of sums inside the switch", AT(set.switch_rate), 0.3, 1.3, 1, Use::set}

#define LINES(prefix, set, use) \
  {prefix "_line", "s", "of a line on a core", AT(set.line), 1e-9, 1e-5, 1e-7, Use::use}, \
  {prefix "_rate", "B/clock", "through one core", AT(set.rate), 1, 500, 30, Use::use}, \
  {prefix "_flops", "share", "of the vector peak", AT(set.flops), 0.01, 10, 1, Use::use}
#define CALL(prefix, set, use) {prefix "_call", "s", "of one call beside the launch", AT(set.call), 1e-8, 8e-5, 1e-6, Use::use}
#define AGAIN(prefix, set, use) \
  {prefix "_again", "", "of the bytes read, by further passes over lines that were not kept", AT(set.again), 1e-3, 4, 0.5, Use::use}, \
  {prefix "_resident", "lines", "on a core at a time", AT(set.resident), 1, 64, 8, Use::use}, \
  {prefix "_cache", "share", "of L2, against a kernel that passes once", AT(set.cache), 0.1, 10, 1, Use::use}

constexpr KernelConstant table[] = {
    {"launch_overhead", "s", "least time from one kernel's start to the next one's", AT(launch_overhead), 5e-8, 5e-5, 1.6e-06, Use::pointwise},
    {"eager_overhead", "s", "that an eager framework adds to one call between two events", AT(eager_overhead), 1e-6, 2e-4, 1.4e-05, Use::pointwise},
    {"host_overhead", "s", "that a host's clock around one call and its synchronisation adds", AT(host_overhead), 1e-6, 2e-4, 1.4e-05, Use::pointwise},
    {"stream_read", "share", "of the memory bandwidth, of reading", AT(stream_read), 0.3, 1.2, 0.85, Use::pointwise},
    {"stream_write", "share", "of the memory bandwidth, of writing", AT(stream_write), 0.3, 1.2, 0.85, Use::pointwise},
    {"stream_l2_rate", "B/clock", "between L2 and one core", AT(stream_l2_rate), 2, 256, 30, Use::pointwise},
    {"stream_kept_from", "share", "of L2: what passes once stays up to this", AT(stream_kept_from), 0.05, 1.5, 0.4, Use::pointwise},
    {"stream_kept_to", "share", "of L2: nothing of what passes once stays from here on", AT(stream_kept_to), 0.3, 4, 1.1, Use::pointwise},
    LINES("pointwise", pointwise, pointwise),
    LINES("gated", gated, pointwise),
    CALL("softmax", softmax, softmax),
    LINES("softmax", softmax, softmax),
    CALL("long_softmax", long_softmax, softmax),
    LINES("long_softmax", long_softmax, softmax),
    AGAIN("long_softmax", long_softmax, softmax),
    CALL("normalization", normalization, normalization),
    LINES("normalization", normalization, normalization),
    AGAIN("normalization", normalization, normalization),
    {"l2_kept_from", "share", "of L2: a working set up to this stays", AT(l2_kept_from), 0.05, 1.5, 0.4, Use::gemm16},
    {"l2_kept_to", "share", "of L2: nothing of a working set from here on stays", AT(l2_kept_to), 0.3, 4, 1.1, Use::gemm16},

    GEMM("gemm16", gemm16),
    GEMM("gemm8", gemm8),
    CALL("quantize", quantize, gemm8),
    LINES("quantize", quantize, gemm8),
    GEMM("gemm_weights", gemm_weights),
    LANE_GEMM("gemm32", gemm32, gemm32),
    LANE_GEMM("batched32", batched32, batched32),
    CONVOLUTION("conv", convolution),
    CONVOLUTION("conv16", convolution16),

    PREFILL("prefill", prefill),
    PREFILL("prefill8", prefill8),
    DECODE("decode", decode),
    DECODE("decode8", decode8),

    COLLECTIVE("all_reduce", all_reduce),
    {"all_reduce_switch_from", "ranks", "whose sums a switch makes", AT(all_reduce.switch_from), 2, 100, 8, Use::all_reduce},
    {"all_reduce_eager", "s", "least time of an eager call", AT(all_reduce.eager), 1e-6, 2e-4, 3e-5, Use::all_reduce},
    COLLECTIVE("gather", gather),
    COLLECTIVE("exchange", exchange),
    COLLECTIVE("send", send),
    {"network_hop", "s", "of one step through network cards", AT(network_hop), 1e-6, 1e-4, 1.4e-5, Use::network},
    {"network_rate", "share", "of a network card's bandwidth", AT(network_rate), 0.1, 1.1, 0.9, Use::network},
    {"network_tree", "share", "of that, of trees", AT(network_tree), 0.3, 1, 0.9, Use::network},

    {"contraction_efficiency", "share", "of the matrix peak that products reach", AT(contraction_efficiency), 0.05, 1, 0.22, Use::cpu},
    {"convolution_efficiency", "share", "of the matrix peak that dense convolutions reach", AT(convolution_efficiency), 0.05, 1, 0.22, Use::cpu},
    {"depthwise_efficiency", "share", "of the matrix peak that depthwise convolutions with many taps reach", AT(depthwise_efficiency), 0.01, 1, 0.1, Use::cpu},
    {"depthwise_fill", "taps", "a depthwise convolution of so many taps reaches half of that", AT(depthwise_fill), 0.1, 100, 3.2, Use::cpu},
    {"pooling_efficiency", "share", "of the vector peak that pooling reaches", AT(pooling_efficiency), 1e-4, 1, 0.01, Use::cpu},
    {"pointwise_efficiency", "share", "of the vector peak that pointwise ops reach", AT(pointwise_efficiency), 1e-4, 1, 0.01, Use::cpu},
    {"reduction_efficiency", "share", "of the vector peak that reductions reach", AT(reduction_efficiency), 1e-4, 1, 0.01, Use::cpu},
    {"softmax_efficiency", "share", "of the vector peak that softmax reaches", AT(softmax_efficiency), 1e-4, 1, 0.01, Use::cpu},
    {"normalization_efficiency", "share", "of the vector peak that normalizations reach", AT(normalization_efficiency), 1e-4, 1, 0.01, Use::cpu},
    {"movement_bandwidth", "B/s", "bytes that pass a core when elements change places", AT(movement_bandwidth), 1e8, 1e13, 3.2e+10, Use::cpu},
    {"lookup_bandwidth", "B/s", "bytes that pass a core when rows are gathered", AT(lookup_bandwidth), 1e8, 1e13, 3.2e+10, Use::cpu},
    {"vector_lanes", "channels", "channels that convolutions of a CPU take at once", AT(vector_lanes), 1, 32, 5.7, Use::cpu},
    {"memory_overlap", "share", "of the lesser of math and memory that hides behind the greater", AT(memory_overlap), 0.02, 1, 0.14, Use::cpu},
};
#undef COLLECTIVE
#undef LINES
#undef CALL
#undef AGAIN
#undef GEMM
#undef CONVOLUTION
#undef LANE_GEMM
#undef KEPT
#undef PREFILL
#undef DECODE
#undef AT

}  // namespace

std::span<const KernelConstant> kernel_constant_table() { return table; }

void inherit_constants(std::map<std::string, Figure>& own, const std::map<std::string, Figure>& shared) {
  std::set<Use> there;
  for (const KernelConstant& c : table)
    if (own.contains(std::string(c.name))) there.insert(c.use);
  for (const KernelConstant& c : table)
    if (const auto at = shared.find(std::string(c.name)); at != shared.end() && !there.contains(c.use)) own.insert(*at);
}

KernelConstants kernel_constants(const Hardware& hardware) {
  KernelConstants constants;
  for (const KernelConstant& c : table)
    if (const auto at = hardware.kernel.find(std::string(c.name)); at != hardware.kernel.end()) c.of(constants) = at->second.value;
  return constants;
}

}  // namespace roofcast
