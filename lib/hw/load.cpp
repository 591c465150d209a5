// hwspecs: TOML files read over the file that they extend, every fault with its line.
#include "hw/hardware.h"
#include "hw/kernel_constants.h"
#include "support/diagnostic.h"
#include "support/toml.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

namespace roofcast {
namespace {

namespace fs = std::filesystem;

constexpr int extends_depth = 8;
constexpr uintmax_t largest_file = 1 << 20;

// The folder of shipped specs: of the source tree when run from its build, else of the installation.
const fs::path& spec_folder() {
  static const fs::path folder = [] {
    std::error_code ignored;
    const fs::path exe = fs::read_symlink("/proc/self/exe", ignored);
    const fs::path installed = exe.parent_path().parent_path() / "share" / "roofcast" / "hwspecs";
    if (fs::is_directory(installed, ignored)) return installed;
    return fs::path(ROOFCAST_SOURCE_HWSPECS);
  }();
  return folder;
}

// Name → path of every shipped spec. Files under families/ hold constants that a
// generation shares and are no devices; those under stacks/ are devices under one software stack.
const std::map<std::string, fs::path>& shipped() {
  static const std::map<std::string, fs::path> specs = [] {
    std::map<std::string, fs::path> found;
    std::error_code ignored;
    for (const std::string sub : {"", "clusters", "families", "stacks"})
      for (const auto& entry : fs::directory_iterator(spec_folder() / sub, ignored))
        if (entry.path().extension() == ".toml")
          found[(sub == "families" || sub == "stacks" ? sub + "/" : "") + entry.path().stem().string()] = entry.path();
    return found;
  }();
  return specs;
}

class Reader {
public:
  explicit Reader(Hardware& hardware) : hardware_(hardware) {}
  std::vector<Diagnostic> faults;

  void read(const fs::path& path, int depth) {
    file_ = path.string();
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored) && fs::file_size(path, ignored) > largest_file)
      return fault("hw-key", 0, "larger than a hardware file can be", "is this the right file?");
    std::ifstream stream(path, std::ios::binary);
    if (!stream || !fs::is_regular_file(path, ignored)) {
      faults.push_back(roofcast::error("file-missing", "cannot be read", {.file = file_}, "check the path"));
      return;
    }
    std::stringstream text;
    text << stream.rdbuf();
    const toml::parse_result parsed = toml::parse(text.str(), file_);
    if (!parsed)
      return fault("hw-key", parsed.error().source().begin.line, std::string(parsed.error().description()),
                   "see https://toml.io for the syntax");
    const toml::table& root = parsed.table();
    if (const toml::node* parent = root.get("extends")) {
      const auto name = parent->value<std::string>();
      const auto at = name ? shipped().find(*name) : shipped().end();
      const fs::path beside = name ? path.parent_path() / (*name + ".toml") : fs::path();
      if (!name) fault("hw-key", line(*parent), "extends must be a name", "extends = \"h100-sxm\"");
      else if (depth >= extends_depth) fault("hw-key", line(*parent), "extends too many files in turn", "is there a circle?");
      else if (fs::is_regular_file(beside, ignored)) read(beside, depth + 1);
      else if (at != shipped().end()) read(at->second, depth + 1);
      else fault("hw-unknown", line(*parent), "no hardware called \"" + *name + "\" to extend", "`roofcast hw` lists all");
      file_ = path.string();
    }
    keys(root, "", {{"name", text_into(hardware_.name)}, {"title", text_into(hardware_.title)},
                    {"vendor", text_into(hardware_.vendor)}, {"family", text_into(hardware_.family)},
                    {"extends", [](const toml::node&) {}},
                    {"peak", [&](const toml::node& n) { peaks(n); }},
                    {"chip", [&](const toml::node& n) { figures(n, "chip", hardware_.chip, {"cores", "clock", "tdp"}); }},
                    {"memory", [&](const toml::node& n) { memories(n); }},
                    {"link", [&](const toml::node& n) { links(n); }},
                    {"kernel", [&](const toml::node& n) { figures(n, "kernel", hardware_.kernel, kernel_constants()); }}});
  }

private:
  using Handler = std::function<void(const toml::node&)>;
  using Handlers = std::vector<std::pair<std::string, Handler>>;

  static std::vector<std::string> math_names() {
    std::vector<std::string> names;
    for (int i = static_cast<int>(MathType::fp64); i <= static_cast<int>(MathType::int4); ++i)
      names.emplace_back(name(static_cast<MathType>(i)));
    return names;
  }
  static std::vector<std::string> kernel_constants() {
    std::vector<std::string> names;
    for (const KernelConstant& c : kernel_constant_table()) names.emplace_back(c.name);
    return names;
  }

  static uint64_t line(const toml::node& node) { return node.source().begin.line; }
  void fault(std::string_view code, uint64_t at, std::string message, std::string hint) {
    Where where{.file = file_};
    if (at) where.line = at;
    faults.push_back(roofcast::error(code, std::move(message), std::move(where), std::move(hint)));
  }

