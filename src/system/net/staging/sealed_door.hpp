// Door where other agents get copies from this one, and the sealed connections there for threads that wait.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "net/sealed_stream.hpp"
#include "net/tcp_tools.hpp"
#include "net/timed_socket.hpp"
#include "rendezvous/handshake.hpp"
#include "staging/tree.hpp"

namespace ddprun::net {

// A sealed connection for threads that wait: a handshake as between all agents, then pieces both ways.

// Pieces of a conversation about copies (--stage), and likewise of one about checkpoints
// (net/staging/shard_exchange.hpp). The one that wants a copy connects, and asks for one thing:
//   M item            its list                 -> L bytes ..., E digest of nothing
//   C item offset     its contents from there  -> D available bytes ..., E digest
// Before and between them may come K (nothing new yet), and instead of the rest F (the sentence that says why
// there is none) or B (ask another: too many others are served now). Numbers have 8 bytes.
enum class StagePiece : char {
  list_wanted = 'M',
  contents_wanted = 'C',
  list = 'L',
  contents = 'D',
  end = 'E',
  keep_waiting = 'K',
  failed = 'F',
  busy = 'B',
};

inline constexpr std::size_t k_stage_part = std::size_t{256}
                                            << 10U;        // bytes of a list or of contents in a piece
inline constexpr Milliseconds k_stage_sign_of_life{2000};  // sent by a server that has nothing new
inline constexpr Milliseconds k_stage_silence{10000};      // after which the other one is given up
inline constexpr Milliseconds k_stage_handshake{10000};    // all of it

class SealedSocket {
 public:
  // Proof that the two ends have to give: of one launch, and of the server's own secret.
  struct Proof {
    std::string launch_key;
    std::string secret;
  };
  // Connects. Returns an empty text, or the reason of a failure.
  std::string connect(const std::string& address, int port, const Proof& proof);
  // Connects to the first of its addresses that answers; the server has a door.
  std::string connect(const staging::Server& server, const std::string& launch_key);
  // Goes on after a handshake; `first` has come with its end.
  void take_over(TimedSocket connected, const rendezvous::SessionKeys& keys, std::string_view first);

  bool send(StagePiece kind, std::string_view text = {});
  struct Piece {
    StagePiece kind;
    std::string text;
  };
  std::optional<Piece> receive();  // nullopt: silent for too long, or the connection has ended

 private:
  std::string shake_hands(const Proof& proof);

  TimedSocket socket_;
  std::optional<SealedWriter> out_;
  std::optional<SealedReader> in_;
  std::string plain_, sealed_, received_;  // buffers
};

// Door where other agents get copies from this one: a port, and a thread for each that has proved itself.

struct Door {
  BoundSocket listener;  // listens
  std::string text;      // "PORT/SECRET", for the announcement; empty: no port is free
};
// Opens the first of `ports` that is free.
Door open_door(const std::vector<int>& ports, const std::string& secret);

// Serves as long as the process lives: has `converse` talk with each agent, at most so many at a time; others
// are told that it is busy. `listener` does not block.
void serve_sealed(int listener, const SealedSocket::Proof& proof, int most,
                  std::function<void(SealedSocket&)> converse);

}  // namespace ddprun::net
