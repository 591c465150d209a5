#include "command.h"

#include "report/views.h"
#include "roofcast/calibrate.h"
#include "support/diagnostic.h"
#include "support/units.h"

#include <csignal>
#include <iostream>

namespace roofcast::cli {
namespace {

std::atomic<bool> interrupted = false;

struct Options {
  CalibrateOptions calibrate;
  std::vector<std::string> profiles;
};

Result<int> run(const Options& given, const CommonOptions& common) {
  CalibrateOptions options = given.calibrate;
  for (const std::string& pair : given.profiles) {
    const size_t equals = pair.rfind('=');
    if (equals == pair.npos) return error("usage", "--profile " + pair + " is not understood", {}, "MODEL.onnx=PROFILE.json");
    const Result<Model> model = load(pair.substr(0, equals), {});
    if (!model) return model.error();
    options.profiles.push_back({*model, pair.substr(equals + 1)});
  }
  options.threads = common.threads == 0 ? 1 : common.threads;
  options.stop = &interrupted;
  std::signal(SIGINT, [](int) {
    interrupted = true;
    std::signal(SIGINT, SIG_DFL);
  });
  const Result<Calibration> calibration = calibrate(options);
  if (!calibration) return calibration.error();
  if (Status status = write_output(common, common.format == "json" ? to_json("roofcast/calibration/1", *calibration) : calibration->toml); !status)
    return status.error();
  print_warnings(common, calibration->warnings);
  if (!common.quiet && !calibration->samples.empty())
    std::cerr << "calibrated on " << calibration->samples.size() << " ops; median |error| of the kernel model on them " << format_share(calibration->median_abs_error) << '\n';
  return 0;
}

std::function<Result<int>()> add(CLI::App& app, CommonOptions& common) {
  auto options = std::make_shared<Options>();
  app.add_option("--on", options->calibrate.on, "what is measured")->check(CLI::IsMember({"cpu", "cuda"}))->capture_default_str()->group("Run");
  app.add_option("--hw", options->calibrate.base, "spec that the new one extends: what is not measured comes from it")->type_name("NAME|FILE")->group("Machine");
  app.add_option("--runs", options->calibrate.runs, "least number of runs of each op")->check(CLI::Range(1, 100000))->capture_default_str()->group("Run");
  app.add_option("--profile", options->profiles, "fit the kernel constants of ONNX Runtime on profiles that it recorded; repeatable")
      ->type_name("MODEL=PROFILE")->group("Run");
  common.format = "toml";
  common.add_to(app, {"toml", "json"});
  return [options, &common] { return run(*options, common); };
}

}  // namespace

const Command calibrate_command = {"calibrate", "measures this machine and writes its hardware spec",
                                   "  roofcast calibrate --on cpu -o here.toml\n"
                                   "  roofcast calibrate --on cuda --hw h200-sxm -o here.toml\n",
                                   add};

}  // namespace roofcast::cli
