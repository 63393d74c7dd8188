// Discovery of the coordinator beside the addresses of the plan, for both sides, and of the own addresses.
// The ways are the launcher's key-value space and the rendezvous file.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "facts/snapshot.hpp"
#include "net/member_service.hpp"
#include "net/whole_answer.hpp"
#include "os/files/rendezvous_file.hpp"
#include "os/libraries/key_value_space.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::peers {

// Numeric addresses by which other hosts may reach this one.

// Returns the addresses without loopback and link-local ones. IPv4 before IPv6: torch tries and complains
// about IPv6 first where only IPv4 works.
std::vector<std::string> crossing_addresses(const std::vector<facts::InterfaceAddress>& all);

// Settles --local-addr as the address that is meant on this host, which may need the name service. Throws
// UsageError if it is none of this host's.
void settle_local_address(plan::NodeProposal& node, const facts::Snapshot& snapshot);

class CoordinatorDiscovery {
 public:
  CoordinatorDiscovery(boost::asio::io_context& context, std::shared_ptr<const plan::NodeProposal> node,
                       const facts::Snapshot& snapshot);

  // Publishes the coordinator's address, once it listens. Throws Error if none of the ways the plan asks for
  // works and members know no address.
  void publish(const rendezvous::CoordinatorPlace& place);
  // Publishes anew for those that come later: only a file can say something new.
  void publish_anew(const rendezvous::CoordinatorPlace& place) { write_file(place); }
  const os::RendezvousFile* file() const { return file_ ? &*file_ : nullptr; }  // file made here

  // Fetches the address as a member: `told` is called once, from the event loop.
  void fetch(std::function<void(const net::ToldPlace&)> told);
  void stop_fetching();         // called before the object told is destroyed
  net::ToldPlace look() const;  // looks at the rendezvous file

  // Ends discovery once no worker of ours runs any more; may take a second.
  void finish();

 private:
  using OnAnswer = std::function<void(const facts::KeyValueAnswer&)>;
  void start_key_value_space(std::optional<std::string> value, OnAnswer on_answer);
  bool write_file(const rendezvous::CoordinatorPlace& place);

  boost::asio::io_context& context_;
  std::shared_ptr<const plan::NodeProposal> node_;
  const facts::Snapshot& snapshot_;
  std::optional<os::RendezvousFile> file_;
  std::optional<os::KeyValueClient> key_value_space_;
  std::shared_ptr<net::WholeAnswer> answer_;
};

}  // namespace ddprun::peers
