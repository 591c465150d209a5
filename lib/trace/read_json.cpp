// Chrome-trace JSON as PyTorch Profiler (Kineto) and ONNX Runtime write it, in one pass over a window.
#include "trace/byte_window.h"
#include "trace/event_scanner.h"
#include "trace/read.h"

#include "support/diagnostic.h"

#include <algorithm>

namespace roofcast::trace {
namespace {

bool same_word(std::string_view a, std::string_view lower) {
  return a.size() == lower.size() && std::equal(a.begin(), a.end(), lower.begin(), [](char x, char y) { return (x >= 'A' && x <= 'Z' ? x + 32 : x) == y; });
}

enum class Category : uint8_t { other, kernel, copy, set, api, node, session };

Category category_of(std::string_view text) {
  if (text.empty()) return Category::other;
  switch (text[0] | 32) {
  case 'k': return same_word(text, "kernel") ? Category::kernel : Category::other;
  case 'g': return text == "gpu_memcpy" ? Category::copy : text == "gpu_memset" ? Category::set : Category::other;
  case 'm': return same_word(text, "memcpy") ? Category::copy : same_word(text, "memset") ? Category::set : Category::other;
  case 'c': return text == "cuda_runtime" || text == "cuda_driver" ? Category::api : Category::other;
  case 'r': return same_word(text, "runtime") ? Category::api : Category::other;
  case 'h': return text == "hip_runtime" || text == "hip_driver" ? Category::api : Category::other;
  case 'd': return same_word(text, "driver") ? Category::api : Category::other;
  case 'n': return text == "Node" ? Category::node : Category::other;
  case 's': return text == "Session" ? Category::session : Category::other;
  default: return Category::other;
  }
}

uint32_t bytes_of_type(std::string_view dtype) {
  static constexpr std::pair<std::string_view, uint32_t> types[] = {{"Float", 4}, {"Half", 2}, {"BFloat16", 2}, {"Double", 8}, {"Long", 8}, {"Int", 4},
                                                                    {"Byte", 1}, {"Char", 1}, {"Bool", 1}, {"Short", 2}};
  for (const auto& [name, bytes] : types)
    if (same_word(dtype, std::string_view(name)) || dtype == name) return bytes;
  return dtype.starts_with("Float8") ? 1 : 0;
}

class Reader {
public:
  Reader(const std::string& path, ByteWindow window) : window_(std::move(window)) { t_.file = path; }

  Result<Timeline> run() {
    at_ = window_.begin();
    fill();
    if (at_ == window_.end()) return error("trace-kind", "the file is empty", {.file = t_.file}, "record it again");
    // A byte order mark.
    if (window_.end() - at_ >= 3 && std::string_view(at_, 3) == "\xEF\xBB\xBF") at_ += 3;
    skip_spaces();
    if (at_ < window_.end() && *at_ == '[') {
      ++at_;
      read_events();
    } else if (at_ < window_.end() && *at_ == '{') {
      ++at_;
      read_object();
    } else {
      return error("trace-kind", "is no JSON trace", {.file = t_.file, .byte = window_.offset_of(at_)}, "PyTorch Profiler, Nsight Systems (SQLite) and ONNX Runtime traces are read");
    }
    if (window_.fault() && !t_.truncated) truncated(*window_.fault());
    if (!saw_events_) {
      if (execution_trace_) return error("trace-kind", "is an execution trace (graph of ops), no profile", {.file = t_.file}, "give the profiler's trace of the same run");
      return error("trace-kind", "holds no trace events", {.file = t_.file}, "is it a PyTorch Profiler or ONNX Runtime trace?");
    }
    finish();
    return std::move(t_);
  }

private:
  // ---- The window

