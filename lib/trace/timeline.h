// A recorded run of one process, as every reader fills it: what ran on the devices, the host calls
// that launched it, and marks of steps. All times are integer nanoseconds of the trace's own clock.
#pragma once

#include "roofcast/result.h"
#include "trace/kernel_classes.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace roofcast::trace {

// Distinct strings by number; each is classified once.
class NamePool {
public:
  uint32_t intern(std::string_view name);
  const std::string& operator[](uint32_t id) const { return names_[id]; }
  KernelClass class_of(uint32_t id);
  size_t size() const { return names_.size(); }

private:
  std::deque<std::string> names_;
  std::unordered_map<std::string_view, uint32_t> ids_;
  std::vector<std::optional<KernelClass>> classes_;
  KernelClassifier classifier_;
};

enum class CopyKind : uint8_t { none, h2d, d2h, d2d, p2p, memset, other };
std::string_view to_string(CopyKind);
// From names such as "Memcpy HtoD (Pinned -> Device)" and "CopyDeviceToHost".
CopyKind copy_kind_of(std::string_view name);

// By which number an event and its launch find each other.
enum class JoinKey : uint8_t { none, correlation, external, flow };

// What only some events record: sizes of copies and collectives.
struct Payload {
  std::optional<uint64_t> bytes;
  uint32_t collective = 0;  // name of the collective, 0 = none
  uint64_t in_elements = 0, out_elements = 0, ranks = 0;
  uint32_t element_bytes = 0;
};

constexpr uint32_t no_index = ~uint32_t{0};

// One kernel, copy or memset. 40 bytes: a trace may hold tens of millions.
struct DeviceEvent {
  int64_t start = 0, duration = 0;
  uint64_t join_id = 0;
  uint32_t name = 0;
  uint32_t launch = no_index;   // index in Timeline::launches, set by join_launches
  uint32_t payload = no_index;  // index in Timeline::payloads
  uint16_t track = 0;
  KernelClass kernel_class = KernelClass::other;
  JoinKey join_key : 4 = JoinKey::none;
  CopyKind copy : 4 = CopyKind::none;

  int64_t end() const { return start + duration; }
};
static_assert(sizeof(DeviceEvent) == 40);

// A runtime or driver call. Whether it launched anything, only the device events tell.
struct Launch {
  uint64_t id = 0;
  int64_t start = 0, duration = 0;
  uint32_t process = 0;
  JoinKey key = JoinKey::correlation;

  int64_t end() const { return start + duration; }
};

struct Device {
  int64_t id = 0;
  std::optional<std::string> name;
  std::deque<DeviceEvent> events;  // chunks: growth never holds two copies of all events
};

// A stream of a process on a device. `process` is empty where the trace does not tell.
struct Track {
  int64_t stream = 0;
  std::optional<uint32_t> process;
};

struct Mark {
  std::string name;
  int64_t start = 0, end = 0;
};

// Events that count nowhere, by the reason.
struct Losses {
  uint64_t unreadable = 0;          // did not parse
  uint64_t negative_durations = 0;  // end before start
  uint64_t without_times = 0;       // time stamp and duration 0, or none
};

struct Timeline {
  std::string file;
  std::optional<int64_t> rank;
  NamePool names;
  std::vector<Device> devices;
  std::vector<Track> tracks;
  std::deque<Launch> launches;
  std::deque<Payload> payloads;
  std::vector<Mark> steps;
  std::string steps_from;  // markers, ranges or optimizer; empty without steps
  Losses losses;
  uint64_t events_read = 0;
  bool truncated = false;
  std::vector<Diagnostic> warnings;

  size_t device_index(int64_t id);
  uint16_t track_index(int64_t device, int64_t stream, std::optional<uint32_t> process);
  uint64_t device_events() const;

private:
  std::map<std::tuple<int64_t, int64_t, int64_t>, uint16_t> track_ids_;
};

// Sorts events by start and finds the launch of each: by (process, id) where the process is known,
// else by id, and where processes share an id by the process that most of the device's events have.
void join_launches(Timeline& timeline);

}  // namespace roofcast::trace
