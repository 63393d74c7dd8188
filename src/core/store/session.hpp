// One connection of a c10d store: cuts its bytes into requests and tells which torch release speaks.
//
// Torch 2.2 and newer begin with VALIDATE: a zero byte and a magic number, which as an older release's SET
// would be a key of a gigabyte. Everything else is an older release, whose numbers 0 to 6 mean the same in
// all. From 7 on:
//
//     number     torch 2.0 and older             torch 2.1
//     7          WATCH_KEY key                   DELETE_KEY key
//     8          DELETE_KEY key                  APPEND key value
//     9 10 11    -                               MULTI_GET, MULTI_SET, CANCEL_WAIT
//
// Someone who has seen the installed torch can say which it is (OldTorch::known). Otherwise it is told from
// how the clients behave, and the first proof settles it for the whole store:
// - 9, 10 and 11 prove 2.1.
// - 2.0 sends WATCH_KEY only on a connection made for nothing else, so 7 means WATCH_KEY where
//   nothing else was sent before, and proves 2.1 elsewhere.
// - 2.0 waits for the answer to DELETE_KEY, and each of its clients keeps that second connection, silent
//   as a rule; 2.1 sends APPEND's value in the same write as its key, and its connections speak at
//   once. So 8 means DELETE_KEY when the bytes end with the key and some connection is still silent; bytes
//   behind the key prove 2.1. What remains is a 2.1 write cut exactly behind the key while another client is
//   just connecting; `known` removes that doubt too.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "store/request.hpp"

namespace ddprun::store {

// Outcome of a request, and of those that came with it.
struct StoreTurn {
  bool over = false;     // later ones wait
  bool not_yet = false;  // waits itself
};

// Knowledge about torch before 2.2 that all sessions of a store share.
struct OldTorch {
  std::optional<StoreDialect> known;  // given, or proven by a client
  int silent_connections = 0;         // open and without a byte so far
};

class StoreSession {
 public:
  // Takes what came from the peer, in any pieces, and calls handle(StoreRequest, StoreTurn&) for each
  // complete request; handle returns nothing, or why the connection has to be closed. Returns that complaint,
  // or one about bytes that are no request; after a complaint the session is of no more use. Kept are an
  // incomplete request and, when the turn is over, complete ones: paused() then, and receive() with no bytes
  // goes on.
  template <class Handler>
  std::optional<std::string> receive(std::string_view bytes, const StoreLimits& limits, OldTorch& old_torch,
                                     Handler&& handle);

  bool paused() const { return paused_; }
  bool silent() const { return stage_ == Stage::silent; }
  // Returns nullopt while that is open.
  std::optional<StoreDialect> dialect() const { return dialect_; }
  // Returns the bytes held for an incomplete request.
  std::size_t held() const { return held_.capacity() > k_in_place ? held_.capacity() : 0; }

 private:
  enum class Stage : std::uint8_t { silent, opening, between_requests, in_request };
  enum class Step : std::uint8_t { need_more, request, complaint };
  static constexpr std::size_t k_in_place = 15;

  Step next(std::string_view bytes, const StoreLimits& limits, OldTorch& old_torch);
  Step open(std::string_view bytes);
  bool begin_request(std::uint8_t number, OldTorch& old_torch);
  std::optional<StoreOperation> old_operation(std::uint8_t number, OldTorch& old_torch);
  void decide_eight(bool bytes_behind_key, OldTorch& old_torch);
  Step complain(std::string_view why);
  void keep(std::string_view rest);

  std::string held_;
  RequestScanner scanner_;
  std::string_view complaint_;
  Stage stage_ = Stage::silent;
  StoreOperation operation_ = StoreOperation::validate;
  bool undecided_eight_ = false;  // operation_ is DELETE_KEY until decide_eight
  bool paused_ = false;
  bool only_watches_ = true;  // no request but WATCH_KEY so far
  std::optional<StoreDialect> dialect_;
  std::size_t used_ = 0;  // bytes of the step's request, its number included
};

template <class Handler>
std::optional<std::string> StoreSession::receive(std::string_view bytes, const StoreLimits& limits,
                                                 OldTorch& old_torch, Handler&& handle) {
  if (bytes.empty() && !std::exchange(paused_, false)) return std::nullopt;
  StoreTurn turn;
  const bool resumed = !held_.empty();
  if (resumed) held_.append(bytes);
  std::string_view rest = resumed ? std::string_view(held_) : bytes;
  while (!rest.empty() && !turn.over) {
    const Step step = next(rest, limits, old_torch);
    if (step == Step::need_more) break;
    if (step == Step::complaint) return std::string(complaint_);
    const StoreRequest request{operation_, rest.substr(1, used_ - 1)};
    if (auto complaint = handle(request, turn)) return complaint;
    if (!turn.not_yet) rest.remove_prefix(used_);
  }
  paused_ = turn.over && !rest.empty();
  keep(rest);
  return std::nullopt;
}

}  // namespace ddprun::store
