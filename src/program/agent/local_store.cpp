#include "agent/local_store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "agent/link_settings.hpp"
#include "base/error.hpp"
#include "console/console.hpp"
#include "net/connection.hpp"
#include "net/timers.hpp"
#include "peers/authenticators.hpp"
#include "plan/world_plan.hpp"
#include "rendezvous/codec.hpp"

namespace ddprun::agent {
namespace {

// Relays that know their attempt before this agent does; more is no start of a job.
constexpr std::size_t k_children = 2 * options::k_max_fan_out;

std::string name_of(const plan::Assignment& assignment) {
  return fmt::format("{} {}", assignment.launch_id, assignment.attempt.value);
}

// Returns the launch id of the handshake, the same for all agents of the job.
std::string launch_id(const plan::NodeProposal& node) { return node.rendezvous.key + "/store"; }

rendezvous::Authenticator authenticator(const Plans& plans, const facts::Snapshot& snapshot) {
  const plan::NodeProposal& node = *plans.node;
  return peers::make_authenticator(node.options, node.rendezvous.secrets, snapshot,
                                   node.allocation.place.value);
}

}  // namespace

LocalStore::LocalStore(boost::asio::io_context& context, const Plans& plans, const facts::Snapshot& snapshot,
                       JobStore& job_store)
    : context_(context), plans_(plans), snapshot_(snapshot), job_store_(job_store), silence_(context) {}

LocalStore::~LocalStore() {
  end_attempt();
  for (auto& [number, child] : std::exchange(children_, {})) child.connection->close();
  if (listener_) listener_->close();
}

int LocalStore::listen() {
  if (listener_) return listener_->port();
  if (!plan::has_store_relays(*plans_.node)) return 0;
  net::AgentListenerSettings settings;
  settings.ports = relay_ports(*plans_.node);
  settings.launch_key = rendezvous::lifeline_key(launch_id(*plans_.node));
  settings.authenticator = authenticator(plans_, snapshot_);
  settings.host_timeout = plans_.node->options.host_timeout.value;
  net::AgentListenerHooks hooks;
  hooks.on_agent = [this](net::AuthenticationResult result) { greet(std::move(result)); };
  hooks.on_refused = [](const std::string& address, const std::string& why) {
    console::say_detail(fmt::format("refused a relay to the store from {}: {}", address, why));
  };
  try {
    listener_ = std::make_shared<net::AgentListener>(context_, std::move(settings), std::move(hooks));
  } catch (const Error& error) {
    console::say_detail(error.what());  // the others do without
    return 0;
  }
  listener_->start();
  return listener_->port();
}

net::StoreServer* LocalStore::server() const { return relay_ ? relay_.get() : job_store_.server(); }

// ---- relays below this one

void LocalStore::greet(net::AuthenticationResult result) {
  const auto connection = std::make_shared<net::Connection>(std::move(result.socket), result.keys,
                                                            plans_.node->options.host_timeout.value);
  if (children_.size() >= k_children) return connection->close();
  const int number = arrived_++;
  children_[number].connection = connection;
  net::Connection::Hooks hooks;
  hooks.on_frame = [this, number](const std::string& payload) { hear_child(number, payload); };
  hooks.on_closed = [this, number](const std::string&, rendezvous::ConnectionEnd) { lose_child(number); };
  hooks.on_drained = [this, number] {
    const auto found = children_.find(number);
    if (found != children_.end() && found->second.link && server() != nullptr)
      server()->links().note_drained(*found->second.link);
  };
  connection->start(std::move(hooks), std::move(result.text));
}

void LocalStore::hear_child(int number, const std::string& payload) {
  const auto found = children_.find(number);
  if (found == children_.end()) return;
  Child& child = found->second;
  if (child.attempt.empty()) {
    child.attempt = payload;
    child.connection->listen(false);  // until this agent knows of the attempt
    return attach(number);
  }
  if (!child.link) return child.early.push_back(payload);
  if (server() != nullptr && server()->links().hear(*child.link, payload)) return server()->flush();
  drop_child(number);
}

void LocalStore::attach(int number) {
  Child& child = children_.at(number);
  if (child.link || child.attempt != attempt_ || server() == nullptr) return;
  child.link = server()->links().add_child(child.connection);
  for (const std::string& payload : std::exchange(child.early, {})) {
    if (!server()->links().hear(*child.link, payload)) return drop_child(number);
  }
  child.connection->listen(true);
  server()->flush();
}

void LocalStore::drop_child(int number) {
  children_.at(number).connection->close();
  lose_child(number);
}

void LocalStore::lose_child(int number) {
  const auto found = children_.find(number);
  if (found == children_.end()) return;
  const auto link = found->second.link;
  children_.erase(found);
  if (!link || server() == nullptr) return;
  server()->links().remove_child(*link);
  server()->flush();
}

// ---- the parent

std::string LocalStore::begin_attempt(const plan::Assignment& assignment) {
  end_attempt();
  attempt_ = name_of(assignment);
  places_ = assignment.store_places;
  if (!places_.empty()) {
    net::StoreServerOptions options;
    options.relay = true;
    options.admit = [any = plans_.node->options.store_access ==
                           options::StoreAccess::host](const net::TcpEnds& ends) {
      if (any) return net::Admission::yes;
      const rendezvous::Holder holder = net::find_holder(ends, ::geteuid());
      const bool good = holder == rendezvous::Holder::own || holder == rendezvous::Holder::unknown;
      return good ? net::Admission::yes : net::Admission::no;
    };
    options.report = [](const std::string& what, bool) { console::say_detail(what); };
    relay_ = std::make_unique<net::StoreServer>(context_, std::move(options));
    life_ = std::make_shared<int>();
    dial();
  }
  for (auto next = children_.begin(); next != children_.end();)
    attach((next++)->first);  // attach() may drop
                              // it
  return relay_ ? fmt::format("127.0.0.1:{}", relay_->port()) : std::string();
}

void LocalStore::dial() {
  const plan::StorePlace place = places_.front();
  places_.erase(places_.begin());
  dial_ = std::make_unique<net::FirstDial>(
      context_, rendezvous::FrontEndAddress{place.addresses, place.port, launch_id(*plans_.node)},
      authenticator(plans_, snapshot_), plans_.node->options.host_timeout.value,
      [this](net::AuthenticationResult result) {
        // The dial is not destroyed in its own call.
        const auto kept = std::make_shared<net::AuthenticationResult>(std::move(result));
        boost::asio::post(context_, [this, kept, life = std::weak_ptr<int>(life_)] {
          if (!life.expired()) conclude(std::move(*kept));
        });
      });
  dial_->start();
}

void LocalStore::conclude(net::AuthenticationResult result) {
  if (result.state != rendezvous::HandshakeStep::State::done) {
    if (places_.empty()) return close_relay("no other host of the tree is reachable: " + result.text);
    console::say_detail(
        fmt::format("the relay to the store on {} does not reach its parent, so it connects to "
                    "the store itself: {}",
                    plans_.node->host, result.text));
    return dial();
  }
  parent_ = std::make_shared<net::Connection>(std::move(result.socket), result.keys,
                                              plans_.node->options.host_timeout.value);
  net::Connection::Hooks hooks;
  hooks.on_frame = [this](const std::string& payload) { hear_parent(payload); };
  hooks.on_closed = [this](const std::string& why, rendezvous::ConnectionEnd) { lose_parent(why); };
  hooks.on_drained = [this] {
    if (!relay_) return;
    relay_->links().note_drained(store::k_parent_link);
    relay_->flush();
  };
  parent_->send(rendezvous::make_frame(attempt_));
  parent_->start(std::move(hooks), std::move(result.text));
  relay_->links().set_parent(parent_);
  relay_->flush();
}

void LocalStore::hear_parent(const std::string& payload) {
  if (!relay_) return;
  if (!relay_->links().hear(store::k_parent_link, payload))
    return close_relay("its parent sent an invalid message");
  relay_->flush();
}

void LocalStore::lose_parent(const std::string& why) {
  parent_.reset();
  if (!relay_) return;
  net::call_after(silence_, 2 * plans_.node->options.host_timeout.value,
                  [this, why] { close_relay("it has lost its parent: " + why); });
}

void LocalStore::close_relay(const std::string& why) {
  console::say_detail(fmt::format("the relay to the store on {} ends: {}", plans_.node->host, why));
  end_attempt();
}

void LocalStore::end_attempt() {
  silence_.cancel();
  life_.reset();
  dial_.reset();
  if (parent_) std::exchange(parent_, nullptr)->close();
  if (relay_) std::exchange(relay_, nullptr)->close();
  // Closes the children of the attempt that ends; those of the next one may have connected already.
  for (auto child = children_.begin(); child != children_.end();) {
    const bool old = child->second.link || child->second.attempt == attempt_;
    if (old) child->second.connection->close();
    child = old ? children_.erase(child) : std::next(child);
  }
  attempt_.clear();
}

}  // namespace ddprun::agent
