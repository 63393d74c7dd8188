// Sockets by which a user's ddprun processes answer questions about their jobs.
// Each listens at a socket whose name, in the abstract namespace of unix(7), has the user's and the process'
// number. It leaves nothing behind when the process is killed and needs no folder, which many compute nodes
// have none for. Both ends ask the kernel who the other one is, since anybody may take such a name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::os {

// Subjects of questions, each with a socket of its own.
enum class Asks { status, stacks, restart, profile };

// Returns the name without the null byte in front: "ddprun/status/1000/4711".
std::string status_socket_name(int pid, Asks asks = Asks::status);

// Returns the process number in such a name, which may go on behind it: "ddprun/status/1000/4711/8f3c".
std::string process_of_status_socket(const std::string& name);
// Returns the user that listens at a name if it is another user and not root.
std::optional<unsigned> find_other_owner(const std::string& name);

// Reports whether the other end of a connected unix socket is this user's, or root's.
bool is_of_this_user(int descriptor);

// Names the user and the process at the other end of a connected unix socket: "ada (pid 123)". `own`: this
// process' user. Without the process where it is in another namespace.
std::string describe_peer(int descriptor, const std::string& own);

// Returns the names of all processes of this user that can be asked on this host.
std::vector<std::string> list_status_sockets(Asks asks = Asks::status);
// Parses the names among the lines of /proc/net/unix.
std::vector<std::string> parse_status_sockets(std::string_view table, unsigned user,
                                              Asks asks = Asks::status);

// Answers of all of them, asked at once; those of other users are left out. Each gets the request, if there
// is one.
struct StatusAnswers {
  std::vector<std::string> texts;
  std::vector<std::string> silent;  // the names of those that did not answer within `limit`
};
StatusAnswers ask_status_sockets(const std::vector<std::string>& names, Milliseconds limit,
                                 const std::string& request = {});

}  // namespace ddprun::os
