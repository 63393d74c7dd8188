// A host's name being looked up by a child process.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "net/whole_answer.hpp"

namespace ddprun::net {

// A name being looked up somewhere it can be given up: the descriptor gives numeric addresses, one a line, or
// one line "error: <why>", and then its end. Dropping the owner ends the look-up and closes the descriptor.
struct NameLookup {
  int descriptor = -1;
  std::shared_ptr<void> owner;
};

using OnAddresses = std::function<void(std::vector<std::string> addresses, std::string error)>;

// Starts a look-up; `on_addresses` is called once with addresses or a sentence, unless cancelled. The look-up
// ends with the answer.
std::shared_ptr<WholeAnswer> query_name(boost::asio::io_context& context, NameLookup lookup,
                                        Milliseconds limit, OnAddresses on_addresses);

}  // namespace ddprun::net
