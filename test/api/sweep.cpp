// Points of a sweep equal analyses; knees equal a search over all integers.
#include "ir/graph.h"
#include "ir/solve.h"
#include "roofcast/sweep.h"

#include <catch2/catch.hpp>

#include <map>
#include <random>

using namespace roofcast;

namespace {

std::string model_path(const std::string& name) { return std::string(ROOFCAST_SOURCE_DIR) + "/models/" + name + ".onnx"; }

void check(const std::string& name, const std::string& symbol, int64_t from, int64_t to, const char* hw) {
  INFO(name << " over " << symbol);
  const Result<Hardware> hardware = load_hardware(hw);
  const Result<Model> model = load(model_path(name), {.keep_symbols = true});
  REQUIRE(model);
  const Result<Sweep> s = sweep(*model, {*hardware}, {.over = {{symbol, from, to}}});
  REQUIRE(s);
  std::map<std::string, std::pair<int64_t, std::string>> knees;  // op → first change, from the sweep
  for (const Knee& k : s->knees) knees[k.op] = {k.value, k.to};
  std::map<std::string, std::string> last;
  std::map<std::string, std::pair<int64_t, std::string>> found;
  for (int64_t v = from; v <= to; ++v) {
    const Result<Model> bound = load(model_path(name), {.set = {{symbol, v}}});
    REQUIRE(bound);
    const Result<Analysis> a = analyze(*bound, *hardware, {});
    REQUIRE(a);
    const SweepPoint& point = s->points[static_cast<size_t>(v - from)];
    CHECK(point.value == v);
    CHECK(point.flops == a->totals.flops);
    CHECK(point.bytes_read == a->totals.bytes_read);
    CHECK(*point.time == Approx(*a->totals.time).epsilon(1e-12));
    CHECK(point.bound == a->totals.bound);
    CHECK(point.peak_memory == a->totals.peak_memory);
    auto note = [&](const std::string& op, const std::optional<std::string>& now) {
      if (!now) return;
      auto [at, is_new] = last.try_emplace(op, *now);
      if (!is_new && at->second != *now) found.try_emplace(op, v, *now), at->second = *now;
    };
    for (const OpRow& row : a->ops) note(row.name, row.bound);
    note("model", a->totals.bound);
  }
  for (const auto& [op, knee] : knees) {
    INFO(op);
    REQUIRE(found.contains(op));
    CHECK(found.at(op) == knee);
  }
  // Every change is that of some class.
  for (const auto& [op, change] : found) {
    INFO(op);
    CHECK(std::any_of(knees.begin(), knees.end(), [&](const auto& k) { return k.second == change; }));
  }
  CHECK(found.contains("model") == knees.contains("model"));
}

}  // namespace

TEST_CASE("sweeps of shipped models equal analyses and brute force") {
  check("resnet50", "batch", 1, 80, "h100-sxm");
  check("gpt2_decode", "batch", 1, 120, "t4");
  check("gpt2_decode", "past_len", 1, 90, "a100-sxm-80");
  check("bert_base_int4", "seq", 1, 150, "l4");
}

TEST_CASE("sign changes of random polynomials are all found") {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    Polynomial p;
    const int degree = 1 + static_cast<int>(random() % 5);
    for (int i = 0; i <= degree; ++i) p.push_back(static_cast<double>(static_cast<int>(random() % 2001) - 1000));
    const std::vector<int64_t> at = sign_changes(p, -60, 60);
    for (int64_t x = -59; x <= 60; ++x) {
      const bool before = value_at(p, static_cast<double>(x - 1)) < 0, now = value_at(p, static_cast<double>(x)) < 0;
      std::string text;
      for (double c : p) text += std::to_string(c) + " ";
      INFO(text << " at " << x);
      if (before != now) CHECK(std::find(at.begin(), at.end(), x) != at.end());
    }
  }
}
