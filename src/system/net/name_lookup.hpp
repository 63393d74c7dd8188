// Looks a host name up beside the event loop, for a caller that waits or one that goes on.
// The C library's resolver blocks for as long as a name server likes.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "net/whole_answer.hpp"
#include "os/process/helper_child.hpp"

namespace ddprun::net {

// A host's name being looked up by a child process.

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

// Returns the numeric addresses in the resolver's order, else in a job of Slurm the node's NodeAddr as
// scontrol shows it; none if the name is not known or no answer comes in time.
std::vector<std::string> look_up_name(const std::string& name, Milliseconds limit = k_lookup_limit);

// Reports whether a numeric address has a name; nullopt if no answer comes within `limit`.
std::optional<bool> has_name(const std::string& address, Milliseconds limit = k_lookup_limit);

class NameLookupChild {
 public:
  // Throws Error when there can be no child.
  explicit NameLookupChild(const std::string& name);

  // Gives numeric addresses, one a line, in the resolver's order, or one line "error: <why>"; then its end.
  int descriptor() const { return child_.descriptor(); }

 private:
  os::AnsweringChild child_;
};

}  // namespace ddprun::net
