// Values of an object that a worker has written: what is missing, or of another kind, is as if it were empty.
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "status/rank_view.hpp"

namespace ddprun::status {

// Records collected of a rank to see where it is, whole and as they came.
struct Collected {
  std::string record;       // torch's flight recorder: JSON
  std::string module;       // the answer of ddprun's module: JSON
  std::string dump;         // output of faulthandler
  std::string native;       // output of `native_tool`
  std::string native_tool;  // "eu-stack"
  std::string ras;          // answer of NCCL's RAS about the job, kept with the first rank of a host
};

inline constexpr std::size_t k_most_text = 4096;  // bytes of one text

inline std::string text_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>().substr(0, k_most_text)
                                                     : std::string();
}

// Negative ones are wrong too: they count, and have no place in a status.
template <class Number = std::int64_t>
Number number_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() ? std::max(whole_number<Number>(*found).value_or(0), Number{0}) : Number{0};
}

inline bool flag_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

inline const nlohmann::json& list_in(const nlohmann::json& object, const char* name) {
  static const nlohmann::json k_empty = nlohmann::json::array();
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_array() ? *found : k_empty;
}

// Returns the frames of a thread, whose list and whose fields have these names.
inline std::vector<Frame> frames_in(const nlohmann::json& thread, const char* list, const char* file,
                                    const char* function, std::size_t most = k_most_frames) {
  std::vector<Frame> frames;
  for (const nlohmann::json& each : list_in(thread, list)) {
    if (!each.is_object() || frames.size() == most) break;
    frames.push_back({text_in(each, file), number_in<int>(each, "line"), text_in(each, function)});
  }
  return frames;
}

inline std::string describe_thread(const std::string& name, bool is_main, const std::vector<Frame>& frames) {
  std::string text = fmt::format("thread {}{}:\n", name, is_main ? " (main)" : "");
  for (const Frame& frame : frames)
    text += fmt::format("  {}:{} in {}\n", frame.file, frame.line, frame.function);
  return text;
}

}  // namespace ddprun::status
