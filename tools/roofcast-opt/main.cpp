// roofcast-opt: runs named passes on a model or on textual IR, prints the IR.
#include "frontend/onnx/read.h"
#include "ir/print.h"
#include "passes/pass.h"
#include "support/diagnostic.h"
#include "support/mapped_file.h"
#include "support/units.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

namespace roofcast {
namespace {

// Text begins with one of the words of its header or a comment; anything else is ONNX.
bool is_text(std::string_view bytes) {
  const size_t from = bytes.find_first_not_of(" \t\r\n");
  if (from == bytes.npos) return false;
  bytes.remove_prefix(from);
  for (std::string_view word : {"//", "producer ", "ir ", "opset ", "devices ", "graph @"})
    if (bytes.starts_with(word)) return true;
  return false;
}

Result<std::unique_ptr<Module>> read(const std::string& path) {
  Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
  if (!file) return std::move(file.error());
  if (!is_text((*file)->bytes())) return read_onnx(path, {.keep_symbols = true});
  return parse((*file)->bytes(), path);
}

int fail(const Diagnostic& diagnostic) {
  std::cerr << to_string(diagnostic) << '\n';
  return diagnostic.exit_code();
}

int run(int argc, char** argv) {
  CLI::App app("Runs named passes on a model (.onnx) or on textual IR and prints the IR.", "roofcast-opt");
  std::string file, passes;
  bool timing = false, list = false;
  app.add_option("FILE", file, "model or textual IR");
  app.add_option("--passes", passes, "passes in order: infer,retype{to=bf16}")->type_name("A,B,…")->expected(0, 1);
  app.add_flag("--timing", timing, "print the time of each pass on stderr");
  app.add_flag("--list", list, "list all passes");
  app.footer("Examples:\n  roofcast-opt model.onnx --passes=infer\n  roofcast-opt test.rc --passes=infer,print-facets\n");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& parse_error) {
    return fail(error("usage", parse_error.what(), {}, "see `roofcast-opt --help`"));
  }
  if (list) {
    for (const PassInfo& pass : pass_table()) std::printf("%-14s %s\n", std::string(pass.name).c_str(), std::string(pass.summary).c_str());
    return 0;
  }
  if (file.empty()) return fail(error("usage", "FILE is missing", {}, "see `roofcast-opt --help`"));
  Result<std::unique_ptr<Module>> module = read(file);
  if (!module) return fail(module.error());
  std::vector<PassTime> times;
  const Status status = run_pipeline(**module, passes, &times);
  if (timing)
    for (const PassTime& t : times) std::cerr << t.pass << "  " << format_seconds(t.seconds) << "\n";
  if (!status) return fail(status.error());
  for (const Diagnostic& d : (*module)->warnings) std::cerr << to_string(d) << '\n';
  // A pass that prints stands for the IR.
  if (!passes.ends_with("print-facets")) {
    const std::string text = print(**module);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  return 0;
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
