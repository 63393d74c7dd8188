// Looks a host name up beside the event loop.
// The C library's resolver blocks for as long as a name server likes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "os/process/answering_child.hpp"

namespace ddprun::net {

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
