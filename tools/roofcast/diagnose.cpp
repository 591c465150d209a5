#include "command.h"

#include "report/views.h"
#include "roofcast/diagnose.h"

namespace roofcast::cli {
namespace {

struct Options {
  std::vector<std::string> traces;
  std::string baseline;
  ViewOptions view;
};

Result<int> run(const Options& options, const CommonOptions& common) {
  DiagnoseOptions what;
  if (!options.baseline.empty()) what.baseline = options.baseline;
  const Result<Diagnosis> d = diagnose(options.traces, what);
  if (!d) return d.error();
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
