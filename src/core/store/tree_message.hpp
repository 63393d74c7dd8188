// Messages between the stores of a tree.
// A relay serves the workers of its host and passes on to its parent what it cannot answer itself, up to the
// store of the whole job.
//
// A message is the 32-bit length of what follows, a byte that says which it is, and its fields: 32-bit
// numbers, and texts with a 32-bit length; all little-endian. What a link delivers is in order.
//
// A relay may answer WAIT, CHECK, GET and MULTI_GET itself for a key of which it holds that it is there (and
// its value). It holds that from `have` or `present` until `recall`, and who sent them changes nothing of it
// before the relay has said `recalled`: see docs/store.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/request.hpp"

namespace ddprun::store {

enum class TreeMessageKind : std::uint8_t {
  // Messages to the parent:
  request,   // channel, operation, text: a request of the client of that channel, which begins with its first
  close,     // channel: that client has gone
  want,      // key: tell me when it is there
  unwant,    // key: no client waits for it any more
  recalled,  // number: answer to recall
  // Messages to the child:
  reply,    // channel, number of its requests that were carried out, idle, text: bytes for the client
  refuse,   // channel, text: why the client's connection has to be closed; it has gone
  have,     // key, text: its value; answer to want
  present,  // key: it is there; answer to want
  plain,    // key: ask about it by requests; answer to want
  recall,   // number, key: forget it, and wait for it by requests
};

// Views into what was received, or into what is to be written.
struct TreeMessage {
  TreeMessageKind kind{};
  std::uint32_t channel = 0;
  std::uint32_t number = 0;
  StoreOperation operation{};
  bool idle = false;  // no WAIT of the client is under way there
  std::string_view key{};
  std::string_view text{};
};

void write_message(std::string& bytes, const TreeMessage& message);

// Puts the messages of a link together again, whose frames may cut them anywhere.
class TreeReader {
 public:
  // Calls handle(const TreeMessage&) for each message that is complete; a request's body then has the shape
  // of its operation. False: what comes is no message, or handle() returned false; the reader is of no more
  // use.
  template <class Handler>
  bool receive(std::string_view bytes, const StoreLimits& limits, Handler&& handle);

 private:
  static constexpr std::size_t k_header = sizeof(std::uint32_t);
  // Returns the length of the message at the beginning of `bytes`, with its header; nullopt while that is
  // incomplete.
  static std::optional<std::size_t> length_of(std::string_view bytes, const StoreLimits& limits);
  static std::optional<TreeMessage> parse(std::string_view body, const StoreLimits& limits);

  std::string held_;
};

// Reports whether such a message comes from a child; else it comes from the parent.
bool is_from_child(TreeMessageKind kind);

template <class Handler>
bool TreeReader::receive(std::string_view bytes, const StoreLimits& limits, Handler&& handle) {
  const bool resumed = !held_.empty();
  if (resumed) held_.append(bytes);
  std::string_view rest = resumed ? std::string_view(held_) : bytes;
  while (true) {
    const auto length = length_of(rest, limits);
    if (!length || *length > rest.size()) break;
    const auto message = parse(rest.substr(k_header, *length - k_header), limits);
    if (!message || !handle(*message)) return false;
    rest.remove_prefix(*length);
  }
  if (resumed) {
    held_.erase(0, held_.size() - rest.size());
  } else {
    held_.assign(rest);
  }
  if (held_.empty()) std::string().swap(held_);  // an assignment would keep the memory
  return true;
}

}  // namespace ddprun::store
