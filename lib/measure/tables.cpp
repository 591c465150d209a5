#include "measure/tables.h"

#include "ops/gradient.h"
#include "ops/problems.h"
#include "ops/scalar_costs.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <zlib.h>

namespace roofcast {
namespace {

using Cells = std::vector<std::string_view>;

// RFC 4180 without line breaks in cells; quotes around a cell are taken off.
void split(std::string_view line, Cells& cells) {
  cells.clear();
  size_t at = 0;
  while (true) {
    if (at < line.size() && line[at] == '"') {
      const size_t end = std::min(line.find('"', at + 1), line.size());
      cells.push_back(line.substr(at + 1, end - at - 1));
      at = std::min(line.find(',', end), line.size());
    } else {
      const size_t end = std::min(line.find(',', at), line.size());
      cells.push_back(line.substr(at, end - at));
      at = end;
    }
    if (at >= line.size()) return;
    ++at;
  }
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// A kind of table: the shape columns tell it, and say what rows are about.
class RowReader;
struct TableKind {
  std::string_view name;
  std::vector<std::string_view> shape;
  void (RowReader::*read)();
};

// Weight formats of the tables.
struct Format {
  std::string_view name;
  DType activation, weight;
  MathType math;
  bool quantised_first = false;  // the time includes the kernel that quantises the activations
};
constexpr Format formats[] = {
    {"fp32", DType::float32, DType::float32, MathType::fp32},
    {"fp16", DType::float16, DType::float16, MathType::fp16},
    {"bf16", DType::bfloat16, DType::bfloat16, MathType::bf16},
    {"fp8", DType::float8e4m3fn, DType::float8e4m3fn, MathType::fp8, true},
    {"fp8_block", DType::float8e4m3fn, DType::float8e4m3fn, MathType::fp8, true},
    {"int8_wo", DType::bfloat16, DType::int8, MathType::bf16},
    {"int4_wo", DType::bfloat16, DType::int4, MathType::bf16},
    {"int8_sq", DType::int8, DType::int8, MathType::int8},
};
const Format* find_format(std::string_view name) {
  const auto at = std::find_if(std::begin(formats), std::end(formats), [&](const Format& f) { return f.name == name; });
  return at == std::end(formats) ? nullptr : at;
}

// Pointwise ops of the tables: operands read, FLOPs a point.
struct RowsOp {
  std::string_view name, family;
  Kind kind;
  int reads, weights, flops;
  Role line = Role::pass;
};
// Of a kernel of any exponent: log2 and exp2 in more than single precision, as device libraries have it.
constexpr int power = 30;
constexpr RowsOp rows_ops[] = {
    {"add", "pointwise", Kind::pointwise, 2, 0, 1},
    {"mul", "pointwise", Kind::pointwise, 2, 0, 1},
    {"div", "pointwise", Kind::pointwise, 2, 0, 1},
    {"pow", "pointwise", Kind::pointwise, 2, 0, power},
    {"add_scalar", "pointwise", Kind::pointwise, 1, 0, 1},
    {"mul_scalar", "pointwise", Kind::pointwise, 1, 0, 1},
    {"div_scalar", "pointwise", Kind::pointwise, 1, 0, 1},
    {"pow_scalar", "pointwise", Kind::pointwise, 1, 0, power},
    {"gelu", "pointwise", Kind::pointwise, 1, 0, scalar_cost::gelu_erf},
    {"relu", "pointwise", Kind::pointwise, 1, 0, scalar_cost::relu},
    {"tanh", "pointwise", Kind::pointwise, 1, 0, scalar_cost::special},
    {"silu_mul", "pointwise", Kind::pointwise, 2, 0, scalar_cost::silu + 1},
    {"softmax", "softmax_norm", Kind::softmax, 1, 0, 5, Role::online},
    {"layernorm", "softmax_norm", Kind::normalization, 1, 2, 8, Role::online},
    {"rmsnorm", "softmax_norm", Kind::normalization, 1, 1, 5, Role::online},
    {"rope", "rope", Kind::pointwise, 1, 0, 3},
    {"embedding", "embedding", Kind::lookup, 1, 0, 0},
};

CollectiveKind collective_kind(std::string_view name) {
  for (int i = 1; i <= static_cast<int>(CollectiveKind::broadcast); ++i)
    if (roofcast::name(static_cast<CollectiveKind>(i)) == name) return static_cast<CollectiveKind>(i);
  return name == "alltoall" ? CollectiveKind::all_to_all : CollectiveKind::none;
}

class RowReader {
public:
  explicit RowReader(MeasuredTables& tables) : t_(tables) {}

  Status read(size_t file);

private:
  bool has(std::string_view column) const { return column_.contains(column); }
  std::string_view text(std::string_view column) const {
    const auto at = column_.find(column);
    return at == column_.end() ? std::string_view() : cells_[at->second];
  }
  int64_t size(size_t i) const { return static_cast<int64_t>(sizes_[i]); }
  void skip(std::string reason) {
    for (SkippedRows& s : t_.skipped)
      if (s.reason == reason) return void(++s.rows);
    t_.skipped.push_back({std::move(reason), 1});
  }
  void keep(std::string_view family, bool bound = true) {
    row_.family = family, row_.bound = bound;
    t_.rows.push_back(std::move(row_));
  }

  void read_product();
  void read_convolution();
  void read_attention();
  void read_rows();
  void read_collective();
  void read_model();

  Timing timing() const;

  MeasuredTables& t_;
  std::map<std::string_view, size_t> column_;
  Cells cells_;
  std::array<double, 16> sizes_{};
  MeasuredRow row_;

  static const std::vector<TableKind>& kinds();
};

// As the tables' README files say how each source timed.
Timing RowReader::timing() const {
  if (row_.source == "neusight") return Timing::eager;
  if (row_.source == "vidur") return Timing::kernel;
  if (row_.source == "llmcompass") return Timing::host;
  if (row_.note == "eager") return Timing::eager;
  return Timing::graph;
}

void RowReader::read_product() {
  const Format* format = find_format(row_.dtype);
  if (!format) return skip("number format " + std::string(row_.dtype));
  ProductForm form{size(0), size(1), size(2), size(3), format->activation, format->weight, DType::bfloat16, format->math};
  if (format->math == MathType::fp32 || format->math == MathType::fp16) form.c = format->activation;
  // Half precision in memory only.
  if (row_.note.find("fp32 math") != row_.note.npos) form.math = MathType::fp32;
  if (format->quantised_first)
    row_.problems.push_back(rows_problem({.rows = form.m, .cols = form.k, .flops_per_point = scalar_cost::quantize,
                                          .type = DType::bfloat16, .output = format->activation}));
  row_.problems.push_back(product_problem(form));
  // Graphs replay that many copies of a layer; others repeat one.
  row_.problems.back().cycle = row_.source != "aiconfigurator" ? 1 : row_.stack.starts_with("trtllm") ? 5 : 6;
  const bool fp32 = format->math == MathType::fp32;
  if (row_.op == "bmm") return keep("bmm");
  if (fp32) return row_.gpu == "p4" ? keep("linear_fp32_p4", false) : keep("linear_fp32");
  if (format->math == MathType::fp8)
    return row_.dtype == "fp8_block" && row_.stack.starts_with("vllm") ? keep("gemm_fp8_host", false) : keep("gemm_fp8");
  keep(row_.dtype.starts_with("int") ? "gemm_int_weight" : "gemm_bf16");
}

void RowReader::read_convolution() {
  const Format* format = find_format(row_.dtype);
  if (!format) return skip("number format " + std::string(row_.dtype));
  ConvolutionForm form{size(0), size(1), size(2), size(3), size(4), {size(5), size(6)}, {size(7), size(8)},
                       {size(9), size(10)}, format->activation, format->math};
  if (row_.note.find("fp32 math") != row_.note.npos) form.math = MathType::fp32;
  row_.problems.push_back(convolution_problem(form));
  if (row_.op == "conv2d_fwd") return keep("conv_fwd");
  // Of the data: input 0's gradient; of the weight: input 1's.
  const uint32_t needs = row_.op == "conv2d_bwd_data" ? 1 : 2;
  row_.problems = {backward_problems(Gradient::product, row_.problems[0], needs).at(0).problem};
  keep("conv_bwd");
}

void RowReader::read_attention() {
  const Format *format = find_format(row_.dtype), *cache = find_format(text("kv_dtype"));
  if (!format || !cache) return skip("number format " + std::string(row_.dtype));
  const bool decode = row_.op == "attn_decode";
  AttentionForm form{.batch = size(0), .queries = size(1), .keys = size(2), .heads = size(3), .kv_heads = size(4),
                     .head = size(5), .window = size(6), .causal = true, .appends = true};
  form.type = format->math == MathType::fp8 ? DType::float8e4m3fn : format->activation;
  form.cache = cache->weight, form.math = format->math;
  row_.problems.push_back(attention_problem(form));
  if (form.head == 512) return keep("attention_head_512", false);
  keep(decode ? "attention_decode" : "attention_prefill");
}

void RowReader::read_rows() {
  const auto op = std::find_if(std::begin(rows_ops), std::end(rows_ops), [&](const RowsOp& o) { return o.name == row_.op; });
  const Format* format = find_format(row_.dtype);
  if (op == std::end(rows_ops) || !format) return skip("op " + std::string(row_.op));
  row_.problems.push_back(rows_problem({op->kind, size(0), size(1), op->reads, op->weights, op->line,
                                        static_cast<double>(op->flops), format->activation}));
  keep(op->family, op->family != "rope" && op->family != "embedding");
}

void RowReader::read_collective() {
  const CollectiveKind kind = collective_kind(row_.op);
  if (kind == CollectiveKind::none) return skip("collective " + std::string(row_.op));
  row_.collective = {kind, sizes_[2], size(0), 1};
  // Serving stacks have kernels of their own; an eager call copies its buffer.
  if (const std::string_view impl = text("impl"); !impl.starts_with("NCCL") && !impl.starts_with("RCCL")) row_.stack = impl;
  if (row_.timing == Timing::eager)
    row_.problems.push_back(rows_problem({.kind = Kind::movement, .rows = 1, .cols = static_cast<int64_t>(sizes_[2] / 2), .type = DType::bfloat16}));
  const std::string_view link = text("link");
  if (row_.gpu == "l40s") return keep("collectives_l40s", false);
  if (link.starts_with("pcie") || link.find("+pcie") != link.npos || row_.gpu == "a40") return keep("collectives_host_path", false);
  if (size(1) > 1) return keep(kind == CollectiveKind::all_reduce ? "rdma_all_reduce" : "collectives_nodes", kind == CollectiveKind::all_reduce && sizes_[2] >= 64 << 20);
  keep(kind == CollectiveKind::send_recv ? "p2p" : "collectives");
}

void RowReader::read_model() {
  row_.run = ModelRun{text("model"), text("option"), text("mode") == "train", size(0), size(1)};
  row_.fitted = false;  // nothing is fitted on them
  const bool alone = row_.run->option.empty();
  keep(alone ? "models" : "models_option", alone);
}

const std::vector<TableKind>& RowReader::kinds() {
  static const std::vector<TableKind> all = {
      {"products", {"b", "m", "n", "k"}, &RowReader::read_product},
      {"convolutions", {"n", "c", "h", "w", "k", "r", "s", "stride_h", "stride_w", "pad_h", "pad_w"}, &RowReader::read_convolution},
      {"attention", {"batch", "q_len", "kv_len", "heads", "kv_heads", "head_dim", "window"}, &RowReader::read_attention},
      {"rows", {"rows", "cols"}, &RowReader::read_rows},
      {"collectives", {"ranks", "nodes", "bytes"}, &RowReader::read_collective},
      {"models", {"seq_len", "batch"}, &RowReader::read_model},
  };
  return all;
}

Status RowReader::read(size_t file) {
  const std::string& path = t_.paths[file];
  std::string_view rest = t_.files[file]->bytes();
  uint32_t line_number = 0;
  auto next_line = [&]() -> std::optional<std::string_view> {
    if (rest.empty()) return std::nullopt;
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++line_number;
    return line;
  };
  column_.clear();
  const auto header = next_line();
  split(header.value_or(""), cells_);
  for (size_t i = 0; i < cells_.size(); ++i) column_[cells_[i]] = i;
  const size_t columns = cells_.size();
  const TableKind* kind = nullptr;
  for (const TableKind& k : kinds())
    if (std::all_of(k.shape.begin(), k.shape.end(), [&](std::string_view c) { return has(c); }) && (has("time_us") || has("total_ms")) && has("gpu")) {
      kind = &k;
      break;
    }
  if (!kind && !has("source")) return error("file-kind", "no table of measured times", {.file = path}, "columns are source,gpu,dtype,op,…,time_us");
  std::string joined;
  while (const auto line = next_line()) {
    if (line->empty()) continue;
    if (!kind) {
      skip("table " + path.substr(path.rfind('/') + 1) + ", of columns that no prediction has");
      continue;
    }
    split(*line, cells_);
    auto fault = [&](std::string what) { return error("file-kind", std::move(what), {.file = path, .line = line_number}, "one row a line, as the header says"); };
    if (cells_.size() != columns) return fault(std::to_string(cells_.size()) + " cells under " + std::to_string(columns) + " columns");
    row_ = {};
    row_.source = text("source"), row_.gpu = text("gpu"), row_.stack = text("stack"), row_.dtype = text("dtype");
    row_.op = text("op"), row_.note = text("note"), row_.file = file, row_.line = line_number, row_.text = *line;
    joined.clear();
    for (size_t i = 0; i < kind->shape.size(); ++i) {
      const std::string_view cell = text(kind->shape[i]);
      const auto value = number(cell);
      if (!value || *value < 0 || *value > 1e15) return fault(std::string(kind->shape[i]) + " is no size");
      sizes_[i] = *value;
      joined += (i ? "," : "") + std::string(cell);
    }
    const bool micro = has("time_us");
    const auto time = number(text(micro ? "time_us" : "total_ms"));
    if (!time) return fault(micro ? "time_us is no number" : "total_ms is no number");
    if (*time <= 0) {
      skip("no time");
      continue;
    }
    row_.seconds = *time * (micro ? 1e-6 : 1e-3);
    row_.fitted = crc32(0, reinterpret_cast<const Bytef*>(joined.data()), static_cast<uInt>(joined.size())) % 2 == 0;
    // Its layers are those of Sarathi; DeepBench calls the libraries of its day.
    if (row_.source == "vidur") row_.stack = "sarathi";
    if (row_.source == "deepbench") row_.stack = "deepbench";
    // Frameworks see each die as a device.
    if (row_.gpu == "mi250") row_.stack = "gcd";
    row_.timing = timing();
    (this->*kind->read)();
  }
  return Ok{};
}

}  // namespace

std::string_view name(Timing timing) {
  constexpr std::string_view names[] = {"graph", "kernel", "eager", "host"};
  return names[static_cast<int>(timing)];
}

Result<MeasuredTables> read_measured_tables(const std::vector<std::string>& paths) {
  MeasuredTables tables;
  RowReader reader(tables);
  for (const std::string& path : paths) {
    auto file = MappedFile::open(path);
    if (!file) return std::move(file.error());
    tables.files.push_back(std::move(*file));
    tables.paths.push_back(path);
    if (Status status = reader.read(tables.files.size() - 1); !status) return std::move(status.error());
  }
  return tables;
}

}  // namespace roofcast