  // Calls each key's handler; a key without one is a fault.
  void keys(const toml::table& table, const std::string& path, const Handlers& handlers) {
    for (const auto& [key, node] : table) {
      const std::string own(key.str());
      const auto at = std::find_if(handlers.begin(), handlers.end(), [&](const auto& h) { return h.first == own; });
      if (at != handlers.end()) {
        at->second(node);
        continue;
      }
      std::vector<std::string> known;
      for (const auto& [k, handler] : handlers) known.push_back(k);
      std::string near;
      for (const std::string& n : nearest_names(own, known)) near += (near.empty() ? "" : ", ") + n;
      fault("hw-key", key.source().begin.line, "no key \"" + (path.empty() ? own : path + "." + own) + "\"",
            near.empty() ? "see `roofcast hw h100-sxm --format json`" : "near: " + near);
    }
  }

  const toml::table* table(const toml::node& node, const std::string& path) {
    if (node.is_table()) return node.as_table();
    fault("hw-key", line(node), path + " must be a table", "[" + path + "]");
    return nullptr;
  }

  Handler text_into(std::string& out) {
    return [this, &out](const toml::node& node) {
      if (const auto text = node.value<std::string>(); text && node.is_string()) out = *text;
      else fault("hw-key", line(node), "a text is wanted here", "name = \"my-gpu\"");
    };
  }
  Handler optional_text_into(std::optional<std::string>& out) {
    return [this, &out](const toml::node& node) {
      if (node.is_string()) out = node.value<std::string>();
      else fault("hw-key", line(node), "a text is wanted here", "kind = \"HBM3\"");
    };
  }
  Handler count_into(int64_t& out, int64_t least) {
    return [this, &out, least](const toml::node& node) {
      const auto number = node.is_integer() ? node.value<int64_t>() : std::nullopt;
      if (number && *number >= least) out = *number;
      else fault("hw-key", line(node), "a whole number from " + std::to_string(least) + " is wanted here", "size = 8");
    };
  }
  Handler figure_into(std::optional<Figure>& out, const std::string& path) {
    return [this, &out, path](const toml::node& node) {
      if (auto read = figure(node, path)) out = std::move(read);
    };
  }

  // { value = 989.4e12, source = "…" }; `per` may say "direction" for readers.
  std::optional<Figure> figure(const toml::node& node, const std::string& path) {
    constexpr const char* form = "{ value = 989.4e12, source = \"…\" }";
    const toml::table* t = node.as_table();
    if (!t) {
      fault("hw-key", line(node), path + " must be a figure with its source", form);
      return std::nullopt;
    }
    Figure out;
    bool has_value = false;
    keys(*t, path, {{"value", [&](const toml::node& n) {
                       const auto number = n.is_number() ? n.value<double>() : std::nullopt;
                       has_value = true;
                       if (number && std::isfinite(*number) && *number > 0) out.value = *number;
                       else fault("hw-key", line(n), path + " must be a number above 0", form);
                     }},
                    {"source", optional_text_into(out.source)},
                    {"fitted_on", optional_text_into(out.fitted_on)},
                    {"per", [&](const toml::node& n) {
                       if (n.value<std::string>() != "direction")
                         fault("hw-key", line(n), "bandwidths are per direction", "halve a bidirectional total");
                     }}});
    if (!has_value) fault("hw-key", line(node), path + " has no value", form);
    if (!out.source && !out.fitted_on) fault("hw-no-source", line(node), path + " has no source", "source = \"document\", or fitted_on = \"data\"");
    return out.value > 0 ? std::optional(out) : std::nullopt;
  }

  void figures(const toml::node& node, const std::string& path, std::map<std::string, Figure>& out, const std::vector<std::string>& known) {
    const toml::table* t = table(node, path);
    if (!t) return;
    Handlers handlers;
    for (const std::string& name : known)
      handlers.push_back({name, [&, name](const toml::node& n) {
                            if (auto read = figure(n, path + "." + name)) out[name] = std::move(*read);
                          }});
    keys(*t, path, handlers);
  }

  void peaks(const toml::node& node) {
    if (const toml::table* t = table(node, "peak"))
      keys(*t, "peak", {{"matrix", [&](const toml::node& n) { figures(n, "peak.matrix", hardware_.matrix_peak, math_names()); }},
                        {"vector", [&](const toml::node& n) { figures(n, "peak.vector", hardware_.vector_peak, math_names()); }}});
  }

  void memories(const toml::node& node) {
    const toml::table* t = table(node, "memory");
    if (!t) return;
    Handlers handlers;
    for (const char* name : {"hbm", "l2", "llc", "smem"})
      handlers.push_back({name, [&, name](const toml::node& n) {
                            const std::string path = std::string("memory.") + name;
                            Memory& m = hardware_.memory[name];
                            if (const toml::table* own = table(n, path))
                              keys(*own, path, {{"kind", optional_text_into(m.kind)},
                                                {"bandwidth", figure_into(m.bandwidth, path + ".bandwidth")},
                                                {"capacity", figure_into(m.capacity, path + ".capacity")}});
                          }});
    keys(*t, "memory", handlers);
  }

