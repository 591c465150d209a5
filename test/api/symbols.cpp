// One evaluation equals another: symbols bound while loading, or kept and evaluated at the end.
#include "roofcast/analyze.h"

#include <catch2/catch.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

#include "ir/graph.h"
#include "ir/print.h"
#include "passes/pass.h"

using namespace roofcast;

namespace {

using Set = std::vector<std::pair<std::string, int64_t>>;

void same_rows(const Analysis& a, const Analysis& b) {
  REQUIRE(a.ops.size() == b.ops.size());
  for (size_t i = 0; i < a.ops.size(); ++i) {
    INFO(a.ops[i].name << " " << a.ops[i].op);
    CHECK(a.ops[i].shape == b.ops[i].shape);
    CHECK(a.ops[i].matrix_flops == b.ops[i].matrix_flops);
    CHECK(a.ops[i].vector_flops == b.ops[i].vector_flops);
    CHECK(a.ops[i].bytes_read == b.ops[i].bytes_read);
    CHECK(a.ops[i].bytes_written == b.ops[i].bytes_written);
    CHECK(a.ops[i].count == b.ops[i].count);
  }
  CHECK(a.totals.matrix_flops == b.totals.matrix_flops);
  CHECK(a.totals.peak_memory == b.totals.peak_memory);
}

void both_ways(const std::string& path, const Set& set) {
  INFO(path);
  const Result<Hardware> hardware = load_hardware("h100-sxm");
  const Result<Model> bound = load(path, {.set = set}), kept = load(path, {.set = set, .keep_symbols = true});
  REQUIRE(bound);
  REQUIRE(kept);
  const Result<Analysis> a = analyze(*bound, *hardware, {}), b = analyze(*kept, *hardware, {});
  REQUIRE(a);
  REQUIRE(b);
  same_rows(*a, *b);
}

}  // namespace

TEST_CASE("shipped models: bound early or late") {
  const std::string folder = std::string(ROOFCAST_SOURCE_DIR) + "/models/";
  both_ways(folder + "resnet50.onnx", {{"batch", 4}});
  both_ways(folder + "gpt2_decode.onnx", {{"batch", 3}, {"past_len", 200}});
  both_ways(folder + "bert_base_int4.onnx", {{"batch", 2}, {"seq", 384}});
  both_ways(folder + "vit_b_16_functions.onnx", {{"batch", 4}});
  both_ways(folder + "loop_decoder_ts15.onnx", {{"batch", 4}});
}

TEST_CASE("the larger real models: bound early or late") {
  const std::string folder = std::string(ROOFCAST_SOURCE_DIR) + "/../shared/models/";
  const std::pair<const char*, Set> cases[] = {
      {"bert_base", {{"batch", 2}, {"seq", 100}}}, {"clip_vit_b32", {{"texts", 5}, {"images", 3}, {"seq", 77}}},
      {"convnext_tiny", {{"batch", 2}, {"height", 256}, {"width", 192}}}, {"distilbert_dynint8", {{"batch", 4}, {"seq", 200}}},
      {"efficientvit_b1", {{"batch", 4}}}, {"gpt2_prefill", {{"batch", 2}, {"seq", 200}}}, {"gru_encoder_ts15", {{"batch", 3}, {"frames", 400}}},
      {"llama3_8b_prefill", {{"batch", 4}, {"seq", 2048}}}, {"llama3_8b_decode", {{"batch", 16}, {"past_len", 4096}}},
      {"mixtral_8x7b_prefill", {{"batch", 1}, {"seq", 512}}}, {"mobilenet_v3_large", {{"batch", 2}, {"height", 192}, {"width", 256}}},
      {"r3d_18_ts13", {{"batch", 2}, {"frames", 8}, {"h", 96}, {"w", 96}}}, {"resnet50_qdq_int8", {{"batch", 2}, {"height", 320}, {"width", 256}}},
      {"scan_rnn", {{"time", 50}, {"batch", 4}}}, {"unet_ts16", {{"batch", 1}, {"height", 200}, {"width", 136}}}, {"vae_decoder", {{"batch", 1}, {"h", 24}, {"w", 20}}},
      {"wav2vec2_base_ctc", {{"batch", 2}, {"samples", 48000}}}, {"wide_deep_ts12", {{"batch", 512}}}, {"yolos_tiny", {{"batch", 2}}},
      {"ssdlite320_mnv3_ts16", {{"height", 240}, {"width", 400}}}};
  for (const auto& [name, set] : cases)
    if (std::filesystem::exists(folder + name + ".onnx")) both_ways(folder + name + ".onnx", set);
}

