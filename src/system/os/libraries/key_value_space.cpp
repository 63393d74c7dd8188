#include "os/libraries/key_value_space.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/libraries/library_function.hpp"
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

namespace {

struct ReadLine {
  std::string text;     // without its end
  std::string problem;  // reason why there is none, as in "it ..."
};

// Reads a line byte by byte: what follows it may be for another process.
ReadLine read_line(int descriptor, TimePoint deadline) {
  ReadLine line;
  while (line.text.size() < facts::k_max_pmi_line) {
    if (!wait_until_ready(descriptor, deadline)) return {{}, "sent nothing"};
    char byte = 0;
    const ssize_t got = ::read(descriptor, &byte, 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return {{}, fmt::format("closed the connection ({})", describe_errno(errno))};
    if (got == 0) return {{}, "closed the connection"};
    if (byte == '\n') return line;
    line.text.push_back(byte);
  }
  return {{}, "sent an endless line"};
}

// Sends a request of a few hundred bytes in one piece (Slurm reads init with a single read); the server has
// none before it, and takes it at once.
bool send_line(int descriptor, const std::string& line) {
  ssize_t sent = ::send(descriptor, line.data(), line.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno == ENOTSOCK) sent = ::write(descriptor, line.data(), line.size());
  return sent == static_cast<ssize_t>(line.size());
}

}  // namespace

std::string connect_to_pmi(int socket, const std::string& host_and_port) {
  const std::size_t colon = host_and_port.rfind(':');
  if (colon == std::string::npos) return "PMI_PORT is not HOST:PORT";
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string host = host_and_port.substr(0, colon);
  const std::string port = host_and_port.substr(colon + 1);
  const int result = ::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found);
  if (result != 0) return fmt::format("{} cannot be found: {}", host_and_port, ::gai_strerror(result));
  const bool connected = ::connect(socket, found->ai_addr, found->ai_addrlen) == 0;
  const int error = errno;
  ::freeaddrinfo(found);
  return connected ? std::string()
                   : fmt::format("{} cannot be reached: {}", host_and_port, describe_errno(error));
}

facts::KeyValueAnswer key_value_space_over_pmi(int descriptor, facts::PmiRequest request,
                                               const PmiLimits& limits) {
  facts::PmiConversation conversation(std::move(request));
  std::string next = conversation.start();
  while (!conversation.over()) {
    const bool barrier = conversation.asked() == "barrier_in";
    if (!next.empty() && !send_line(descriptor, next)) {
      return {facts::KeyValueAnswer::Kind::failed,
              fmt::format("it does not accept requests: {}", describe_errno(errno))};
    }
    const Milliseconds limit = barrier ? limits.barrier : limits.answer;
    const ReadLine line = read_line(descriptor, now() + limit);
    if (!line.problem.empty()) {
      const std::string waited =
          line.problem == "sent nothing" ? " for " + describe_duration(limit) : std::string();
      return {facts::KeyValueAnswer::Kind::failed,
              fmt::format("it {}{} when asked for {}", line.problem, waited, conversation.asked())};
    }
    next = conversation.take(line.text);
  }
  return conversation.answer();
}

void finish_pmi(int descriptor, Milliseconds limit) {
  const TimePoint deadline = now() + limit;
  if (!send_line(descriptor, std::string(facts::k_pmi_finalize))) return;
  while (true) {
    const ReadLine line = read_line(descriptor, deadline);
    // The answer to what a killed child asked may come first.
    if (!line.problem.empty() || line.text.starts_with(facts::k_pmi_finalized)) return;
  }
}

namespace {

// The part of pmix_common.h that is used: the same from 2.2 to 6.1, all libpmix.so.2.
constexpr std::uint16_t k_string = 3;
constexpr std::uint16_t k_uint16 = 13;
constexpr std::uint16_t k_uint32 = 14;
constexpr std::uint8_t k_scope_global = 3;
constexpr std::uint32_t k_rank_wildcard = 0xfffffffe;
constexpr const char* k_key = "ddprun";

struct Process {
  std::array<char, 256> space;
  std::uint32_t rank;
};

// The union begins at 8 bytes; the library's own has 24 in 4.2 and may grow.
struct Value {
  std::uint16_t type;
  union {
    char* string;
    std::uint32_t number;
    std::uint16_t small_number;
    std::array<unsigned char, 120> room;
  } data;
};
static_assert(offsetof(Value, data) == 8);

struct PmixLibrary {
  int (*init)(Process*, void*, std::size_t) = nullptr;
  int (*put)(std::uint8_t, const char*, Value*) = nullptr;
  int (*commit)() = nullptr;
  int (*fence)(const Process*, std::size_t, const void*, std::size_t) = nullptr;
  int (*get)(const Process*, const char*, const void*, std::size_t, Value**) = nullptr;
  int (*finalize)(const void*, std::size_t) = nullptr;
  const char* (*error_text)(int) = nullptr;

