#include "command.h"
#include "options.h"

#include "report/views.h"
#include "roofcast/analyze.h"
#include "roofcast/diagnose.h"
#include "support/diagnostic.h"

namespace roofcast::cli {
namespace {

struct Options {
  std::vector<std::string> traces;
  std::string baseline, html;
  ModelOptions graph;
  MachineOptions machine;
  ViewOptions view;
};

Result<int> run(const Options& options, const CommonOptions& common) {
  DiagnoseOptions what;
  if (!options.baseline.empty()) what.baseline = options.baseline;
  if (!options.machine.hardware.empty()) {
    const Result<Hardware> hardware = load_hardware(options.machine.hardware);
    if (!hardware) return hardware.error();
    const Link* inner = nullptr;
    for (const auto& [name, link] : hardware->link)
      if (link.size != 1 && link.bandwidth && (!inner || link.level < inner->level)) inner = &link;
    if (inner) what.link_bandwidth = inner->bandwidth->value;
  }
  if (!options.graph.file.empty()) {
    if (options.machine.hardware.empty()) return error("usage", "--graph needs the hardware that ran", {}, "--hw h100-sxm");
    const Result<LoadOptions> load_options = options.graph.parse();
    if (!load_options) return load_options.error();
    const Result<Hardware> hardware = load_hardware(options.machine.hardware);
    if (!hardware) return hardware.error();
    const Result<Model> model = load(options.graph.file, *load_options);
    if (!model) return model.error();
    const Result<Analysis> analysis = analyze(*model, *hardware, {.causal = options.graph.causal});
    if (!analysis) return analysis.error();
    const Totals& t = analysis->totals;
    what.step_flops = t.matrix_flops;
    ModelWork matrix{"matrix", 0, 0, 0}, memory{"memory", 0, 0, 0};
    for (const OpRow& row : analysis->ops) {
      ModelWork& w = row.matrix_flops.value_or(0) > 0 ? matrix : memory;
      w.flops += row.flops.value_or(0), w.bytes += row.bytes_read.value_or(0) + row.bytes_written.value_or(0), w.time_ideal += row.time_ideal.value_or(0);
    }
    what.work = {matrix, memory};
    if (const auto hbm = hardware->memory.find("hbm"); hbm != hardware->memory.end() && hbm->second.bandwidth) what.memory_bandwidth = hbm->second.bandwidth->value;
    if (t.mfu && t.time && *t.mfu > 0) what.peak = *t.matrix_flops / (*t.mfu * *t.time);
  }
  const Result<Diagnosis> d = diagnose(options.traces, what);
  if (!d) return d.error();
  if (!options.html.empty())
    if (Status status = write_file(options.html, diagnosis_html(*d)); !status) return status.error();
  ViewOptions view = options.view;
  view.color = common.use_color();
  if (Status status = write_output(common, common.format == "json" ? to_json("roofcast/diagnosis/1", *d) : diagnosis_text(*d, view)); !status) return status.error();
  print_warnings(common, d->warnings);
  // A trace that ends in the middle is analysed, but the exit status tells.
  return d->incomplete ? 1 : 0;
}

std::function<Result<int>()> add(CLI::App& app, CommonOptions& common) {
  auto options = std::make_shared<Options>();
  app.add_option("TRACE", options->traces, "PyTorch Profiler or ONNX Runtime JSON (also .gz), Nsight Systems SQLite; one a rank")->required();
  app.add_option("--baseline", options->baseline, "a trace to compare with")->type_name("TRACE")->group("Report");
  app.add_option("--html", options->html, "write a report, one file")->type_name("FILE")->group("Report");
  app.add_option("--graph", options->graph.file, "the model that ran, for MFU on --hw")->type_name("MODEL")->group("Model");
  options->graph.add_symbols_to(app);
  options->machine.hardware.clear();  // unknown unless said
  options->machine.add_to(app);
  options->view.top = 10;
  app.add_option("--top", options->view.top, "kernels shown; 0: all")->capture_default_str()->group("Report");
  common.add_to(app);
  return [options, &common] { return run(*options, common); };
}

}  // namespace

const Command diagnose_command = {"diagnose", "what bound a recorded run, with the evidence",
                                  "  roofcast diagnose rank0.json.gz rank1.json.gz\n"
                                  "  roofcast diagnose after.json --baseline before.json\n"
                                  "  roofcast diagnose report.sqlite        (nsys export --type sqlite report.nsys-rep)\n",
                                  add};

}  // namespace roofcast::cli
