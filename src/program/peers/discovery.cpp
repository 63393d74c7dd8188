#include "peers/discovery.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "net/name_lookup.hpp"
#include "plan/master_variables.hpp"
#include "render/render_plan.hpp"
#include "rendezvous/coordinator_address.hpp"
#include "rendezvous/membership/member_join.hpp"

namespace ddprun::peers {

namespace {

using Kind = facts::KeyValueAnswer::Kind;

constexpr Milliseconds k_finish_limit{1000};
constexpr std::size_t k_max_answer = 2 * facts::k_max_pmi_line;

net::ToldPlace place_from(const facts::KeyValueAnswer& answer) {
  if (answer.kind == Kind::uneven) return "some hosts run several agents, so PMI is left to the workers";
  if (answer.kind == Kind::failed) return answer.text;
  if (auto place = rendezvous::parse_place(answer.text)) return std::move(*place);
  return fmt::format("invalid coordinator address: '{}'", printable(answer.text, 80));
}

}  // namespace

CoordinatorDiscovery::CoordinatorDiscovery(boost::asio::io_context& context,
                                           std::shared_ptr<const plan::NodeProposal> node,
                                           const facts::Snapshot& snapshot)
    : context_(context), node_(std::move(node)), snapshot_(snapshot) {}

void CoordinatorDiscovery::publish(const rendezvous::CoordinatorPlace& place) {
  const plan::RendezvousPlan& rendezvous = node_->rendezvous;
  const bool by_file = write_file(place);
  if (rendezvous.key_value_space == allocation::KeyValueSpace::none) return;
  const std::string name = render::key_value_space_name(rendezvous.key_value_space);
  const bool other_way = by_file || !rendezvous.addresses.value.empty();
  start_key_value_space(
      rendezvous::render_place(place), [name, other_way](const facts::KeyValueAnswer& answer) {
        if (answer.kind == Kind::told)
          return console::say_detail("published the coordinator address through " + name);
        const net::ToldPlace why = place_from(answer);
        const std::string what = fmt::format("could not publish the coordinator address through {}: {}", name,
                                             std::get<std::string>(why));
        if (answer.kind == Kind::uneven) return console::say_detail(what);
        console::say_notice(
            what, other_way ? "" : "try --rdzv file, or name the host of rank 0 with --master-addr");
      });
}

// Writes the rendezvous file. If there is another way, a file that cannot be made does not end the launch.
bool CoordinatorDiscovery::write_file(const rendezvous::CoordinatorPlace& place) {
  const plan::RendezvousPlan& rendezvous = node_->rendezvous;
  if (rendezvous.rendezvous_file.value.empty()) return false;
  try {
    file_.emplace(rendezvous.rendezvous_file.value,
                  rendezvous::render_note({rendezvous.key, node_->host, snapshot_.host.pid, place}));
    return true;
  } catch (const Error& error) {
    const bool wanted = node_->options.discovery == options::Discovery::file;
    if (wanted ||
        (rendezvous.addresses.value.empty() && rendezvous.key_value_space == allocation::KeyValueSpace::none))
      throw;
    console::say_notice(error.what(), error.hint());
    return false;
  }
}

void CoordinatorDiscovery::fetch(std::function<void(const net::ToldPlace&)> told) {
  if (node_->rendezvous.key_value_space == allocation::KeyValueSpace::none) return;
  start_key_value_space(std::nullopt, [told = std::move(told)](const facts::KeyValueAnswer& answer) {
    told(place_from(answer));
  });
}

void CoordinatorDiscovery::start_key_value_space(std::optional<std::string> value, OnAnswer on_answer) {
  const plan::RendezvousPlan& rendezvous = node_->rendezvous;
  os::KeyValueRequest request;
  request.service = rendezvous.key_value_space == allocation::KeyValueSpace::pmix
                        ? os::KeyValueRequest::Service::pmix
                        : os::KeyValueRequest::Service::pmi1;
  request.value = std::move(value);
  request.all_take_part = node_->options.discovery == options::Discovery::pmi;
  request.barrier_limit = rendezvous.join_timeout;
  try {
    key_value_space_.emplace(snapshot_.environment, request);
  } catch (const std::exception& error) {
    boost::asio::post(context_, [on_answer = std::move(on_answer), why = std::string(error.what())] {
      on_answer({Kind::failed, why});
    });
    return;
  }
  answer_ =
      std::make_shared<net::WholeAnswer>(context_, key_value_space_->descriptor(), k_max_answer, std::nullopt,
                                         [on_answer = std::move(on_answer)](const std::string& answer, bool) {
                                           on_answer(facts::parse_answer(answer));
                                         });
  answer_->start();
}

net::ToldPlace CoordinatorDiscovery::look() const {
  const plan::RendezvousPlan& rendezvous = node_->rendezvous;
  os::RendezvousFileLook look = os::look_at_rendezvous_file(rendezvous.rendezvous_file.value);
  if (!look.text) return std::move(look.problem);
  auto note = rendezvous::parse_note(*look.text, rendezvous.key);
  if (auto* const why = std::get_if<std::string>(&note)) return std::move(*why);
  return std::move(std::get<rendezvous::CoordinatorNote>(note).place);
}

void CoordinatorDiscovery::stop_fetching() {
  if (answer_) answer_->cancel();
}

void CoordinatorDiscovery::finish() {
  stop_fetching();
  file_.reset();
  if (key_value_space_) key_value_space_->finish(k_finish_limit);
  key_value_space_.reset();
}

std::vector<std::string> crossing_addresses(const std::vector<facts::InterfaceAddress>& all) {
  std::vector<std::string> addresses;
  for (const facts::InterfaceAddress& each : all) {
    if (!each.loopback && rendezvous::crosses_hosts(each.address)) addresses.push_back(each.address);
  }
  std::stable_partition(addresses.begin(), addresses.end(),
                        [](const std::string& address) { return address.find(':') == std::string::npos; });
  return addresses;
}

void settle_local_address(plan::NodeProposal& node, const facts::Snapshot& snapshot) {
  if (!node.options.local_address) return;
  const Sourced<std::string> given = *node.options.local_address;
  std::vector<std::string> leads_to{given.value};
  if (!rendezvous::is_numeric_address(given.value)) leads_to = net::look_up_name(given.value);
  if (leads_to.empty()) {
    throw UsageError(fmt::format("{} {} resolves to no address on {}", given.origin, given.value, node.host),
                     "leave it out, or give an address of this host");
  }
  node.options.local_address = plan::choose_local_address(given, leads_to, node, snapshot.host);
}

}  // namespace ddprun::peers
