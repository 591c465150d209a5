// What every subcommand shares: its row in the table, the common flags and how a run ends.
#pragma once

#include "roofcast/result.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace roofcast::cli {

// Flags that mean the same in every command (group "Run" and "Report" of --help).
struct CommonOptions {
  std::string format = "text";  // text | json | csv | md
  std::string output;           // file, or empty for stdout
  std::string color = "auto";   // auto | always | never
  bool quiet = false;
  bool strict = false;
  bool timing = false;
  int threads = 0;  // 0: all cores

  void add_to(CLI::App& app, const std::vector<std::string>& formats = {"text", "json"});
  bool use_color() const;  // a terminal, no NO_COLOR, no -o; or as --color says
};

// Writes `text` to -o or stdout.
Status write_output(const CommonOptions& options, const std::string& text);

// Writes `text` to `file`.
Status write_file(const std::string& file, const std::string& text);

// Warnings on stderr, repeats of a code folded; nothing under -q.
void print_warnings(const CommonOptions& options, const std::vector<Diagnostic>& warnings);

// A row of the command table. `add` declares flags and returns what runs after parsing: 0 or 1, or
// the Diagnostic that ends the process.
struct Command {
  const char* name;
  const char* summary;
  const char* examples;
  std::function<Result<int>()> (*add)(CLI::App& app, CommonOptions& common);
};

// One file a command: tools/roofcast/<name>.cpp defines its `<name>_command`.
extern const Command analyze_command;
extern const Command build_command;
extern const Command calibrate_command;
extern const Command diagnose_command;
extern const Command diff_command;
extern const Command fuse_command;
extern const Command hw_command;
extern const Command layouts_command;
extern const Command sweep_command;
extern const Command ops_command;
extern const Command validate_command;

}  // namespace roofcast::cli
