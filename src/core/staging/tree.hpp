// Tree of the hosts that copy for --stage: each gets its copy from its parent; the root reads the source.
#pragma once

#include <string>
#include <vector>

namespace ddprun::staging {

// A host passes a copy on to so many others while it gets its own. With two, each sends every byte twice;
// a longer way costs little, as a part goes on as soon as it has come.
inline constexpr std::size_t k_fan_out = 2;

// Server of copies in an agent.
struct Server {
  std::string host;
  std::string door;  // "PORT/SECRET", as its agent has announced; empty: it does not
  std::vector<std::string> addresses;
  friend bool operator==(const Server&, const Server&) = default;
};

// Tree of one server a host, the first; the others of a host get what is needed from that one.
class Tree {
 public:
  // Makes the tree of the agents of the launch; the host of `root` reads the source.
  Tree(std::vector<Server> servers, std::size_t root);
  // Returns the servers that agent asks: its parent, then the parent's parent, up to the root. Empty: it
  // reads the source.
  std::vector<Server> sources_of(std::size_t agent) const;

 private:
  std::vector<Server> servers_;
  std::vector<std::size_t> hosts_;      // the first agent of each host, in the order of the tree
  std::vector<std::size_t> positions_;  // position of each agent's host there
};

}  // namespace ddprun::staging
