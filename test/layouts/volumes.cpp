// What a rank sends, by hand: Megatron's scheme with and without sequence parallelism, data, expert and
// context parallelism. s sequence, b batch, h hidden, t ranks; a ring all-reduce of n bytes sends
// 2(t − 1)/t·n, its halves (t − 1)/t·n.
#include "layouts/cases.h"

#include <catch2/catch.hpp>

using namespace roofcast;

namespace {

using enum CollectiveKind;
constexpr int64_t layers = 96;                          // GPT-3 175B
constexpr double activation = 2048. * 12288 * 2;        // s·h in bf16
constexpr double half_ring = activation * 7 / 8;        // over 8 ranks

Case gpt3(int64_t batch) { return {config("gpt3-175b"), {{"batch", batch}, {"seq", 2048}}, {.step = {.training = true}}}; }

}  // namespace

TEST_CASE("GPT-3 175B over tp=8: two all-reduces forward and two backward a layer", "[layouts]") {
  if (!present(config("gpt3-175b"))) return;
  Case c = gpt3(1);
  CHECK(activation == 50331648);
  CHECK(c.block("tp=8").boundary == activation);
  auto sent = c.sent("tp=8");
  for (Phase phase : {Phase::forward, Phase::backward}) {
    CHECK(sent[{"tp", phase, all_reduce}].each == 88080384);
    CHECK(sent[{"tp", phase, all_reduce}].calls == 2 * layers);
  }
  CHECK(sent.size() == 2);
  CHECK((sent[{"tp", Phase::forward, all_reduce}].bytes + sent[{"tp", Phase::backward, all_reduce}].bytes) / layers == 352321536);
}

TEST_CASE("full recomputation sends again what forward sent", "[layouts]") {
  if (!present(config("gpt3-175b"))) return;
  auto sent = gpt3(1).sent("tp=8,recompute=full");
  CHECK((sent[{"tp", Phase::forward, all_reduce}].bytes + sent[{"tp", Phase::backward, all_reduce}].bytes) / layers == 528482304);
}

TEST_CASE("sequence parallelism: halves of all-reduces, gathered again for backward or kept whole", "[layouts]") {
  if (!present(config("gpt3-175b"))) return;
  Case c = gpt3(1);
  auto sent = c.sent("tp=8,sp");
  for (CollectiveKind kind : {all_gather, reduce_scatter}) {
    CHECK(sent[{"tp", Phase::forward, kind}].each == half_ring);
    CHECK(sent[{"tp", Phase::forward, kind}].calls == 2 * layers);
  }
  CHECK((sent[{"tp", Phase::forward, all_gather}].bytes + sent[{"tp", Phase::forward, reduce_scatter}].bytes) / layers == 176160768);
  CHECK(sent[{"tp", Phase::backward, all_gather}].calls == 4 * layers);
  CHECK(sent[{"tp", Phase::backward, reduce_scatter}].calls == 2 * layers);
  // Norms and biases of row-parallel products are whole on every rank: 6h gradients a layer are summed, too.
  CHECK((sent[{"tp", Phase::backward, all_gather}].bytes + sent[{"tp", Phase::backward, reduce_scatter}].bytes) / layers == 264241152);

  auto gathered = c.sent("tp=8,sp=gathered");
  CHECK(gathered[{"tp", Phase::forward, all_gather}].calls == 2 * layers);
  CHECK(gathered[{"tp", Phase::backward, all_gather}].calls == 2 * layers);
  CHECK(gathered[{"tp", Phase::backward, reduce_scatter}].calls == 2 * layers);
  // 4·s·b·h·(1 − 1/t) bytes more: the inputs of the column-parallel products, two bytes each.
  CHECK(c.block("tp=8,sp=gathered").kept - c.block("tp=8,sp").kept == 4. * 2048 * 12288 * 7 / 8);
}

TEST_CASE("gradients of a layer in fp32 over dp=8", "[layouts]") {
  if (!present(config("gpt3-175b"))) return;
  constexpr double h = 12288, parameters = 12 * h * h + 13 * h;
  CHECK(parameters == 1812099072);
  Case c = gpt3(8);
  CHECK(c.block("dp=8").parameters == parameters);
  auto whole = c.sent("dp=8");
  CHECK(whole[{"dp", Phase::backward, all_reduce}].each == 12684693504);
  CHECK(whole[{"dp", Phase::backward, all_reduce}].calls == layers);
  // Over tp=8 what is split is an eighth; norms and row-parallel biases, 6h, are whole.
  auto split = c.sent("dp=8,tp=8");
  CHECK(split[{"dp", Phase::backward, all_reduce}].each == 1586038272);
}

