#include "inspection/worker_questions.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "os/clock.hpp"
#include "profile/rank_profile.hpp"
#include "slow/collectives.hpp"

namespace ddprun::inspection {

namespace {

constexpr Milliseconds k_profile_limit{2000};  // below k_profile_grace
constexpr Milliseconds k_trace_limit{1000};

bool has(const std::string& door, const char* end) {
  return !door.empty() && ::access((door + end).c_str(), F_OK) == 0;
}

// An empty door is not asked.
std::vector<SocketQuestion> ask(const std::vector<std::string>& doors, const std::string& handler,
                                Milliseconds limit) {
  std::vector<SocketQuestion> questions;
  for (const std::string& door : doors)
    questions.push_back(post(has(door, ".socket") ? door + ".socket" : "", handler));
  std::vector<SocketQuestion*> all;
  for (SocketQuestion& question : questions) all.push_back(&question);
  ask_all(all, limit);
  return questions;
}

std::string why_unseen(const status::WorkerStatus& worker, const std::string& door, std::string_view answer) {
  if (worker.pid == 0) return "it has ended";
  if (door.empty()) return "not inspected";
  if (answer.starts_with("HTTP/1.1 503")) return "another profile of it is being taken";
  if (answer.starts_with("HTTP/1.1 404")) return "its torch cannot be asked";
  if (has(door, ".ending")) return "its script has ended";
  return has(door, ".socket") ? "the interpreter does not answer" : "it has not imported torch";
}

std::string profile_workers(const status::NodeStatus& node, std::vector<std::string> doors,
                            Milliseconds duration, int limit) {
  for (std::size_t i = 0; i < doors.size(); ++i) {
    if (node.workers.at(i).pid == 0) doors[i].clear();
  }
  const auto questions =
      ask(doors,
          fmt::format("ddprun?seconds={}&rate={}&limit={}", static_cast<double>(duration.count()) / 1000,
                      profile::k_rate, limit),
          duration + k_profile_limit);
  std::string lines;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const status::WorkerStatus& worker = node.workers[i];
    const auto body = body_of(questions[i]);
    lines +=
        profile::render_rank(worker.rank, node.host, worker.pid,
                             body ? "" : why_unseen(worker, doors[i], questions[i].answer().value_or("")),
                             body.value_or("")) +
        "\n";
  }
  return lines;
}

std::string capture_traces(const std::vector<std::string>& doors, const std::vector<int>& ranks,
                           const ListConnections& connections, std::size_t most) {
  const auto questions = ask(doors, "fr_trace_json?includestacktraces=false", k_trace_limit);
  slow::NodeTrace node;
  for (std::size_t i = 0; i < questions.size() && i < ranks.size(); ++i) {
    if (const auto body = body_of(questions[i])) slow::add_flight_record(node, ranks[i], *body);
    if (node.ranks.size() == 1 && node.step == 0)
      node.step = static_cast<int>(slow::find_step(node).value_or(0));
    slow::shorten(node, most);
  }
  node.connections = connections();
  return slow::render_trace(node);
}

}  // namespace

os::AnsweringChild profile_workers_in_child(const status::NodeStatus& node,
                                            const std::vector<std::string>& doors, Milliseconds duration,
                                            int limit) {
  return os::AnsweringChild([=] { return profile_workers(node, doors, duration, limit); },
                            "take a profile of the workers");
}

bool has_collective_traces(const std::vector<std::string>& doors) {
  return std::ranges::any_of(doors, [](const std::string& door) { return has(door, ".socket"); });
}

os::AnsweringChild capture_traces_in_child(const std::vector<std::string>& doors,
                                           const std::vector<int>& ranks, const ListConnections& connections,
                                           std::size_t most) {
  return os::AnsweringChild([=] { return capture_traces(doors, ranks, connections, most); },
                            "ask the workers for their collectives");
}

