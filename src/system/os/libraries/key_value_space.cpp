#include "os/libraries/key_value_space.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/libraries/pmi_client.hpp"
#include "os/libraries/pmix_client.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

struct PmiServer {
  int descriptor = -1;  // PMI_FD
  std::string port;     // PMI_PORT, used with id and size
  std::string id;       // PMI_ID
  int size = 1;
};

std::string variable_of(const facts::Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

PmiServer find_server(const facts::Environment& environment) {
  PmiServer server;
  server.size = static_cast<int>(parse_integer(variable_of(environment, "PMI_SIZE")).value_or(1));
  const std::string number = variable_of(environment, "PMI_FD");
  if (number.empty()) {
    server.port = variable_of(environment, "PMI_PORT");
    server.id = variable_of(environment, "PMI_ID");
    if (server.port.empty() || server.id.empty())
      throw Error("neither PMI_FD nor PMI_PORT with PMI_ID is set");
    return server;
  }
  const auto descriptor = parse_integer(number);
  if (!descriptor || *descriptor < 3 || *descriptor > 1 << 20 ||
      ::fcntl(static_cast<int>(*descriptor), F_GETFD) < 0) {
    throw Error(fmt::format("PMI_FD={} is not an open descriptor of this process", printable(number, 40)));
  }
  server.descriptor = static_cast<int>(*descriptor);
  return server;
}

facts::KeyValueAnswer speak_pmi(int descriptor, const PmiServer& server, const KeyValueRequest& request) {
  if (!server.port.empty()) {
    const std::string problem = connect_to_pmi(descriptor, server.port);
    if (!problem.empty()) return {facts::KeyValueAnswer::Kind::failed, problem};
  }
  return key_value_space_over_pmi(descriptor, {request.value, server.size, request.all_take_part, server.id},
                                  {request.answer_limit, request.barrier_limit});
}

constexpr const char* k_purpose = "start a process for the launcher's key-value space";

}  // namespace

KeyValueClient::KeyValueClient(const facts::Environment& environment, const KeyValueRequest& request) {
  if (request.service == KeyValueRequest::Service::pmix) {
    const auto key_value_space = [&] {
      return facts::render_answer(
          key_value_space_over_pmix(request.library, request.value, request.all_take_part));
    };
    child_ = AnsweringChild(key_value_space, k_purpose);
    return;
  }
  const PmiServer server = find_server(environment);
  pmi_ = server.descriptor;
  if (pmi_ < 0) {
    // The socket is made here and connected in the child, so that the connection outlives it.
    connection_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!connection_) throw system_failure("cannot create a socket for PMI", errno);
    pmi_ = connection_.get();
  }
  child_ = AnsweringChild([&] { return facts::render_answer(speak_pmi(pmi_, server, request)); }, k_purpose);
}

void KeyValueClient::finish(Milliseconds limit) {
  child_.end();
  if (pmi_ >= 0) finish_pmi(pmi_, limit);
}

}  // namespace ddprun::os