// ---- Random graphs, as textual IR.

namespace {

class RandomGraph {
public:
  explicit RandomGraph(unsigned seed) : random_(seed) {}

  // A chain of shape-changing ops over [a, b, 4, 6]; `a` and `b` are symbols or the numbers given.
  std::string text(const std::string& a, const std::string& b) {
    body_.clear(), count_ = 0;
    std::mt19937 saved = random_;
    current_ = "x", rank_ = 4;
    for (int i = 0; i < 12; ++i) step();
    random_ = saved;
    return "opset \"\" 20\ngraph @\"r\"(%x: f32[" + a + ", " + b + ", 4, 6]) -> (%" + current_ + ") {\n" + body_ + "}\n";
  }

private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string constant(const std::string& values) {
    const std::string name = "c" + std::to_string(count_++);
    body_ += "  %" + name + " = Constant() {value_ints = ints [" + values + "]} : ?\n";
    return name;
  }
  void node(const std::string& op, const std::string& inputs, const std::string& attributes = "") {
    const std::string name = "v" + std::to_string(count_++);
    body_ += "  %" + name + " = " + op + "(" + inputs + ")" + (attributes.empty() ? "" : " {" + attributes + "}") + " : ? @\"" + name + "\"\n";
    current_ = name;
  }
  std::string now() const { return "%" + current_; }
  void step() {
    switch (pick(9)) {
    case 0: node("Relu", now()); break;
    case 1: node("Add", now() + ", " + now()); break;
    case 2: {  // a random transpose
      std::vector<int> perm;
      for (int d = 0; d < rank_; ++d) perm.push_back(d);
      std::shuffle(perm.begin(), perm.end(), random_);
      std::string list;
      for (int p : perm) list += (list.empty() ? "" : ", ") + std::to_string(p);
      node("Transpose", now(), "perm = ints [" + list + "]");
      break;
    }
    case 3: node("Concat", now() + ", " + now(), "axis = " + std::to_string(pick(rank_))); break;
    case 4: {
      const std::string axis = constant(std::to_string(pick(rank_))), zero = constant("0"), end = constant("9223372036854775807"), step = constant(std::to_string(1 + pick(3)));
      node("Slice", now() + ", %" + zero + ", %" + end + ", %" + axis + ", %" + step);
      break;
    }
    case 5: {
      if (rank_ < 3) break;
      const std::string target = constant("0, -1");
      node("Reshape", now() + ", %" + target);
      rank_ = 2;
      break;
    }
    case 6: {
      if (rank_ >= 6) break;
      const std::string axis = constant(std::to_string(pick(rank_ + 1)));
      node("Unsqueeze", now() + ", %" + axis);
      ++rank_;
      break;
    }
    case 7: node("Softmax", now(), "axis = " + std::to_string(pick(rank_))); break;
    case 8: {
      if (rank_ < 2) break;
      const std::string axis = constant(std::to_string(pick(rank_)));
      node("ReduceSum", now() + ", %" + axis, "keepdims = 1");
      break;
    }
    }
  }

  std::mt19937 random_;
  std::string body_, current_;
  int rank_ = 4, count_ = 0;
};

std::vector<std::string> types_of(Module& m, const Bindings& values) {
  std::vector<std::string> out;
  for (const Node& n : m.nodes)
    for (ValueId v : m.outputs(n)) {
      std::string text;
      REQUIRE(m[v].type);
      for (Expr d : m[v].type->dims) {
        const auto size = evaluate(d, values);
        REQUIRE(size);
        text += std::to_string(*size) + " ";
      }
      out.push_back(text);
    }
  return out;
}

}  // namespace

TEST_CASE("200 random graphs: symbols then binding, or binding then inference") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    RandomGraph graph(seed);
    const int64_t a = 1 + seed % 7, b = 2 + seed % 5;
    Result<std::unique_ptr<Module>> symbolic = parse(graph.text("a", "b"), "symbolic"), numeric = parse(graph.text(std::to_string(a), std::to_string(b)), "numeric");
    REQUIRE(symbolic);
    REQUIRE(numeric);
    REQUIRE(infer_types(**symbolic));
    REQUIRE(infer_types(**numeric));
    Bindings values;
    values.set(*(*symbolic)->exprs.find_symbol("a"), a);
    values.set(*(*symbolic)->exprs.find_symbol("b"), b);
    INFO(print(**symbolic));
    CHECK(types_of(**symbolic, values) == types_of(**numeric, {}));
  }
}