  // More bytes behind those from at_ on; false at the end.
  bool fill() { return window_.more(at_); }
  void skip_spaces() {
    do {
      while (at_ < window_.end() && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t' || *at_ == ',')) ++at_;
    } while (at_ == window_.end() && fill());
  }
  void truncated(const std::string& why) {
    t_.truncated = true;
    t_.warnings.push_back(warning("trace-truncated", why + ": truncated at byte " + std::to_string(window_.offset_of(window_.end())) + ", " + std::to_string(t_.events_read) + " events read",
                                  {.file = t_.file, .byte = window_.offset_of(window_.end())}, "what is complete was analysed"));
  }
  // Runs `scan` on the text from at_ on, with as much of the window as it takes.
  template <class F> Scan with_window(F&& scan) {
    while (true) {
      Cursor c{at_, window_.end()};
      const Scan result = scan(c);
      if (result == Scan::ok) {
        next_ = c.at;
        return Scan::ok;
      }
      if (result == Scan::bad) return Scan::bad;
      if (static_cast<size_t>(window_.end() - at_) >= ByteWindow::largest_value || !fill()) return result;
    }
  }

  // ---- Structure

  void read_object() {
    while (true) {
      skip_spaces();
      if (at_ == window_.end()) return truncated("the file ends in the middle");
      if (*at_ == '}') return;
      std::string_view key;
      std::string name;
      Scan scan = *at_ == '"' ? with_window([&](Cursor& c) {
        const Scan s = scan_string(c, key);
        if (s == Scan::ok) name = key;
        return s;
      }) : Scan::bad;
      if (scan != Scan::ok) return scan == Scan::incomplete ? truncated("the file ends in the middle") : lost_header();
      at_ = next_;
      skip_colon();
      if (at_ == window_.end()) return truncated("the file ends in the middle");
      if (name == "traceEvents" && *at_ == '[') {
        ++at_;
        read_events();
        if (t_.truncated) return;
        continue;
      }
      RawValue value;
      std::string text;
      scan = with_window([&](Cursor& c) {
        const Scan s = scan_value(c, value);
        if (s == Scan::ok) text = value.text;
        return s;
      });
      if (scan == Scan::incomplete) return truncated("the file ends in the middle");
      if (scan == Scan::bad) return lost_header();
      at_ = next_;
      metadata(name, text);
    }
  }
  void skip_colon() {
    do {
      while (at_ < window_.end() && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t' || *at_ == ':')) ++at_;
    } while (at_ == window_.end() && fill());
  }
  // Metadata that does not parse: the events may still be found.
  void lost_header() {
    note_unreadable();
    while (true) {
      const std::string_view rest(at_, static_cast<size_t>(window_.end() - at_));
      if (const size_t found = rest.find("\"traceEvents\""); found != rest.npos) {
        at_ += found + 13;
        skip_colon();
        if (at_ < window_.end() && *at_ == '[') {
          ++at_;
          return read_events();
        }
      }
      at_ = std::max(at_, window_.end() - 13);
      if (!fill()) return;
    }
  }

  void metadata(const std::string& name, std::string_view text) {
    if (name == "distributedInfo" && text.starts_with('{')) {
      each_member(text, [&](std::string_view key, const RawValue& value) {
        if (key == "rank") t_.rank = parse_integer(value.text);
      });
    } else if (name == "deviceProperties" && text.starts_with('[')) {
      // Objects in an array.
      int depth = 0;
      size_t begin = 0;
      for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '{' && depth++ == 0) begin = i;
        if (text[i] != '}' || depth == 0 || --depth != 0) continue;
        std::optional<int64_t> id;
        std::string device;
        each_member(text.substr(begin, i + 1 - begin), [&](std::string_view key, const RawValue& value) {
          if (key == "id") id = parse_integer(value.text);
          if (key == "name") device = unescape(value.text);
        });
        if (id && !device.empty()) device_names_[*id] = device;
      }
    } else if (name == "nodes" && text.starts_with('[')) {
      execution_trace_ = true;
    }
  }

  void read_events() {
    saw_events_ = true;
    while (true) {
      skip_spaces();
      if (at_ == window_.end()) return truncated("the file ends in the middle");
      if (*at_ == ']') {
        ++at_;
        return;
      }
      RawEvent event;
      Scan scan = Scan::bad;
      if (*at_ == '{')
        scan = with_window([&](Cursor& c) {
          const Scan s = scan_event(c, event);
          if (s == Scan::ok) take(event);
          return s;
        });
      if (scan == Scan::ok) {
        ++t_.events_read;
        at_ = next_;
      } else if (scan == Scan::incomplete && window_.end() - at_ < static_cast<ptrdiff_t>(ByteWindow::largest_value)) {
        // A quote gone astray swallows the rest; look for events behind it before giving up.
        const char* from = at_;
        if (!resync()) {
          --t_.losses.unreadable;
          at_ = from;
          return truncated("the file ends in the middle of an event");
        }
      } else if (!resync()) {
        return truncated("the rest does not parse");
      }
    }
  }

  void note_unreadable() {
    if (t_.losses.unreadable++ == 0) first_unreadable_ = window_.offset_of(at_);
  }

