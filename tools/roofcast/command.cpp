#include "command.h"

#include "support/diagnostic.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <unistd.h>

namespace roofcast::cli {

void CommonOptions::add_to(CLI::App& app, const std::vector<std::string>& formats) {
  app.add_option("--format", format, "output format")->check(CLI::IsMember(formats))->group("Report");
  app.add_option("-o,--output", output, "write to FILE instead of stdout")->type_name("FILE")->group("Report");
  app.add_flag("--strict", strict, "exit 1 if anything is uncounted")->group("Run");
  app.add_flag("-q,--quiet", quiet, "no warnings on stderr")->group("Run");
  app.add_option("--color", color, "colour: auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))->group("Run");
  app.add_flag("--timing", timing, "print the time of each pass on stderr")->group("Run");
  app.add_option("--threads", threads, "threads to use (0: all cores)")
      ->check(CLI::Range(0, 4096))->group("Run");
}

bool CommonOptions::use_color() const {
  if (color != "auto") return color == "always";
  return output.empty() && isatty(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr;
}

Status write_output(const CommonOptions& options, const std::string& text) {
  if (options.output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return Ok{};
  }
  return write_file(options.output, text);
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) return error("file-missing", "cannot be written", {.file = path}, "check the folder and its rights");
  return Ok{};
}

void print_warnings(const CommonOptions& options, const std::vector<Diagnostic>& warnings) {
  if (options.quiet) return;
  std::map<std::string, std::vector<const Diagnostic*>> by_code;
  for (const Diagnostic& warning : warnings) by_code[warning.code].push_back(&warning);
  for (const auto& [code, same] : by_code) {
    constexpr size_t shown = 3;
    for (size_t i = 0; i < same.size() && i < shown; ++i) std::cerr << to_string(*same[i]) << '\n';
    if (same.size() > shown)
      std::cerr << "roofcast: warning[" << code << "]: … and " << same.size() - shown << " more like it\n";
  }
}

}  // namespace roofcast::cli