  // Loads the library. Returns an empty string, or the reason of a failure.
  std::string load(const std::string& name) {
    void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);  // global, for its plug-ins
    if (handle == nullptr) return fmt::format("libpmix cannot be loaded: {}", ::dlerror());
    const bool whole = find_function(handle, "PMIx_Init", init) && find_function(handle, "PMIx_Put", put) &&
                       find_function(handle, "PMIx_Commit", commit) &&
                       find_function(handle, "PMIx_Fence", fence) && find_function(handle, "PMIx_Get", get) &&
                       find_function(handle, "PMIx_Finalize", finalize) &&
                       find_function(handle, "PMIx_Error_string", error_text);
    return whole ? std::string() : fmt::format("{} lacks a function of libpmix", name);
  }
};

class Client {
 public:
  explicit Client(const PmixLibrary& library) : library_(library) {}

  facts::KeyValueAnswer key_value_space(const std::optional<std::string>& value, bool all_take_part) {
    if (!good(library_.init(&self_, nullptr, 0), "PMIx_Init")) return failed();
    facts::KeyValueAnswer answer = key_value_space_initialized(value, all_take_part);
    library_.finalize(nullptr, 0);
    return answer;
  }

  std::string ask_place() {
    if (!good(library_.init(&self_, nullptr, 0), "PMIx_Init")) return {};
    const auto size = number("pmix.job.size");
    const auto nodes = size ? number("pmix.num.nodes") : std::nullopt;
    const auto local_size = nodes ? number("pmix.local.size") : std::nullopt;
    const auto local_rank = local_size ? number("pmix.lrank", self_.rank) : std::nullopt;
    library_.finalize(nullptr, 0);
    if (!local_rank) return {};
    return fmt::format("PMIX_JOB_SIZE={}\nPMIX_NUM_NODES={}\nPMIX_LOCAL_RANK={}\nPMIX_LOCAL_SIZE={}\n", *size,
                       *nodes, *local_rank, *local_size);
  }

 private:
  bool good(int status, const char* call) {
    if (status == k_success) return true;
    problem_ = fmt::format("{}: {} ({})", call, printable(library_.error_text(status)), status);
    return false;
  }
  facts::KeyValueAnswer failed() const { return {facts::KeyValueAnswer::Kind::failed, problem_}; }

  facts::KeyValueAnswer key_value_space_initialized(const std::optional<std::string>& value,
                                                    bool all_take_part) {
    if (!all_take_part) {
      const auto processes = number("pmix.job.size");
      const auto nodes = processes ? number("pmix.num.nodes") : std::nullopt;
      if (!nodes) return failed();
      if (*processes > *nodes) return {facts::KeyValueAnswer::Kind::uneven, {}};
    }
    if (value && !put(*value)) return failed();
    if (!good(library_.fence(nullptr, 0, nullptr, 0), "PMIx_Fence")) return failed();
    if (value) return {facts::KeyValueAnswer::Kind::told, *value};
    Value* found = nullptr;
    Process first = self_;
    first.rank = 0;
    if (!good(library_.get(&first, k_key, nullptr, 0, &found), "PMIx_Get")) return failed();
    if (found == nullptr || found->type != k_string || found->data.string == nullptr) {
      return {facts::KeyValueAnswer::Kind::failed, "PMIx_Get returned something other than a string"};
    }
    return {facts::KeyValueAnswer::Kind::told, printable(found->data.string, facts::k_max_pmi_line)};
  }

  bool put(std::string text) {
    Value value{};
    value.type = k_string;
    value.data.string = text.data();
    return good(library_.put(k_scope_global, k_key, &value), "PMIx_Put") &&
           good(library_.commit(), "PMIx_Commit");
  }

  std::optional<std::uint32_t> number(const char* key, std::uint32_t rank = k_rank_wildcard) {
    Value* found = nullptr;
    Process of = self_;
    of.rank = rank;
    if (!good(library_.get(&of, key, nullptr, 0, &found), key)) return std::nullopt;
    if (found != nullptr && found->type == k_uint16) return found->data.small_number;
    if (found == nullptr || found->type != k_uint32) {
      problem_ = fmt::format("{} is not a number", key);
      return std::nullopt;
    }
    return found->data.number;
  }

  const PmixLibrary& library_;
  Process self_{};
  std::string problem_;
};

}  // namespace

facts::KeyValueAnswer key_value_space_over_pmix(const std::string& library,
                                                const std::optional<std::string>& value, bool all_take_part) {
  PmixLibrary loaded;
  const std::string problem = loaded.load(library);
  if (!problem.empty()) return {facts::KeyValueAnswer::Kind::failed, problem};
  return Client(loaded).key_value_space(value, all_take_part);
}

std::string ask_pmix_place(const std::string& library) {
  PmixLibrary loaded;
  return loaded.load(library).empty() ? Client(loaded).ask_place() : std::string();
}

}  // namespace ddprun::os
