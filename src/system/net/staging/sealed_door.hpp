// Door where other agents get copies from this one: a port, and a thread for each that has proved itself.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "net/bound_socket.hpp"
#include "net/staging/sealed_socket.hpp"

namespace ddprun::net {

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
