#include "command.h"
#include "options.h"

#include "report/views.h"
#include "roofcast/sweep.h"
#include "support/diagnostic.h"

#include <charconv>

namespace roofcast::cli {
namespace {

struct Options {
  ModelOptions model;
  MachineOptions machine;
  std::vector<std::string> over, until;
};

// "batch=1..1024:*2", "seq=128..4096:128", "batch=1..64"
std::optional<SweepAxis> parse_axis(const std::string& text) {
  SweepAxis axis;
  const size_t equals = text.rfind('='), dots = text.find("..", equals == text.npos ? 0 : equals);
  if (equals == text.npos || equals == 0 || dots == text.npos) return std::nullopt;
  axis.symbol = text.substr(0, equals);
  auto number = [](std::string_view s, int64_t& out) {
    const auto [end, fault] = std::from_chars(s.data(), s.data() + s.size(), out);
    return fault == std::errc() && end == s.data() + s.size() && !s.empty();
  };
  const std::string_view all = text;
  const size_t colon = std::min(all.find(':', dots), all.size());
  if (!number(all.substr(equals + 1, dots - equals - 1), axis.from) || !number(all.substr(dots + 2, colon - dots - 2), axis.to)) return std::nullopt;
  if (colon == all.size()) return axis;
  std::string_view step = all.substr(colon + 1);
  if (step.starts_with('*')) {
    axis.step = 0;
    return number(step.substr(1), axis.factor) ? std::optional(axis) : std::nullopt;
  }
  return number(step, axis.step) && axis.step > 0 ? std::optional(axis) : std::nullopt;
}

Result<int> run(const Options& options, const CommonOptions& common) {
  Result<LoadOptions> load_options = options.model.parse();
  if (!load_options) return load_options.error();
  load_options->keep_symbols = true;
  SweepOptions what;
  for (const std::string& text : options.over) {
    const auto axis = parse_axis(text);
    if (!axis) return error("usage", "--over " + text + " is not understood", {}, "write --over batch=1..1024:*2 or seq=128..4096:128");
    what.over.push_back(*axis);
  }
  what.until = options.until, what.model = options.machine.model, what.causal = options.model.causal;
  std::vector<Hardware> hardware;
  for (size_t from = 0; from <= options.machine.hardware.size();) {
    const size_t to = std::min(options.machine.hardware.find(',', from), options.machine.hardware.size());
    Result<Hardware> one = load_hardware(options.machine.hardware.substr(from, to - from));
    if (!one) return one.error();
    hardware.push_back(std::move(*one));
    from = to + 1;
  }
  const Result<Model> model = load(options.model.file, *load_options);
  if (!model) return model.error();
  const Result<Sweep> result = sweep(*model, hardware, what);
  if (!result) return result.error();
  const std::string text = common.format == "json" ? to_json("roofcast/sweep/1", *result)
                           : common.format == "csv" ? sweep_csv(*result) : sweep_text(*result, common.use_color());
  if (Status status = write_output(common, text); !status) return status.error();
  print_warnings(common, result->warnings);
  return 0;
}

std::function<Result<int>()> add(CLI::App& app, CommonOptions& common) {
  auto options = std::make_shared<Options>();
  options->model.add_to(app);
  options->machine.add_to(app);
  app.add_option("--over", options->over, "symbol and range: batch=1..1024:*2, seq=128..4096:128")->required()->type_name("NAME=A..B[:STEP]")->group("Report");
  app.add_option("--until", options->until, "solve for a goal: mfu>=0.5, time<=10ms, fits")->type_name("GOAL")->group("Report");
  common.add_to(app, {"text", "json", "csv"});
  return [options, &common] { return run(*options, common); };
}

}  // namespace

const Command sweep_command = {"sweep", "totals over a symbol, the knees, and the value that meets a goal",
                               "  roofcast sweep model.onnx --over batch=1..1024:*2 --hw h100-sxm,a100-sxm-80\n"
                               "  roofcast sweep llama.onnx --set batch=1 --over seq=128..8192:128 --until 'time<=10ms'\n",
                               add};

}  // namespace roofcast::cli
