// Frames between an agent and a helper process beside it: a letter for the kind, and a text with its length.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "staging/manifest.hpp"

namespace ddprun::event_loop {

struct ChildFrame {
  char kind = 0;
  std::string text;
};

inline std::string make_child_frame(char kind, std::string_view text = {}) {
  std::string frame(1, kind);
  staging::put_text(frame, text);
  return frame;
}

// Takes the next whole frame out of what was received; nullopt: more is needed.
inline std::optional<ChildFrame> take_child_frame(std::string& received) {
  constexpr std::size_t k_head = 9;
  if (received.size() < k_head) return std::nullopt;
  const std::uint64_t size = staging::Parts(std::string_view(received).substr(1)).number();
  if (received.size() - k_head < size) return std::nullopt;
  ChildFrame frame{received.front(), received.substr(k_head, size)};
  received.erase(0, k_head + size);
  return frame;
}

}  // namespace ddprun::event_loop
