// The two services of which an agent has one: as a member, and as the coordinator.
#pragma once

#include <set>

#include "agent.hpp"
#include "rendezvous/membership/member_session.hpp"

namespace ddprun::simulation {

inline constexpr int k_first_port = 29500;
inline constexpr int k_successor_port = 30000;

// As net/member_service.cpp.
class MemberSide {
 public:
  MemberSide(Agent& agent, World& world, const rendezvous::MemberJoinSettings& settings,
             std::optional<rendezvous::Survivor> told);
  void start();
  void send(const rendezvous::AgentMessage& message);
  void close();
  bool is_forsaken() const { return link && !closed_ && link_closed_; }

  std::shared_ptr<Link> link;

 private:
  void perform(const rendezvous::MemberJoin::Actions& actions);
  void dial(const rendezvous::DialCandidate& candidate);
  void join(const std::shared_ptr<Link>& taken, const std::string& address, int port);
  void take(const std::string& bytes);
  void receive(const std::string& payload);
  void lose(const std::string& what, ConnectionEnd end = ConnectionEnd::broken);
  void expect_word(const rendezvous::MemberSession::Expectation& expectation);
  void wait_in_silence();
  void note_silence();
  void drop_dials();

  Agent& agent_;
  World& world_;
  std::optional<rendezvous::Survivor> survivor_;
  rendezvous::MemberJoin join_;
  struct Found {
    std::shared_ptr<Link> link;
    std::string address;
    int port;
  };
  std::optional<Found> found_;
  std::map<rendezvous::CandidateId, std::shared_ptr<Dialling>> dials_;
  rendezvous::FrameReader reader_;
  rendezvous::MemberSession session_;
  bool closed_ = false, link_closed_ = false;
  Timer timer_, silence_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  // gone with this
};

// As net/coordinator_service.cpp.
class CoordinatorSide {
 public:
  using Event = std::function<rendezvous::Coordinator::Actions(TimePoint)>;

  CoordinatorSide(Agent& agent, World& world, rendezvous::CoordinatorSettings settings);
  void input(Event event);
  void admit(const std::shared_ptr<Link>& link);
  bool is_forsaken() const;

  rendezvous::Coordinator machine;
  std::map<rendezvous::ConnectionId, std::shared_ptr<Link>> links;

 private:
  void handle_inputs();
  void perform(const rendezvous::CoordinatorAction& action);
  void deliver(const rendezvous::SendTo& send);
  void end_connection(const rendezvous::CloseConnection& close);
  void receive(rendezvous::ConnectionId id, const std::string& bytes);
  void note_end(rendezvous::ConnectionId id, const std::string& why, ConnectionEnd end);
  void set_timer();
  int place_of(rendezvous::ConnectionId connection) const;
  void begin_flush();
  void check_flushed();
  void tell_world(const rendezvous::Coordinator::Actions& actions);

  Agent& agent_;
  World& world_;
  std::map<rendezvous::ConnectionId, int> places_;   // also of those that have gone
  std::set<rendezvous::ConnectionId> links_closed_;  // which this may not have noticed
  std::map<rendezvous::ConnectionId, rendezvous::FrameReader> readers_;
  int last_ = rendezvous::k_local_connection.value;
  std::vector<Event> inputs_;
  bool flushing_ = false, flush_expired_ = false, closed_ = false;
  Timer timer_;
};

}  // namespace ddprun::simulation
