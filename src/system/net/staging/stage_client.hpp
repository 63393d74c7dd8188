// Gets a copy for --stage from the hosts that have it.
// It asks the parent in the tree, and if that one is lost, slow, or has none, those above it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/staging/sealed_socket.hpp"
#include "staging/tree.hpp"

namespace ddprun::net {

class StageClient {
 public:
  struct Settings {
    std::vector<staging::Server> sources;  // the parent first, the root last
    std::string launch_key;
    std::function<void(const std::string& what)> tell;  // a detail: it turns to another host
    std::function<bool()> stop;                         // true when no process needs the copy any more
  };
  explicit StageClient(Settings settings)
      : settings_(std::move(settings)), refused_(settings_.sources.size()) {}

  // Gets the list. Like get_contents() it waits as long as a host that could have it shows signs of life.
  // nullopt: why() says why.
  std::optional<std::string> get_list(std::size_t item);
  // Gets the contents from `offset` on; `take` is called in order. Returns the digest that the source has of
  // all contents.
  std::optional<std::string> get_contents(std::size_t item, std::uint64_t offset,
                                          const std::function<void(std::string_view)>& take);
  // Notes that the last source gave contents that do not fit their digest.
  void distrust();
  const std::string& why() const { return why_; }
  const std::string& host() const { return settings_.sources[current_].host; }  // source of the copy
  // Reports whether the root has none, and says there why.
  bool is_refused() const { return !refused_.empty() && refused_.back(); }

 private:
  enum class Ended { done, lost, refused, busy, slow, stopped };
  template <class Talk>
  bool ask_each(const Talk& talk);
  bool move_on();
  Ended connect(SealedSocket& socket);
  Ended end_with(const std::optional<SealedSocket::Piece>& piece);
  Ended read_list(SealedSocket& socket, std::size_t item, std::string& list);

  Settings settings_;
  std::vector<bool> refused_;  // sources that have none
  std::size_t current_ = 0;
  bool progressed_ = false;
  std::string why_ = "no other host has it";
};

}  // namespace ddprun::net
