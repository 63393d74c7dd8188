// Hosts with a path from each to each other that may be cut, in one direction too, and connections between
// their processes as TCP makes them: what was sent arrives in order, or once the path is there again; a
// process that has ended closes them (FIN); who gives one up while it lives resets it (RST); and either end
// gives it up by itself after silence (rendezvous/host_limits.hpp).
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "clock.hpp"
#include "rendezvous/host_limits.hpp"

namespace ddprun::simulation {

using rendezvous::ConnectionEnd;

// What a process sees of its end of a connection. Called in the kernel's time, not the process'.
struct LinkHooks {
  std::function<void(std::string)> on_bytes;
  std::function<void(ConnectionEnd)> on_end;
};

class Network;

class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(Network& network, std::array<int, 2> hosts, std::array<Milliseconds, 2> limits);
  void listen(int end, LinkHooks hooks) { ends_.at(index(end)).hooks = std::move(hooks); }
  int host(int end) const { return ends_.at(index(end)).host; }
  void send(int end, std::string bytes);
  void finish(int end);  // nothing follows; what comes is still read
  void close(int end);   // as by the end of a process
  void reset(int end);
  void vanish(int end);  // with its host, without a word

  int leader = -1;  // the number of the process that coordinates

 private:
  friend class Network;
  struct Packet {
    std::string bytes;
    bool last = false;
  };
  struct End {
    explicit End(Clock& clock) : silence(clock) {}
    int host = 0;
    Milliseconds limit{0};
    LinkHooks hooks;
    bool open = true;
    bool finished = false;    // has sent its last
    std::deque<Packet> sent;  // and not arrived
    bool arriving = false;
    TimePoint heard;          // an answer, while the path is cut
    bool silent = false;      // it is
    bool unanswered = false;  // something was sent since then
    Timer silence;
  };

  static std::size_t index(int end) { return static_cast<std::size_t>(end); }
  End& at(int end) { return ends_.at(index(end)); }
  bool round_trip() const;
  void deliver(int from);
  void arrive(int from);
  void tell_end(int end, ConnectionEnd how);
  void send_reset(int from);
  void count_silence(int end);
  void note_path();  // it has changed

  Network& network_;
  std::vector<End> ends_;
};

struct Timing {
  Microseconds least{100}, most{2000};  // a packet's way
};

class Network {
 public:
  Network(Clock& clock, Random& random, int hosts, Timing timing);
  bool reaches(int from, int to) const { return from == to || paths_[index(from, to)]; }
  void set_path(int from, int to, bool there);
  std::shared_ptr<Link> connect(int from, int to, Milliseconds limit_from, Milliseconds limit_to);
  Microseconds way() { return between(random_, timing_.least, timing_.most); }
  Clock& clock() { return clock_; }
  Random& random() { return random_; }

 private:
  friend class Link;
  std::size_t index(int from, int to) const { return static_cast<std::size_t>(from * hosts_ + to); }

  Clock& clock_;
  Random& random_;
  int hosts_;
  Timing timing_;
  std::vector<bool> paths_;
  std::vector<std::shared_ptr<Link>> links_;
};

}  // namespace ddprun::simulation
