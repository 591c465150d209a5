#include "layouts/cases.h"

#include <catch2/catch.hpp>

#include <filesystem>

namespace roofcast {

std::string config(const std::string& name) { return std::string(ROOFCAST_SOURCE_DIR) + "/../shared/models/configs/" + name + ".json"; }
std::string exported(const std::string& name) { return std::string(ROOFCAST_SOURCE_DIR) + "/../shared/models/" + name + ".onnx"; }

bool present(const std::string& file) {
  if (std::filesystem::exists(file)) return true;
  WARN("skipped: there is no " << file);
  return false;
}

namespace {

Model loaded(const std::string& file, const Symbols& symbols, bool training, const std::string& attention, const std::string& dtype) {
  LoadOptions options;
  options.set = symbols, options.form = training ? "train" : "prefill", options.attention = attention, options.dtype = dtype, options.keep_symbols = true;
  Result<Model> model = load(file, options);
  if (!model) FAIL(model.error().message);
  return *model;
}
Hardware hardware_of(const char* name) {
  Result<Hardware> hardware = load_hardware(name);
  if (!hardware) FAIL(hardware.error().message);
  return *hardware;
}

}  // namespace

Case::Case(const std::string& file, const Symbols& symbols, LayoutModelOptions options, const char* hardware, const std::string& attention,
           const std::string& dtype)
    : hardware_(hardware_of(hardware)), model_(loaded(file, symbols, options.step.training, attention, dtype)),
      layouts_(std::make_unique<LayoutModel>(model_.module(), hardware_, options)) {}

Step Case::step(const std::string& layout) {
  const Result<Layout> l = parse_layout(layout);
  if (!l) FAIL(l.error().message);
  Result<Step> s = layouts_->step(*l, true);
  if (!s) FAIL(s.error().message);
  return std::move(*s);
}

std::map<Case::Key, Case::Sent> Case::sent(const std::string& layout, bool blocks_only) {
  const Step s = step(layout);
  const Pieces& pieces = layouts_->pieces(*parse_layout(layout));
  std::map<Key, Sent> all;
  for (const StepCollective& c : s.collectives) {
    bool inside = !blocks_only || c.position == UINT32_MAX;
    for (const Piece& p : pieces.all) inside |= p.block && c.position >= p.begin && c.position < p.end;
    if (!inside) continue;
    Sent& sum = all[{std::string(c.axis), c.phase, c.what.kind}];
    sum.bytes += c.time.wire_bytes * static_cast<double>(c.count);
    if (c.time.wire_bytes > sum.each) sum.each = c.time.wire_bytes, sum.calls = 0;
    if (c.time.wire_bytes == sum.each) sum.calls += c.count;
  }
  return all;
}

Piece Case::block(const std::string& layout) {
  step(layout);
  const Piece* best = nullptr;
  const Pieces& pieces = layouts_->pieces(*parse_layout(layout));
  for (const Piece& p : pieces.all)
    if (p.block && (!best || p.times > best->times)) best = &p;
  REQUIRE(best);
  return *best;
}

}  // namespace roofcast
