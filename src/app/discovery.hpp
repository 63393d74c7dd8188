// How this agent tells or learns where the coordinator listens beside the addresses of the plan: the
// launcher's key-value space and the rendezvous file.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ddprun/facts/snapshot.hpp"
#include "ddprun/net/member_service.hpp"
#include "ddprun/net/whole_answer.hpp"
#include "ddprun/os/libraries/key_value_space.hpp"
#include "ddprun/os/rendezvous_file.hpp"
#include "ddprun/plan/node_proposal.hpp"

namespace ddprun {

class CoordinatorDiscovery {
 public:
  CoordinatorDiscovery(boost::asio::io_context& context, std::shared_ptr<const NodeProposal> node,
                       const Snapshot& snapshot);

  // The coordinator's part, once it listens. Throws Error where none of the ways the plan asks for works and
  // members know no address.
  void publish(const CoordinatorPlace& place);
  const RendezvousFile* file() const { return file_ ? &*file_ : nullptr; }  // that it made for it

  // A member's part: `told` is called once, from the event loop.
  void fetch(std::function<void(const ToldPlace&)> told);
  ToldPlace look() const;  // at the rendezvous file

  // Once no worker of ours runs any more; may take a second.
  void finish();

 private:
  using OnAnswer = std::function<void(const KeyValueAnswer&)>;
  void start_key_value_space(std::optional<std::string> value, OnAnswer on_answer);
  bool write_file(const CoordinatorPlace& place);

  boost::asio::io_context& context_;
  std::shared_ptr<const NodeProposal> node_;
  const Snapshot& snapshot_;
  std::optional<RendezvousFile> file_;
  std::optional<KeyValueClient> key_value_space_;
  std::shared_ptr<WholeAnswer> answer_;
};

}  // namespace ddprun
