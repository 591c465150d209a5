// Activations that backward keeps, against the formulae of V. Korthikanti et al., "Reducing Activation
// Recomputation in Large Transformer Models", arXiv 2205.05198, equations 1 to 6: bytes a layer of a
// GPT in 16 bits with dropout, attention as products and softmax. s sequence, b batch, h hidden,
// a heads, t ranks.
#include "layouts/cases.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace roofcast;

namespace {

// A GPT with dropout as the paper has it, written where the test runs.
struct Gpt {
  double s = 2048, b = 1, h = 0, a = 0;
  std::string file;
  Gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t batch) : b(static_cast<double>(batch)), h(static_cast<double>(hidden)), a(static_cast<double>(heads)) {
    file = (std::filesystem::temp_directory_path() / ("roofcast-gpt-" + std::to_string(getpid()) + ".json")).string();
    std::ofstream(file) << "{\"model_type\": \"gpt2\", \"torch_dtype\": \"float16\", \"n_layer\": " << layers << ", \"n_embd\": " << hidden << ", \"n_head\": " << heads
                        << ", \"n_inner\": " << 4 * hidden << ", \"vocab_size\": 51200, \"n_positions\": 2048, \"activation_function\": \"gelu_new\","
                        << " \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1}";
  }
  Gpt(const Gpt&) = delete;
  ~Gpt() { std::filesystem::remove(file); }
  Case model() const { return {file, {{"batch", static_cast<int64_t>(b)}, {"seq", 2048}}, {.step = {.training = true}}, "dgx-a100-80", "eager", "fp16"}; }
};

}  // namespace

TEST_CASE("activations of a layer by the formulae of Korthikanti et al.", "[layouts]") {
  struct Row {
    int64_t layers, hidden, heads, batch;
  };
  const double t = 8;
  // The 22B, 175B, 530B and 1T models of table 3.
  for (const Row& r : {Row{48, 6144, 64, 4}, Row{96, 12288, 96, 1}, Row{105, 20480, 128, 1}, Row{128, 25600, 160, 1}}) {
    INFO("h " << r.hidden);
    const Gpt gpt(r.layers, r.hidden, r.heads, r.batch);
    Case c = gpt.model();
    const double sbh = gpt.s * gpt.b * gpt.h, scores = 5 * gpt.a * gpt.s / gpt.h;
    auto selective = [](const Piece& p) { return p.kept - p.kept_core; };
    CHECK(c.block("tp=1").kept == Approx(sbh * (34 + scores)).epsilon(0.05));
    CHECK(c.block("tp=8").kept == Approx(sbh * (10 + 24 / t + scores / t)).epsilon(0.05));
    CHECK(c.block("tp=8,sp").kept == Approx(sbh / t * (34 + scores)).epsilon(0.05));
    CHECK(selective(c.block("tp=8")) == Approx(sbh * (10 + 24 / t)).epsilon(0.05));
    CHECK(selective(c.block("tp=8,sp")) == Approx(sbh / t * 34).epsilon(0.05));
    CHECK(c.block("tp=8").boundary == Approx(2 * sbh).epsilon(0.05));  // all that full recomputation keeps
  }
}

TEST_CASE("activations of the first stage, figure 1 of Korthikanti et al.", "[layouts]") {
  // Without parallelism beyond tp=8 and pp, and with sequence parallelism and selective recomputation; GiB.
  struct Row {
    int64_t layers, hidden, heads, batch;  // of all microbatches of one
    const char* layout;
    double gib;
  };
  const Row rows[] = {{48, 6144, 64, 4, "tp=8", 59.25},
                      {48, 6144, 64, 4, "tp=8,sp,recompute=selective", 9.5625},
                      {96, 12288, 96, 64, "tp=8,pp=8,vpp=3,mb=64", 66.84375},
                      {96, 12288, 96, 64, "tp=8,pp=8,vpp=3,mb=64,sp,recompute=selective", 12.3515625},
                      {105, 20480, 128, 280, "tp=8,pp=35,vpp=3,mb=280", 114.0234375},
                      {105, 20480, 128, 280, "tp=8,pp=35,vpp=3,mb=280,sp,recompute=selective", 23.076171875}};
  for (const Row& r : rows) {
    INFO(r.hidden << " " << r.layout);
    const Gpt gpt(r.layers, r.hidden, r.heads, r.batch);
    CHECK(gpt.model().step(r.layout).first_activations / 1073741824 == Approx(r.gib).epsilon(0.05));
  }
}