TEST_CASE("ZeRO 3 over 64: weights gathered twice and gradients scattered, a layer at a time", "[layouts]") {
  if (!present(config("gpt3-175b"))) return;
  auto sent = gpt3(64).sent("dp=64,zero=3");
  const double each = sent[{"dp", Phase::forward, all_gather}].each;
  CHECK(sent[{"dp", Phase::forward, all_gather}].calls == layers);
  CHECK(sent[{"dp", Phase::backward, all_gather}].each == each);
  CHECK(sent[{"dp", Phase::backward, reduce_scatter}].each == each);
  CHECK(3 * each == 10702710144);
}

TEST_CASE("experts over 64 ranks: tokens sent in fp8, results in bf16", "[layouts]") {
  if (!present(config("deepseek-v3"))) return;
  Case c(config("deepseek-v3"), {{"batch", 64}, {"seq", 4096}}, {.dispatch_bits = 8}, "dgx-h100");
  const Step s = c.step("dp=64,ep=64");
  std::map<std::string_view, double> sent;
  for (const StepCollective& each : s.collectives)
    if (each.axis == "ep") {
      sent[each.reason] += each.time.wire_bytes * static_cast<double>(each.count);
    }
  CHECK(sent["tokens go to their experts"] == 58 * 231211008.);   // 4096 · 8 · 7168 · 63/64
  CHECK(sent["experts' results come back"] == 58 * 462422016.);
}

TEST_CASE("ring attention passes keys and values round", "[layouts]") {
  if (!present(config("llama-3-8b"))) return;
  // Eight KV heads over tp=8: one a rank, d 128.
  Case c(config("llama-3-8b"), {{"batch", 1}, {"seq", 131072}}, {}, "dgx-h100");
  const Step s = c.step("tp=8,cp=16");
  double sent = 0;
  for (const StepCollective& each : s.collectives) {
    if (each.axis != "cp") continue;
    CHECK(each.what.kind == send_recv);
    CHECK(each.time.algorithm == "ring");
    CHECK(each.count % 15 == 0);
    sent += each.time.wire_bytes * static_cast<double>(each.count);
  }
  CHECK(sent / 32 == 62914560);  // 15 · 2 · 131072/16 · 128 · 2
}

TEST_CASE("attention written out is split by heads as fused attention is, by every time model", "[layouts]") {
  if (!present(config("gpt3-175b"))) return;
  for (TimeModel model : {TimeModel::ideal, TimeModel::kernel})
    for (const char* hardware : {"dgx-a100-80", "pcie-8xl40s"}) {
      INFO(name(model) << " on " << hardware);
      // Where the scores are scaled, CastLike reads the type of them alone.
      Case c(config("gpt3-175b"), {{"batch", 1}, {"seq", 512}}, {.step = {.training = true}, .model = model}, hardware, "eager");
      auto sent = c.sent("tp=4");
      CHECK(sent.size() == 2);
      for (Phase phase : {Phase::forward, Phase::backward}) CHECK(sent[{"tp", phase, all_reduce}].calls == 2 * layers);
    }
}

TEST_CASE("layouts follow from the graph: exported files send what config.json sends", "[layouts]") {
  struct Pair {
    const char *file, *config, *dtype;
    Symbols symbols;
    double bytes;      // of an activation
    int64_t layers;
  };
  const Pair pairs[] = {{"llama3_8b_prefill", "llama-3-8b", "fp16", {{"batch", 1}, {"seq", 2048}}, 2048. * 4096 * 2, 32},
                        {"bert_base", "bert-base", "fp32", {{"batch", 2}, {"seq", 512}}, 1024. * 768 * 4, 12},
                        {"gpt2_prefill", "gpt2", "fp32", {{"batch", 2}, {"seq", 512}}, 1024. * 768 * 4, 12},
                        {"vit_b_16", "", "fp32", {{"batch", 8}}, 8. * 197 * 768 * 4, 12}};
  for (const Pair& p : pairs) {
    INFO(p.file);
    if (!present(exported(p.file))) continue;
    std::vector<std::string> files{exported(p.file)};
    if (*p.config && present(config(p.config))) files.push_back(config(p.config));
    for (const std::string& file : files) {
      INFO(file);
      Case c(file, p.symbols, {}, "dgx-h100", "fused", p.dtype);
      // Twice a layer, and once more where the embedding or the head asks for it.
      auto twice_a_layer = [&](const Case::Sent& sent, double bytes) {
        CHECK(sent.each == bytes);
        CHECK(sent.calls >= 2 * p.layers);
        CHECK(sent.calls <= 2 * p.layers + 1);
      };
      auto sent = c.sent("tp=4", false);
      twice_a_layer(sent[{"tp", Phase::forward, all_reduce}], p.bytes * 3 / 2);
      sent = c.sent("tp=4,sp", false);
      twice_a_layer(sent[{"tp", Phase::forward, all_gather}], p.bytes * 3 / 4);
      twice_a_layer(sent[{"tp", Phase::forward, reduce_scatter}], p.bytes * 3 / 4);
    }
  }
}