  // Behind an event that does not parse: the next '{' that begins one. False at the end.
  bool resync() {
    note_unreadable();
    ++at_;
    while (true) {
      const std::string_view rest(at_, static_cast<size_t>(window_.end() - at_));
      for (size_t i = rest.find('{'); i != rest.npos; i = rest.find('{', i + 1)) {
        size_t k = i + 1;
        while (k < rest.size() && (rest[k] == ' ' || rest[k] == '\n' || rest[k] == '\r' || rest[k] == '\t')) ++k;
        const std::string_view key = rest.substr(k, 6);
        if (key.starts_with("\"ph\"") || key.starts_with("\"cat\"") || key.starts_with("\"pid\"") || key.starts_with("\"ts\"")) {
          at_ += i;
          return true;
        }
      }
      at_ = std::max(at_, window_.end() - 16);
      if (!fill()) return false;
    }
  }

  // ---- Events

  void take(const RawEvent& e) {
    if (e.phase != "X") return;
    Category category = category_of(e.category);
    // Step marks had other categories in older releases; those on the device's tracks are copies.
    if (e.name.starts_with("ProfilerStep") && e.category != "gpu_user_annotation") return step(e, "markers");
    if (e.name.starts_with("Optimizer.step") && category == Category::other) {
      const auto start = parse_microseconds(e.time), duration = parse_microseconds(e.duration);
      if (start && duration && e.category != "gpu_user_annotation") optimizer_ends_.push_back(*start + *duration);
      return;
    }
    if (category == Category::other) {
      // The legacy autograd profiler has no categories: the process's name tells.
      if (e.category.empty() && e.pid.is_string && e.pid.text.starts_with("CUDA")) category = Category::kernel, legacy_ = true;
      else return;
    }
    switch (category) {
    case Category::kernel: case Category::copy: case Category::set: return device_event(e, category);
    case Category::api: return api_call(e);
    case Category::node: return node(e);
    case Category::session:
      if (e.name == "model_run") step(e, "markers");
      return;
    case Category::other: return;
    }
  }

  // Start and duration; absent if there are none, or the event is not to be counted.
  std::optional<std::pair<int64_t, int64_t>> times(const RawEvent& e) {
    const auto start = parse_microseconds(e.time);
    const auto duration = e.duration.empty() ? std::optional<int64_t>(0) : parse_microseconds(e.duration);
    if (!start || !duration || (*start == 0 && *duration == 0)) {
      ++t_.losses.without_times;
      return std::nullopt;
    }
    if (*duration < 0) {
      ++t_.losses.negative_durations;
      return std::nullopt;
    }
    return std::pair(*start, *duration);
  }

  void step(const RawEvent& e, const char* from) {
    const auto when = times(e);
    if (!when) return;
    t_.steps.push_back({unescape(e.name), when->first, when->first + when->second});
    t_.steps_from = from;
  }

  void device_event(const RawEvent& e, Category category) {
    const auto when = times(e);
    if (!when) return;
    DeviceEvent d;
    d.start = when->first, d.duration = when->second;
    std::optional<int64_t> device, stream;
    std::optional<uint64_t> correlation, external;
    Payload payload;
    bool has_payload = false;
    if (!e.args.empty())
      each_member(e.args, [&](std::string_view key, const RawValue& value) {
        switch (key.size()) {
        case 5:
          if (key == "bytes") payload.bytes = parse_unsigned(value.text), has_payload = true;
          else if (key == "dtype") payload.element_bytes = bytes_of_type(value.text);
          break;
        case 6:
          if (key == "device") device = parse_integer(value.text);
          else if (key == "stream") stream = parse_integer(value.text);
          break;
        case 10:
          if (key == "Group size") payload.ranks = parse_unsigned(value.text).value_or(0);
          break;
        case 11:
          if (key == "correlation") correlation = parse_unsigned(value.text);
          else if (same_word(key, "external id")) external = parse_unsigned(value.text);
          break;
        case 13:
          if (key == "In msg nelems") payload.in_elements = parse_unsigned(value.text).value_or(0), has_payload = true;
          break;
        case 14:
          if (key == "Out msg nelems") payload.out_elements = parse_unsigned(value.text).value_or(0), has_payload = true;
          break;
        case 15:
          if (key == "Collective name") payload.collective = t_.names.intern(unescape(value.text)), has_payload = true;
          break;
        }
      });
    if (!device && !e.pid.is_string) device = parse_integer(e.pid.text);
    d.name = t_.names.intern(e.name.find('\\') == e.name.npos ? std::string(e.name) : unescape(e.name));
    if (category == Category::copy) d.kernel_class = KernelClass::memcpy, d.copy = copy_kind_of(e.name);
    else if (category == Category::set) d.kernel_class = KernelClass::memset, d.copy = CopyKind::memset;
    else d.kernel_class = t_.names.class_of(d.name);
    if (correlation && *correlation) d.join_key = JoinKey::correlation, d.join_id = *correlation;
    else if (external && *external) d.join_key = JoinKey::external, d.join_id = *external;
    if (has_payload) {
      d.payload = static_cast<uint32_t>(t_.payloads.size());
      t_.payloads.push_back(payload);
    }
    const size_t index = t_.device_index(device.value_or(0));
    d.track = t_.track_index(device.value_or(0), stream.value_or(0), std::nullopt);
    t_.devices[index].events.push_back(d);
  }

