// Bytes of the c10d store for tests: fields, and the conversations written down in tests/data/store.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>
#include "test_paths.hpp"

namespace store_wire {

template <class Number>
std::string number(Number value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

inline std::string text(std::string_view content) {
  return number(std::uint64_t{content.size()}) + std::string(content);
}

inline std::string list(const std::vector<std::string>& items) {
  std::string bytes = number(std::uint64_t{items.size()});
  for (const std::string& item : items) bytes += text(item);
  return bytes;
}

inline std::string request(int code, const std::string& body = {}) {
  return std::string(1, static_cast<char>(code)) + body;
}

// VALIDATE of torch 2.2 and newer.
inline const std::string k_hello("\0\xCE\xF7\x85\x3C", 5);

// Numbers of torch 2.2 and newer.
enum Code {
  set = 1,
  compare_set,
  get,
  add,
  check,
  wait,
  count_keys,
  delete_key,
  append,
  multi_get,
  multi_set
};
enum LaterCode { cancel_wait = 12, ping, push, pop, queue_length, list_keys, barrier };

struct StoreMessage {
  std::string name;
  std::string request;
  std::string reply;
};

// Hex pairs and quoted text, blanks between them.
inline std::string parse_bytes(std::string_view line) {
  std::string bytes;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == ' ') {
      ++i;
    } else if (line[i] == '"') {
      const std::size_t end = line.find('"', i + 1);
      bytes += line.substr(i + 1, end - i - 1);
      i = end + 1;
    } else {
      bytes.push_back(static_cast<char>(std::stoi(std::string(line.substr(i, 2)), nullptr, 16)));
      i += 2;
    }
  }
  return bytes;
}

inline std::vector<StoreMessage> read_conversation(const std::string& release) {
  std::ifstream file(std::string(DDPRUN_TEST_DATA) + "/store/" + release + ".txt");
  if (!file) throw std::runtime_error("no conversation of " + release);
  std::vector<StoreMessage> conversation;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '>') {
      conversation.back().request = parse_bytes(std::string_view(line).substr(1));
    } else if (line[0] == '<') {
      conversation.back().reply = parse_bytes(std::string_view(line).substr(1));
    } else {
      conversation.push_back({line, {}, {}});
    }
  }
  return conversation;
}

}  // namespace store_wire
