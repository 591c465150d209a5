// roofcast-accuracy: errors of the predictions against published measurements.
#include "report/views.h"
#include "roofcast/accuracy.h"
#include "roofcast/fit.h"
#include "support/diagnostic.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <unistd.h>

namespace roofcast {
namespace {

int fail(const Diagnostic& diagnostic, bool json) {
  std::cerr << to_string(diagnostic) << '\n';
  if (json) std::cout << error_to_json(diagnostic);
  return diagnostic.exit_code();
}

int run(int argc, char** argv) {
  CLI::App app("Errors of the predictions against published measurements.", "roofcast-accuracy");
  app.require_subcommand(1);
  std::vector<std::string> files;
  AccuracyOptions options;
  std::string format = "text", output;
  CLI::App* ops = app.add_subcommand("ops", "measured times of single ops, collectives and models");
  ops->add_option("FILES", files, "tables: CSV files with source,gpu,…,time_us")->required();
  ops->add_option("--worst", options.worst, "list the N worst rows with the terms of their predictions")->type_name("N");
  ops->add_flag("--all-rows", options.all_rows, "report the rows that may be fitted on, too");
  ops->add_option("--leave-out", options.leave_out, "this device's rows by constants that were fitted without it")->type_name("GPU");
  ops->add_flag("--new-generation", options.new_generation, "with --leave-out: without its family, too");
  ops->add_option("--format", format, "output format")->check(CLI::IsMember({"text", "json", "md"}));
  ops->add_option("-o,--output", output, "write to FILE instead of stdout")->type_name("FILE");
  ops->footer("Examples:\n  roofcast-accuracy ops measured/*.csv\n  roofcast-accuracy ops gemm.csv --worst 5 --format json\n"
              "  roofcast-accuracy ops measured/*.csv --leave-out h200-sxm\n");
  CLI::App* published = app.add_subcommand("layouts", "published cases of parallel layouts");
  published->add_option("FILES", files, "tables with the columns of layouts/published.csv")->required();
  published->add_option("--worst", options.worst, "list the N worst rows")->type_name("N");
  published->add_option("--format", format, "output format")->check(CLI::IsMember({"text", "json", "md"}));
  published->add_option("-o,--output", output, "write to FILE instead of stdout")->type_name("FILE");
  published->footer("Examples:\n  roofcast-accuracy layouts layouts/published.csv --worst 10\n");
  CLI::App* ablating = app.add_subcommand("ablate", "what each constant of the kernel model buys");
  ablating->add_option("FILES", files, "tables: CSV files with source,gpu,…,time_us")->required();
  ablating->add_option("--format", format, "output format")->check(CLI::IsMember({"text", "json", "md"}));
  ablating->add_option("-o,--output", output, "write to FILE instead of stdout")->type_name("FILE");
  ablating->footer("Example:\n  roofcast-accuracy ablate measured/*.csv --format md\n");
  FitOptions fit_options;
  std::string folder;
  CLI::App* fitting = app.add_subcommand("fit", "constants of the kernel model from measured times");
  fitting->add_option("FILES", files, "tables: CSV files with source,gpu,…,time_us")->required();
  fitting->add_option("--write", folder, "folder of hardware files whose [kernel] tables take the constants")->type_name("DIR")->required();
  fitting->add_option("--gpu", fit_options.gpus, "devices; else all of the tables")->type_name("NAME");
  fitting->add_option("--use", fit_options.uses, "sorts of kernel: streaming, gemm16, gemm8, …; else all")->type_name("NAME");
  fitting->add_flag("--families", fit_options.families, "devices of a family together, for families/*.toml");
  fitting->add_option("--generations", fit_options.generations, "of the search")->capture_default_str()->check(CLI::Range(0, 10000));
  fitting->add_option("--starts", fit_options.starts, "places that the search starts from")->capture_default_str()->check(CLI::Range(1, 1000));
  fitting->footer("Example:\n  roofcast-accuracy fit measured/*.csv --write hwspecs --gpu h100-sxm\n");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& parse_error) {
    return fail(error("usage", parse_error.what(), {}, "see `roofcast-accuracy --help`"), format == "json");
  }
  const bool json = format == "json";
  if (*fitting) {
    const Result<FittedConstants> fitted = fit(files, fit_options);
    if (!fitted) return fail(fitted.error(), json);
    const Status status = write_constants(*fitted, folder);
    return status ? 0 : fail(status.error(), json);
  }
  const bool color = output.empty() && isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
  std::string text;
  if (*ablating) {
    const Result<Ablation> a = ablation(files);
    if (!a) return fail(a.error(), json);
    text = json ? to_json("roofcast/ablation/1", *a) : ablation_text(*a, color, format == "md");
  } else {
    const Result<Accuracy> a = *published ? layout_accuracy(files, options) : accuracy(files, options);
    if (!a) return fail(a.error(), json);
    text = json ? to_json("roofcast/accuracy/1", *a) : accuracy_text(*a, color, format == "md");
  }
  if (output.empty()) return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 2;
  std::ofstream file(output, std::ios::binary);
  file << text;
  file.close();
  return file ? 0 : fail(error("file-missing", "cannot be written", {.file = output}, "check the folder and its rights"), json);
}

}  // namespace
}  // namespace roofcast

int main(int argc, char** argv) {
  try {
    return roofcast::run(argc, argv);
  } catch (const std::exception& unexpected) {
    std::cerr << to_string(roofcast::error("internal", unexpected.what(), {}, "please report this")) << '\n';
    return 70;
  }
}
