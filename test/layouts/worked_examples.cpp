// Exercises of jax-ml/scaling-book in ../shared/layouts/worked_examples.json: each with inputs and a
// formula, answered by the parts of roofcast that such a question meets, on hardware that has the
// example's constants.
#include "layouts/cases.h"
#include "support/one_op.h"
#include "time/collectives.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <unistd.h>

using namespace roofcast;

namespace {

using Json = nlohmann::json;

Hardware device(double peak, double memory, double link = 1, double capacity = 1) {
  Hardware h;
  h.name = "example";
  for (const char* type : {"bf16", "int8", "fp8"}) h.matrix_peak[type] = {peak, "worked_examples.json", {}};
  h.memory["hbm"].bandwidth = Figure{memory, "worked_examples.json", {}};
  h.memory["hbm"].capacity = Figure{capacity, "worked_examples.json", {}};
  Link& l = h.link["ici"];
  l.bandwidth = Figure{link, "worked_examples.json", {}};
  return h;
}

// rows × inner by inner × columns; bytes of an element of the input, the weights and the output.
Problem product(double rows, double inner, double columns, double in, double weights, double out) {
  Problem p;
  p.kind = Kind::contraction, p.math = MathType::bf16, p.matrix_flops = 2 * rows * inner * columns;
  p.operands = {{DType::bfloat16, rows * inner * in, false}, {DType::bfloat16, inner * columns * weights, false}, {DType::bfloat16, rows * columns * out, true}};
  p.bytes_read = p.operands[0].bytes + p.operands[1].bytes, p.bytes_written = p.operands[2].bytes;
  return p;
}
Problem reads(double bytes) {
  Problem p;
  p.kind = Kind::movement, p.bytes_read = bytes;
  return p;
}
double ideal(const Problem& p, const Hardware& h) { return *predict(p, h, TimeModel::ideal).ideal; }

// Where `below` ends, by bisection.
double turning_point(const std::function<bool(double)>& below) {
  double low = 1, high = 1e9;
  for (int k = 0; k < 100; ++k) (below((low + high) / 2) ? low : high) = (low + high) / 2;
  return low;
}
// Rows from which a product takes longer to compute than its bytes to move.
double critical_rows(const Hardware& h, double inner, double columns, double in, double weights, double out) {
  return turning_point([&](double rows) {
    const Time t = predict(product(rows, inner, columns, in, weights, out), h, TimeModel::ideal);
    return *t.math < *t.hbm;
  });
}

CollectiveTime moved(CollectiveKind kind, double bytes, int64_t ranks, double rate) {
  return collective_time({kind, bytes, ranks, 1}, device(1, 1, rate), TimeModel::ideal);
}
// The book lets each rank send the whole array round, not (n − 1)/n of it.
constexpr int64_t many = 1 << 16;

// Gated MLP, as many KV heads as heads of 128, no biases.
Model transformer(int64_t layers, int64_t hidden, int64_t ffn, int64_t vocab, const char* form) {
  const std::string file = (std::filesystem::temp_directory_path() / ("roofcast-example-" + std::to_string(getpid()) + ".json")).string();
  std::ofstream(file) << "{\"model_type\": \"llama\", \"num_hidden_layers\": " << layers << ", \"hidden_size\": " << hidden << ", \"intermediate_size\": " << ffn
                      << ", \"num_attention_heads\": " << hidden / 128 << ", \"vocab_size\": " << vocab << ", \"torch_dtype\": \"bfloat16\", \"tie_word_embeddings\": false}";
  LoadOptions options;
  options.form = form, options.set = {{"*", 1}}, options.keep_symbols = true;
  Result<Model> model = load(file, options);
  std::filesystem::remove(file);
  if (!model) FAIL(model.error().message);
  return *model;
}
double parameters(const Model& model, std::string_view of = {}) {
  double sum = 0;
  const Module& m = model.module();
  for (const Value& v : m.values)
    if (v.storage == Storage::weight && !v.producer.valid() && (of.empty() || m.names[v.name].find(of) != std::string::npos))
      sum += static_cast<double>(v.type->elements().as_constant().value_or(0));
  return sum;
}

using Answer = std::function<Json(const Json& in)>;
const std::map<std::string, Answer>& answers() {
  static const std::map<std::string, Answer> all = {
      {"roofline-1a", [](const Json& in) {
         const double e = in["bytes_per_el"];
         const Problem p = product(in["B"], in["D"], in["F"], e, e, e);
         return Json(p.bytes_read + p.bytes_written);
       }},
      {"roofline-2", [](const Json& in) { return Json(critical_rows(device(in["peak"], in["hbm_bw"]), 1 << 20, 1 << 20, 2, 1, 2)); }},
      {"roofline-5", [](const Json& in) { return Json(critical_rows(device(in["peak"], in["hbm_bw"]), 1 << 20, 1 << 20, 2, 2, 2)); }},
      {"tpus-2b", [](const Json& in) {
         const Hardware v5p = device(in["bf16"], 1, 1, in["hbm"]);
         const double chips = in["chips"], per_host = in["chips_per_host"];
         return Json{{"hosts", chips / per_host}, {"cores", 2 * chips}, {"flops", chips * *matrix_rate(v5p, MathType::bf16)}, {"hbm_bytes", chips * *memory_capacity(v5p)}};
       }},
      {"tpus-4a", [](const Json& in) { return Json(critical_rows(device(in["peak"], in["bw"]), in["D"], in["F"], 1, 1, 1)); }},
      {"tpus-5", [](const Json& in) {
         const double first = in["hops"].get<double>() * in["hop_latency"].get<double>();
         return Json{{"first_byte_s", first}, {"total_s", first + *moved(CollectiveKind::send_recv, in["bytes"], 2, in["bw"]).net}};
       }},
      {"tpus-6", [](const Json& in) {
         const double bytes = in["bytes"], links = in["hosts"].get<double>() * in["pcie_links_per_host"].get<double>();
         const Time t = predict(product(8, 1 << 17, 1 << 17, 2, 1, 2), device(in["peak"], in["hbm_bw"]), TimeModel::ideal);
         // The corner chip takes what the others hold over its two links.
         return Json{{"pcie_s", *moved(CollectiveKind::send_recv, bytes / links, 2, in["pcie"]).net},
                     {"ici_s", *moved(CollectiveKind::all_gather, bytes, 16, 2 * in["ici"].get<double>()).net}, {"hbm_s", *t.hbm}, {"flops_s", *t.math}};
       }},
      {"sharding-pop2a", [](const Json& in) {
         const double bytes = in["bytes"], one_way = in["ici_uni"];
         return Json{{"ideal_ring_s", *moved(CollectiveKind::all_gather, bytes, many, 2 * one_way).net},
                     {"line_s", *moved(CollectiveKind::all_gather, bytes, in["axis"], one_way).net}};
       }},
      {"sharding-pop2b", [](const Json& in) { return Json(in["hops"].get<double>() * in["hop"].get<double>()); }},
      {"sharding-1", [](const Json& in) {
         // The weight of a product is split over X; every other rank of the mesh holds the same.
         const int64_t x = in["X"], rest = in["Y"].get<int64_t>() * in["Z"].get<int64_t>();
         const Placement split = Placement::sharded(0, x);
         return Json(static_cast<double>(x * rest) / split.ways);
       }},
      {"sharding-2c", [](const Json& in) {
         const double bytes = 2 * in["B"].get<double>() * in["D"].get<double>() / (in["X"].get<double>() * in["Y"].get<double>());
         return Json(*moved(CollectiveKind::all_reduce, bytes, many, in["W"]).net);
       }},
      {"sharding-4", [](const Json& in) {
         // The whole product hides the gathered weights; partial products end in an all-reduce.
         const Hardware h = device(in["C_over_W"], 1e9);
         const double rows = 8, columns = 1024;
         const double reduced = *moved(CollectiveKind::all_reduce, 2 * rows * columns, many, 1).net;
         return Json(turning_point([&](double inner) { return *predict(product(rows, inner, columns, 0, 0, 0), h, TimeModel::ideal).math < reduced; }));
       }},
      {"sharding-10b", [](const Json& in) {
         // On a ring in one direction a message of an all-to-all crosses half of the links.
         const double n = in["N"], ranks = in["D"];
         return Json(moved(CollectiveKind::all_to_all, n * n / ranks, in["D"], 1).wire_bytes * ranks / 2);
       }},
      {"transformers-1a", [](const Json& in) { return Json(parameters(transformer(in["L"], in["D"], in["F"], in["V"], "prefill"))); }},
      {"transformers-1b", [](const Json& in) {
         const Model one = transformer(1, in["D"], in["F"], 128, "prefill");
         return Json(parameters(one, "self_attn") / (parameters(one, "self_attn") + parameters(one, "mlp")));
       }},
      {"transformers-1c", [](const Json& in) {
         // One token in the cache, a byte an element.
         const Model decode = transformer(in["L"], in["NH"], 4 * in["NH"].get<int64_t>(), 128, "decode");
         const Hardware h = device(1, 1);
         LayoutModel layouts(decode.module(), h, {});
         return Json(layouts.step({}, false)->memory.kv_cache / 2);
       }},
      {"transformers-4", [](const Json& in) {
         OneOp op("Attention");
         const int64_t g = in["G"], s = in["S"];
         op.input({1, g, 1, 128}, DType::bfloat16).input({1, 1, s, 128}, DType::bfloat16).input({1, 1, s, 128}, DType::bfloat16);
         const OneOp::Result r = op.run();
         REQUIRE(!r.fault);
         return Json(r.matrix() / (r.read() + r.written()));
       }},
      {"transformers-7", [](const Json& in) {
         // A token's forward and backward are products with the parameters that are active: 2N and 4N.
         const double work = 3 * product(in["tokens"], in["active"], 1, 0, 0, 0).matrix_flops;
         return Json(work / (in["hours"].get<double>() * 3600 * in["peak"].get<double>()));
       }},
      {"training-2a", [](const Json& in) {
         // Adam's moments in fp32; the book keeps no fp32 copy of the weights and no gradients.
         const Model model = transformer(40, 5120, 13824, 32000, "train");
         const Hardware h = device(1, 1);
         LayoutModel layouts(model.module(), h, {.step = {.training = true}});
         const StepMemory memory = layouts.step({}, false)->memory;
         CHECK(parameters(model) == Approx(in["params"].get<double>()).epsilon(0.01));
         return Json(memory.weights + memory.optimizer - 4 * parameters(model));
       }},
      {"training-3mem", [](const Json& in) {
         // What the products put out is kept, in bf16: the block's, and both of the gated MLP.
         double kept = 0;
         for (const char* width : {"D", "F", "F"}) kept += product(in["B"], 1, in[width], 0, 0, 2).bytes_written * in["L"].get<double>();
         return Json{{"total", kept + 130e9}, {"slice_hbm", in["chips"].get<double>() * *memory_capacity(device(1, 1, 1, in["hbm"]))}};
       }},
      {"inference-pop-a", [](const Json& in) {
         const double chips = in["chips"];
         return Json(ideal(reads(in["B"].get<double>() * in["kv"].get<double>() / chips), device(1e30, in["bw"])) +
                     ideal(product(in["B"], in["params"].get<double>() / chips, 1, 0, 1, 0), device(197e12, in["bw"])));
       }},
      {"inference-pop-b", [](const Json& in) {
         const double chips = in["chips"];
         const Hardware h = device(in["peak"], in["bw"]);
         return Json(ideal(reads(in["B"].get<double>() * in["kv"].get<double>() / chips), h) + ideal(product(in["B"], in["params"].get<double>() / chips, 1, 0, 1, 0), h));
       }},
      {"inference-2a", [](const Json& in) {
         const double capacity = in["chips"].get<double>() * *memory_capacity(device(1, 1, 1, in["hbm"]));
         return Json(std::floor((capacity - in["params"].get<double>()) / (in["kv_per_tok"].get<double>() * in["context"].get<double>())));
       }},
      {"inference-2b", [](const Json& in) {  // otherwise as 2a
         return Json(std::floor((16 * 16e9 - 18385207296.) / (in["kv_per_tok"].get<double>() * 8192)));
       }},
      {"inference-5b", [](const Json& in) {
         // All experts' weights are read, each token meets k of E.
         const double share = in["k"].get<double>() / in["E"].get<double>(), base = in["base"];
         return Json(turning_point([&](double tokens) {
           const Time t = predict(product(tokens * share, 1 << 20, 1 << 20, 0, 2, 0), device(base, 1), TimeModel::ideal);
           return *t.math < *t.hbm;
         }));
       }},
      {"applied-training-time", [](const Json& in) {
         // 15T tokens through the 70e9 parameters of Llama 3.
         const double work = 3 * product(15e12, 70e9, 1, 0, 0, 0).matrix_flops;
         return Json(work / (in["chips"].get<double>() * in["peak"].get<double>() * in["mfu"].get<double>()));
       }},
  };
  return all;
}

}  // namespace

TEST_CASE("worked examples of jax-ml/scaling-book", "[layouts]") {
  const std::string file = std::string(ROOFCAST_SOURCE_DIR) + "/../shared/layouts/worked_examples.json";
  if (!present(file)) return;
  std::ifstream stream(file);
  const Json document = Json::parse(stream);
  for (const Json& e : document["examples"]) {
    if (e["inputs"].empty() || e["formula"].get<std::string>().empty()) continue;
    const std::string id = e["id"];
    INFO(id << ": " << e["question"].get<std::string>());
    const auto at = answers().find(id);
    if (at == answers().end()) {
      FAIL_CHECK("no answer to it");
      continue;
    }
    const Json own = at->second(e["inputs"]);
    auto close = [&](const Json& have, const Json& want) {
      const double tolerance = e["rel_tolerance"];
      CHECK(have.get<double>() == Approx(want.get<double>()).epsilon(std::max(tolerance, 1e-9)));
    };
    if (e["answer"].is_object())
      for (const auto& [key, want] : e["answer"].items()) {
        INFO(key);
        close(own[key], want);
      }
    else
      close(own, e["answer"]);
  }
}