namespace {

using Json = nlohmann::json;

constexpr Milliseconds k_limit{1000};

std::vector<std::string> names_in(const Json& names) {
  std::vector<std::string> found;
  if (!names.is_array()) return found;
  for (const Json& name : names) {
    if (name.is_string()) found.push_back(name.get<std::string>());
  }
  return found;
}

Json loaded_in(std::string_view body) {
  const Json told = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  return told.is_object() && told.contains("loaded") ? told["loaded"] : Json::array();
}

std::string ask(const std::vector<std::string>& doors) {
  std::vector<SocketQuestion> questions;
  for (const std::string& door : doors)
    questions.push_back(post(door.empty() ? "" : door + ".socket", "ddprun?modules=1"));
  std::vector<SocketQuestion*> all;
  for (SocketQuestion& question : questions) all.push_back(&question);
  ask_all(all, k_limit);
  Json modules = Json::array();
  for (const SocketQuestion& question : questions)
    modules.push_back(loaded_in(body_of(question).value_or("")));
  return modules.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

os::AnsweringChild capture_modules_in_child(std::vector<std::string> doors) {
  return os::AnsweringChild([doors = std::move(doors)] { return ask(doors); },
                            "ask the workers for their modules");
}

std::vector<std::vector<std::string>> parse_modules(std::string_view answer) {
  const Json told = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  std::vector<std::vector<std::string>> modules;
  if (!told.is_array()) return modules;
  for (const Json& names : told) modules.push_back(names_in(names));
  return modules;
}

namespace {

constexpr std::size_t k_largest_answer = std::size_t{8} << 20;

template <class Address>
os::Fd begin_to_connect(int family, const Address& address) {
  os::Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {};
  const int result = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return result == 0 || errno == EINPROGRESS ? std::move(socket) : os::Fd();
}

}  // namespace

os::Fd connect_to_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return {};
  std::ranges::copy(path, address.sun_path);
  return begin_to_connect(AF_UNIX, address);
}

os::Fd connect_to_local_port(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return begin_to_connect(AF_INET, address);
}

pollfd SocketQuestion::polled() const {
  return {socket_.get(), static_cast<short>(sent_ < request_.size() ? POLLOUT : POLLIN), 0};
}

void SocketQuestion::go_on() {
  if (sent_ < request_.size()) return send();
  std::array<char, 65536> buffer;
  const ssize_t length = ::read(socket_.get(), buffer.data(), buffer.size());
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (length > 0) answer_.append(buffer.data(), static_cast<std::size_t>(length));
  whole_ = length == 0;
  if (length <= 0 || answer_.size() > k_largest_answer) socket_ = os::Fd();
}

void SocketQuestion::send() {
  const ssize_t length =
      ::send(socket_.get(), request_.data() + sent_, request_.size() - sent_, MSG_NOSIGNAL);
  if (length >= 0) sent_ += static_cast<std::size_t>(length);
  if (length < 0 && errno != EAGAIN && errno != EINTR) socket_ = os::Fd();
}

SocketQuestion post(const std::string& socket_path, std::string_view handler) {
  return {connect_to_path(socket_path),
          fmt::format("POST /handler/{} HTTP/1.1\r\nHost: worker\r\nContent-Length: 0\r\n"
                      "Connection: close\r\n\r\n",
                      handler)};
}

std::optional<std::string_view> body_of(const SocketQuestion& posted) {
  const std::string_view answer = posted.answer().value_or("");
  const std::size_t head = answer.find("\r\n\r\n");
  if (head == std::string_view::npos) return std::nullopt;
  if (!answer.starts_with("HTTP/1.1 200") && !answer.starts_with("HTTP/1.0 200")) return std::nullopt;
  return answer.substr(head + 4);
}

void ask_all(const std::vector<SocketQuestion*>& questions, Milliseconds limit) {
  const TimePoint deadline = os::now() + limit;
  while (true) {
    std::vector<pollfd> polled;
    std::vector<SocketQuestion*> open;
    for (SocketQuestion* const question : questions) {
      if (!question->is_open()) continue;
      polled.push_back(question->polled());
      open.push_back(question);
    }
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - os::now()).count();
    if (open.empty() || left <= 0) return;
    if (::poll(polled.data(), polled.size(), static_cast<int>(left)) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (polled[i].revents != 0) open[i]->go_on();
    }
  }
}

}  // namespace ddprun::inspection