  void links(const toml::node& node) {
    const toml::table* t = table(node, "link");
    if (!t) return;
    for (const auto& [key, n] : *t) {
      const std::string name(key.str()), path = "link." + name;
      Link& link = hardware_.link[name];
      const toml::table* own = table(n, path);
      if (!own) continue;
      keys(*own, path,
           {{"level", count_into(link.level, 1)},
            {"size", count_into(link.size, 0)},
            {"bandwidth", figure_into(link.bandwidth, path + ".bandwidth")},
            {"peer_bandwidth", figure_into(link.peer_bandwidth, path + ".peer_bandwidth")},
            {"latency", figure_into(link.latency, path + ".latency")},
            {"topology", [&](const toml::node& text) {
               const auto value = text.value<std::string>();
               constexpr const char* known[] = {"switch", "mesh", "torus", "host"};
               if (value && std::find(std::begin(known), std::end(known), *value) != std::end(known)) link.topology = *value;
               else fault("hw-key", line(text), path + ".topology must be switch, mesh, torus or host", "topology = \"switch\"");
             }},
            {"in_network_reduction", [&](const toml::node& flag) {
               if (flag.is_boolean()) link.in_network_reduction = *flag.value<bool>();
               else fault("hw-key", line(flag), path + ".in_network_reduction must be true or false", "in_network_reduction = true");
             }}});
      if (!link.bandwidth) fault("hw-key", line(n), path + " has no bandwidth", "bandwidth = { value = 450e9, source = \"…\" }");
    }
  }

  Hardware& hardware_;
  std::string file_;
};

// A path if it looks like one or is there, else the shipped spec of that name; empty: neither.
fs::path find_spec(const std::string& name_or_file) {
  std::error_code ignored;
  if ((name_or_file.starts_with("families/") || name_or_file.starts_with("stacks/")) && shipped().contains(name_or_file)) return shipped().at(name_or_file);
  if (name_or_file.ends_with(".toml") || name_or_file.find('/') != std::string::npos || fs::is_regular_file(name_or_file, ignored))
    return name_or_file;
  const auto at = shipped().find(name_or_file);
  return at == shipped().end() ? fs::path() : at->second;
}

// Whether kernels run on it as on GPUs: cores with clocks around one cache.
bool is_gpu(const Hardware& h) {
  return !h.family.starts_with("cpu") && !h.family.empty() &&
         h.chip.contains("cores") && h.chip.contains("clock") && h.memory.contains("l2");
}

std::vector<Diagnostic> read_spec(const std::string& name_or_file, Hardware& hardware) {
  const fs::path path = find_spec(name_or_file);
  if (path.empty()) {
    std::string near;
    for (const std::string& n : nearest_names(name_or_file, hardware_names())) near += (near.empty() ? "" : ", ") + n;
    return {error("hw-unknown", "no hardware called \"" + name_or_file + "\"" + (near.empty() ? "" : "; near: " + near), {},
                  "`roofcast hw` lists all, a TOML file works too")};
  }
  Reader reader(hardware);
  hardware.file = path.string();
  reader.read(path, 0);
  if (hardware.name.empty()) hardware.name = path.stem().string();
  // Constants that a generation shares lie below a device's own, and those of all GPUs below these.
  std::vector<std::string> shared = {"families/" + hardware.family};
  if (is_gpu(hardware)) shared.push_back("families/gpu");
  for (const std::string& name_of : shared) {
    const auto at = shipped().find(name_of);
    if (at == shipped().end() || at->second == path) continue;
    Hardware family;
    Reader(family).read(at->second, 0);
    inherit_constants(hardware.kernel, family.kernel);
  }
  return std::move(reader.faults);
}

}  // namespace

Result<Hardware> load_hardware(const std::string& name_or_file) {
  Hardware hardware;
  std::vector<Diagnostic> faults = read_spec(name_or_file, hardware);
  if (!faults.empty()) return std::move(faults.front());
  return hardware;
}

std::vector<Diagnostic> check_hardware(const std::string& name_or_file) {
  Hardware hardware;
  std::vector<Diagnostic> faults = read_spec(name_or_file, hardware);
  if (faults.empty() && !memory_bandwidth(hardware))
    faults.push_back(error("hw-key", "no memory.hbm.bandwidth", {.file = hardware.file}, "[memory.hbm] bandwidth = { value = 3.35e12, source = \"…\" }"));
  return faults;
}

std::vector<std::string> hardware_names() {
  std::vector<std::string> names;
  for (const auto& [name, path] : shipped())
    if (name.find('/') == name.npos) names.push_back(name);
  return names;
}

}  // namespace roofcast
