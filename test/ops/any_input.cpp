// Rules meet whatever a file may hold: no rank, dim, type, value or attribute may break them.
#include "support/one_op.h"

#include <catch2/catch.hpp>

#include <random>

using namespace roofcast;

namespace {

constexpr const char* attribute_names[] = {
    "K", "N", "activation", "allowzero", "alpha", "auto_pad", "axes", "axis", "batch_dims", "bits",
    "block_size", "blocksize", "border", "broadcast", "cast_to", "ceil_mode", "channels_last",
    "dilations", "dilation", "direction", "dtype", "end", "equation", "group", "groups",
    "hidden_size", "is_causal", "k", "keep_aspect_ratio_policy", "keepdims", "kernel_shape",
    "kv_num_heads", "layout", "mode", "new_axis", "num_groups", "num_heads", "num_outputs",
    "offset_group", "onesided", "output_padding", "output_shape", "p", "pads", "perm",
    "pooled_shape", "q_num_heads", "reduction", "sampling_ratio", "scale", "scales", "shape",
    "size", "spatial", "split", "start", "starts", "ends", "step", "stash_type", "strides", "to",
    "training_mode", "transA", "transB", "transBatchA", "values", "window"};
constexpr const char* words[] = {"", "SAME_UPPER", "VALID", "linear", "cubic", "none", "mean",
                                 "NCHW", "ij,jk->ik", "...i,->", "->", ",", "bidirectional",
                                 "CRD", "max"};
constexpr int64_t sizes[] = {0, 1, 2, 3, 4, 7, 64, 1024, int64_t{1} << 40, (int64_t{1} << 62) - 1};
constexpr int64_t numbers[] = {0, 1, -1, 2, 3, -2, 4, 5, 8, 100, -100, 1 << 20, int64_t{1} << 61,
                               INT64_MAX, INT64_MIN};

class Fuzz {
public:
  explicit Fuzz(uint32_t seed) : engine_(seed) {}
  size_t below(size_t n) { return engine_() % n; }
  template <class T, size_t N> T pick(const T (&list)[N]) { return list[below(N)]; }

  Expr dim(OneOp& op) {
    switch (below(8)) {
    case 0: return {};
    case 1: return op.symbol("n");
    case 2: return op.symbol("m") * 2 + 1;
    default: return pick(sizes);
    }
  }
  std::vector<int64_t> list() {
    std::vector<int64_t> out(below(6));
    for (int64_t& v : out) v = pick(numbers);
    return out;
  }
  void input(OneOp& op) {
    const DType dtype = static_cast<DType>(below(dtype_count));
    switch (below(8)) {
    case 0: op.absent(); break;
    case 1: op.unranked(dtype); break;
    case 2: op.values(list()); break;
    case 3: op.reals({0.5, -1, 3e38, 0.3333}); break;
    default: {
      OneOp::Dims dims(below(10) ? below(6) : below(limits::rank + 1));
      for (Expr& d : dims) d = dim(op);
      op.input(std::move(dims), dtype);
    }
    }
  }
  void attribute(OneOp& op) {
    const char* name = pick(attribute_names);
    switch (below(5)) {
    case 0: op.set(name, pick(words)); break;
    case 1: op.set(name, 1e300 * static_cast<double>(pick(numbers))); break;
    case 2: op.set(name, pick(numbers)); break;
    default: op.set(name, list());
    }
  }

private:
  std::mt19937 engine_;
};

}  // namespace

TEST_CASE("no input breaks a rule", "[ops]") {
  Fuzz fuzz(1);
  size_t fine = 0, faults = 0;
  for (OpFamily family : op_families())
    for (const OpInfo& row : family)
      for (int round = 0; round < 60; ++round) {
        OneOp op(row.name, row.since + static_cast<int>(fuzz.below(3)) * 6, row.domain);
        for (size_t i = fuzz.below(10); i > 0; --i) fuzz.input(op);
        for (size_t i = fuzz.below(8); i > 0; --i) fuzz.attribute(op);
        op.outputs(fuzz.below(5));
        INFO(row.domain << ":" << row.name << " round " << round);
        const OneOp::Result result = op.run();
        result.fault ? ++faults : ++fine;
        if (result.fault) CHECK(!result.fault->message.empty());
      }
  CHECK(fine > 0);
  CHECK(faults > 0);
}
