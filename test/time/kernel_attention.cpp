// Attention by the kernel model: the same products take as long however their operands are packed.
#include "search/fusion_support.h"

#include <fmt/format.h>

namespace roofcast {
namespace {

double seconds(const std::string& inputs, const std::string& weights, const std::string& nodes, const char* type = "f32") {
  std::string text = fmt::format("opset \"\" 20\nopset \"com.microsoft\" 1\ngraph @\"g\"({}) -> (%out) {{\n {}\n {}\n}}\n", inputs, weights, nodes);
  for (size_t at = 0; (at = text.find("TYPE", at)) != std::string::npos;) text.replace(at, 4, type);
  const FusionCase c(text, TimeModel::kernel);
  double sum = 0;
  for (const FusionGraph::Op& op : c.graph.ops) sum += op.seconds;
  return sum;
}

}  // namespace

TEST_CASE("attention with its projection inside takes what both take, one launch left out", "[time]") {
  const std::string weights = "weight %w: TYPE[768, 2304] bytes 7077888\n weight %b: TYPE[2304] bytes 9216";
  for (const char* type : {"f32", "f16"}) {
    const double one = seconds("%x: TYPE[8, 512, 768]", weights, "%out = com.microsoft::Attention(%x, %w, %b) {num_heads = 12} : ?", type);
    const double apart = seconds("%x: TYPE[8, 512, 768]", weights,
                                 "%qkv = MatMul(%x, %w) : ?\n %out = com.microsoft::MultiHeadAttention(%qkv) {num_heads = 12} : ?", type);
    CHECK(one == Approx(apart).epsilon(0.1));
  }
}

TEST_CASE("attention takes as long with queries, keys and values in one operand", "[time]") {
  for (const char* type : {"f32", "f16"}) {
    const double packed = seconds("%x: TYPE[8, 512, 12, 3, 64]", "", "%out = com.microsoft::MultiHeadAttention(%x) {num_heads = 12} : ?", type);
    const double apart = seconds("%q: TYPE[8, 512, 768], %k: TYPE[8, 512, 768], %v: TYPE[8, 512, 768]", "",
                                 "%out = com.microsoft::MultiHeadAttention(%q, %k, %v) {num_heads = 12} : ?", type);
    CHECK(packed == Approx(apart).epsilon(0.05));
  }
}

}  // namespace roofcast
