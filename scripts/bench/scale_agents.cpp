// Many agents in one process, with ddprun's own rendezvous over real sockets and no workers: for
// scripts/bench/scale.
//
//   scale_agents coordinator AGENTS ADDRESS           prints its port, then what happens
//   scale_agents members FIRST COUNT AGENTS ADDRESS PORT
//
// Each line of its output is a word, the attempt and the time of CLOCK_MONOTONIC in seconds; each line of its
// input is a command: "lose" closes the last agent's connection, "succeed" ends all workers well.
#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "net/authentication.hpp"
#include "net/coordinator_service.hpp"
#include "net/member_service.hpp"

namespace {

using namespace ddprun;

constexpr const char* k_launch = "scale";
constexpr const char* k_version = "scale";
constexpr int k_successor_port = 20000;  // nobody takes over here
constexpr int k_store_port = 41000;      // nobody connects to it
constexpr Milliseconds k_limit{600000};

void tell(const char* word, int attempt) {
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  fmt::print("{} {} {:.6f}\n", word, attempt, now.count());
  std::fflush(stdout);
}

rendezvous::Authenticator authenticator() {
  SecretKey key;
  key.fill(1);
  return net::make_key_authenticator(key);
}

plan::Announcement announcement_of(int agent, const std::string& address) {
  plan::Announcement announcement;
  announcement.agent = AgentIndex{agent};
  announcement.host = fmt::format("n{}", agent);
  announcement.node = NodeIndex{agent};
  announcement.workers = 4;
  announcement.addresses = {address};
  return announcement;
}

// Calls for each line of standard input, and exits with its end.
class Commands {
 public:
  Commands(boost::asio::io_context& context, std::function<void(const std::string&)> handler)
      : input_(context, 0), handler_(std::move(handler)) {
    read();
  }

 private:
  void read() {
    boost::asio::async_read_until(input_, buffer_, '\n',
                                  [this](const boost::system::error_code& error, std::size_t) {
                                    if (error) std::exit(0);
                                    std::string line;
                                    std::istream stream(&buffer_);
                                    std::getline(stream, line);
                                    handler_(line);
                                    read();
                                  });
  }

  boost::asio::posix::stream_descriptor input_;
  boost::asio::streambuf buffer_;
  std::function<void(const std::string&)> handler_;
};

// One agent's part in an attempt: its workers run until they are told to stop.
class Part {
 public:
  explicit Part(std::function<void(rendezvous::AgentMessage)> send) : send_(std::move(send)) {}

  void take(const rendezvous::CoordinatorMessage& message) {
    if (const auto* start = std::get_if<rendezvous::Start>(&message))
      attempt_ = start->assignment.attempt.value;
    if (const auto* stop = std::get_if<rendezvous::Stop>(&message))
      send_(rendezvous::Stopped{stop->attempt, {}});
  }
  void succeed() { send_(rendezvous::AttemptSucceeded{{attempt_}}); }
  int attempt() const { return attempt_; }

 private:
  std::function<void(rendezvous::AgentMessage)> send_;
  int attempt_ = -1;
};

int coordinate(int agents, const std::string& address) {
  boost::asio::io_context context;
  std::unique_ptr<net::CoordinatorService> service;
  Part own([&](const rendezvous::AgentMessage& message) { service->send(message); });

  net::CoordinatorServiceSettings settings;
  settings.coordinator.agents = agents;
  settings.coordinator.elastic = rendezvous::ElasticNodes{1, 0, std::nullopt, options::Grow::now};
  settings.coordinator.succession = true;
  settings.coordinator.peers.assign(static_cast<std::size_t>(agents), {});
  settings.coordinator.version = k_version;
  settings.coordinator.join_timeout = k_limit;
  settings.coordinator.addresses = {address};
  settings.announcement = announcement_of(0, address);
  settings.ports = {0};
  settings.launch_key = k_launch;
  settings.authenticator = authenticator();
  net::CoordinatorHooks hooks;
  hooks.open_store = [](const rendezvous::OpenStore& open) {
    tell("ready", open.attempt.value);  // all have joined, or stopped
    return net::StoreOpened{k_store_port, {}};
  };
  hooks.close_store = [](Attempt) {};
  hooks.show_status = [](const std::string&) {};
  hooks.show_restart = [](const rendezvous::ShowRestart&) {};
  hooks.on_message = [&](const rendezvous::CoordinatorMessage& message) { own.take(message); };
  hooks.on_end = [&](const report::Cause& cause) {
    tell(cause.kind == report::Cause::Kind::success ? "end" : "failed", own.attempt());
  };
  service = std::make_unique<net::CoordinatorService>(context, std::move(settings), std::move(hooks));
  service->start();
  tell("port", service->port());
  Commands commands(context, [&](const std::string& command) {
    if (command == "succeed") own.succeed();
  });
  context.run();
  return 0;
}

class Members {
 public:
  Members(boost::asio::io_context& context, int first, int count, int agents, const std::string& address,
          int port)
      : context_(context), agents_(agents), address_(address), port_(port) {
    for (int agent = first; agent < first + count; ++agent) join(agent);
  }