  void api_call(const RawEvent& e) {
    if (e.args.empty()) return;
    std::optional<uint64_t> correlation, external;
    each_member(e.args, [&](std::string_view key, const RawValue& value) {
      if (key == "correlation") correlation = parse_unsigned(value.text);
      else if (key.size() == 11 && same_word(key, "external id")) external = parse_unsigned(value.text);
    });
    const bool has_correlation = correlation && *correlation;
    if (!has_correlation && !(external && *external)) return;
    const auto start = parse_microseconds(e.time), duration = parse_microseconds(e.duration);
    if (!start || !duration || *duration < 0) return;
    Launch launch;
    launch.start = *start, launch.duration = *duration;
    launch.key = has_correlation ? JoinKey::correlation : JoinKey::external;
    launch.id = has_correlation ? *correlation : *external;
    t_.launches.push_back(launch);
  }

  // ONNX Runtime: what its kernels take, on the provider's device.
  void node(const RawEvent& e) {
    if (!e.name.ends_with("_kernel_time")) return;
    const auto when = times(e);
    if (!when) return;
    std::string op = "other", provider;
    each_member(e.args, [&](std::string_view key, const RawValue& value) {
      if (key == "op_name") op = unescape(value.text);
      else if (key == "provider") provider = unescape(value.text);
    });
    DeviceEvent d;
    d.start = when->first, d.duration = when->second;
    d.name = t_.names.intern(op);
    d.kernel_class = t_.names.class_of(d.name);
    const size_t index = t_.device_index(0);
    if (!provider.empty()) t_.devices[index].name = provider;
    d.track = t_.track_index(0, 0, std::nullopt);
    t_.devices[index].events.push_back(d);
  }

  void finish() {
    for (Device& d : t_.devices)
      if (const auto at = device_names_.find(d.id); at != device_names_.end() && !d.name) d.name = at->second;
    const Losses& l = t_.losses;
    if (l.unreadable)
      t_.warnings.push_back(warning("trace-truncated", std::to_string(l.unreadable) + " events do not parse and were skipped, the first at byte " + std::to_string(first_unreadable_),
                                    {.file = t_.file, .byte = first_unreadable_}, "the profiler wrote invalid JSON; the rest was read"));
    if (l.negative_durations)
      t_.warnings.push_back(warning("trace-truncated", std::to_string(l.negative_durations) + " events end before they start and count nowhere", {.file = t_.file}));
    if (l.without_times)
      t_.warnings.push_back(warning("trace-truncated", std::to_string(l.without_times) + " events have no time and count nowhere", {.file = t_.file}));
    if (legacy_)
      t_.warnings.push_back(warning("trace-kind", "legacy autograd trace: no streams, no launches", {.file = t_.file}, "record with torch.profiler"));
    // Without marks the optimizer's steps part the run.
    std::sort(optimizer_ends_.begin(), optimizer_ends_.end());
    if (t_.steps.empty())
      for (size_t i = 1; i < optimizer_ends_.size(); ++i) {
        t_.steps.push_back({"step " + std::to_string(i), optimizer_ends_[i - 1], optimizer_ends_[i]});
        t_.steps_from = "optimizer";
      }
    std::sort(t_.steps.begin(), t_.steps.end(), [](const Mark& a, const Mark& b) { return a.start < b.start; });
  }

  ByteWindow window_;
  Timeline t_;
  const char* at_ = nullptr;
  const char* next_ = nullptr;
  bool saw_events_ = false, execution_trace_ = false, legacy_ = false;
  uint64_t first_unreadable_ = 0;
  std::vector<int64_t> optimizer_ends_;
  std::map<int64_t, std::string> device_names_;
};

}  // namespace

Result<Timeline> read_json(const std::string& path) {
  Result<ByteWindow> window = ByteWindow::open(path);
  if (!window) return std::move(window.error());
  return Reader(path, std::move(*window)).run();
}

}  // namespace roofcast::trace
