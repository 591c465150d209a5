#include "command.h"
#include "options.h"

#include "report/views.h"
#include "roofcast/analyze.h"
#include "roofcast/annotate.h"
#include "support/units.h"

#include <iostream>

namespace roofcast::cli {
namespace {

struct Options {
  ModelOptions model;
  MachineOptions machine;
  LayoutFlags layout;
  ViewOptions view;
  bool tensors = false, symbolic = false;
  std::string html, perfetto, annotate, explain;
};

Result<int> run(const Options& options, const CommonOptions& common) {
  Result<LoadOptions> load_options = options.model.parse();
  if (!load_options) return load_options.error();
  if (options.layout.train) load_options->form = "train";
  const bool latex = common.format == "latex", symbolic = options.symbolic || latex;
  const Result<ParallelOptions> parallel = options.layout.parse();
  if (!parallel) return parallel.error();
  load_options->keep_symbols = symbolic || options.layout.any();
  const Result<Hardware> hardware = load_hardware(options.machine.hardware);
  if (!hardware) return hardware.error();
  const Result<Model> model = load(options.model.file, *load_options);
  if (!model) return model.error();
  const AnalyzeOptions what{.model = options.machine.model, .causal = options.model.causal, .tensors = options.tensors, .symbolic = symbolic, .latex = latex, .explain = options.explain};
  const Result<Analysis> analysis = options.layout.any() ? analyze_parallel(*model, *hardware, what, *parallel) : analyze(*model, *hardware, what);
  if (!analysis) return analysis.error();

  ViewOptions view = options.view;
  view.color = common.use_color();
  const std::string text = common.format == "json" ? to_json("roofcast/analysis/1", *analysis)
                           : common.format == "csv" ? analysis_csv(*analysis)
                           : latex                  ? formulas_latex(*analysis, view)
                           : common.format == "md"  ? analysis_markdown(*analysis, view)
                           : symbolic               ? formulas_text(*analysis, view)
                                                    : options.explain.empty() ? analysis_text(*analysis, view) + next_steps(*analysis)
                                                    : analysis_text(*analysis, view);
  if (Status status = write_output(common, text); !status) return status.error();
  if (!options.html.empty())
    if (Status status = write_file(options.html, analysis_html(*analysis, *hardware)); !status) return status.error();
  if (!options.perfetto.empty())
    if (Status status = write_file(options.perfetto, analysis_perfetto(*analysis)); !status) return status.error();
  if (!options.annotate.empty())
    if (Status status = annotate(*model, *analysis, options.annotate); !status) return status.error();
  print_warnings(common, analysis->warnings);
  if (common.timing)
    for (const PassTime& t : analysis->times) std::cerr << t.pass << "  " << format_seconds(t.seconds) << "\n";
  return common.strict && !analysis->coverage.uncounted.empty() ? 1 : 0;
}

std::function<Result<int>()> add(CLI::App& app, CommonOptions& common) {
  auto options = std::make_shared<Options>();
  options->model.add_to(app);
  options->machine.add_to(app);
  options->layout.add_to(app);
  app.add_option("--top", options->view.top, "rows of the table; 0: all")->capture_default_str()->group("Report");
  app.add_option("--sort", options->view.sort, "time, flops, bytes, intensity or count")
      ->check(CLI::IsMember({"time", "flops", "bytes", "intensity", "count"}))->group("Report");
  app.add_option("--by", options->view.by, "sum rows by op, scope or bound")->check(CLI::IsMember({"op", "scope", "bound"}))->group("Report");
  app.add_flag("--tensors", options->tensors, "types of all tensors (JSON)")->group("Report");
  app.add_flag("--symbolic", options->symbolic, "FLOPs and bytes as algebra in the model's symbols")->group("Report");
  app.add_option("--explain", options->explain, "how the time of this node came about")->type_name("NODE")->group("Report");
  app.add_option("--html", options->html, "write a report with the roofline plot, one file")->type_name("FILE")->group("Report");
  app.add_option("--perfetto", options->perfetto, "write the predicted schedule as a trace for ui.perfetto.dev")->type_name("FILE")->group("Report");
  app.add_option("--annotate", options->annotate, "write a copy of the model with figures as metadata_props")->type_name("FILE.onnx")->group("Report");
  common.add_to(app, {"text", "json", "csv", "md", "latex"});
  return [options, &common] { return run(*options, common); };
}

}  // namespace

const Command analyze_command = {"analyze", "cost, time and bound of a model, per op and in total",
                                 "  roofcast analyze model.onnx --hw a100-sxm-80 --set batch=8\n"
                                 "  roofcast analyze bert.onnx --shape input_ids=1x512 --dtype bf16 --by scope\n",
                                 add};

}  // namespace roofcast::cli