  void lose_last() {
    members_.pop_back();
    tell("lost", 0);
  }
  void succeed() {
    for (const auto& member : members_) member->part.succeed();
  }

 private:
  struct Member {
    explicit Member(Members& all)
        : part([this](const rendezvous::AgentMessage& message) { service->send(message); }), owner(all) {}
    std::unique_ptr<net::MemberService> service;
    Part part;
    Members& owner;
  };

  void join(int agent) {
    Member& member = *members_.emplace_back(std::make_unique<Member>(*this));
    net::MemberServiceSettings settings;
    settings.join = {"n0", {address_}, {port_}, k_limit, {}, {}, {}};
    settings.launch_key = k_launch;
    settings.authenticator = authenticator();
    settings.announcement = announcement_of(agent, address_);
    settings.announcement.successor_port = k_successor_port;
    settings.version = k_version;
    settings.agents = agents_;
    net::MemberHooks hooks;
    hooks.on_message = [this, &member](const rendezvous::CoordinatorMessage& message) {
      note(member, message);
    };
    hooks.on_lost = [](const std::string& what, const std::string&, rendezvous::ConnectionEnd) {
      fmt::print(stderr, "{}\n", what);
      std::exit(1);
    };
    hooks.show_status = [](const std::string&) {};
    member.service = std::make_unique<net::MemberService>(context_, std::move(settings), std::move(hooks));
    member.service->start();
  }

  void note(Member& member, const rendezvous::CoordinatorMessage& message) {
    member.part.take(message);
    if (const auto* roster = std::get_if<rendezvous::Roster>(&message))
      member.service->send(rendezvous::RosterTaken{roster->number()});
    if (std::holds_alternative<rendezvous::Start>(message)) {
      if (member.part.attempt() != attempt_) started_ = 0;
      attempt_ = member.part.attempt();
      if (++started_ == members_.size()) tell("started", attempt_);
    }
    if (std::holds_alternative<rendezvous::Finish>(message) && ++finished_ == members_.size())
      tell("finished", attempt_);
  }

  boost::asio::io_context& context_;
  int agents_;
  std::string address_;
  int port_;
  std::vector<std::unique_ptr<Member>> members_;
  int attempt_ = -1;
  std::size_t started_ = 0, finished_ = 0;
};

int take_part(int first, int count, int agents, const std::string& address, int port) {
  boost::asio::io_context context;
  Members members(context, first, count, agents, address, port);
  Commands commands(context, [&](const std::string& command) {
    if (command == "lose") members.lose_last();
    if (command == "succeed") members.succeed();
  });
  context.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 3 && words[0] == "coordinator") return coordinate(std::stoi(words[1]), words[2]);
  if (words.size() == 6 && words[0] == "members")
    return take_part(std::stoi(words[1]), std::stoi(words[2]), std::stoi(words[3]), words[4],
                     std::stoi(words[5]));
  fmt::print(stderr,
             "usage: scale_agents coordinator AGENTS ADDRESS | members FIRST COUNT AGENTS ADDRESS PORT\n");
  return 2;
}
