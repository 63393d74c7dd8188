// What every fuzzer may ask of what it runs.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::fuzz {

inline std::string text_of(const std::uint8_t* data, std::size_t size) { return {data, data + size}; }

// Ends the program: libFuzzer writes the input to a file.
inline void require(bool promise, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (promise) return;
  std::fprintf(stderr, "%s:%d: a promise does not hold\n", file, line);
  std::abort();
}

// No byte of it drives a terminal; it may have several lines.
inline void require_printable(std::string_view text) {
  for (const std::string& line : split(text, '\n')) require(printable(line, line.size()) == line);
}

// Nothing but an Error leaves it. What that quotes is made printable where it is shown (console/console.hpp).
template <class Act>
void try_to(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    require(std::string_view(error.what()).size() > 0);
  }
}

// The input piece by piece, as a program of its own: what follows chooses and what is chosen.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  // 0 to 255; 0 at the end.
  int byte() {
    const auto value = rest_.empty() ? 0 : static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(rest_.empty() ? 0 : 1);
    return value;
  }
  int number() {
    const int high = byte();
    return high << 8 | byte();
  }
  std::string_view piece(std::size_t length) {
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() { return piece(rest_.size()); }

 private:
  std::string_view rest_;
};

}  // namespace ddprun::fuzz
