#include "ddprun/app/meeting_point.hpp"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "ddprun/app/log.hpp"
#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/os/descriptors.hpp"
#include "ddprun/plan/render.hpp"

namespace ddprun {

namespace {

using Kind = ExchangeAnswer::Kind;

constexpr Milliseconds k_finish_limit{1000};
constexpr std::size_t k_max_answer = 2 * k_max_pmi_line;

ToldPlace place_from(const ExchangeAnswer& answer) {
  if (answer.kind == Kind::uneven) return "some hosts have several agents, so it is left to the workers";
  if (answer.kind == Kind::failed) return answer.text;
  if (auto place = parse_place(answer.text)) return std::move(*place);
  return fmt::format("what it tells is no place: '{}'", printable(answer.text, 80));
}

}  // namespace

MeetingPoint::MeetingPoint(boost::asio::io_context& context, const NodePlan& plan, const Snapshot& snapshot)
    : context_(context), plan_(plan), snapshot_(snapshot), answer_(context) {}

void MeetingPoint::publish(const MeetingPlace& place) {
  const RendezvousPlan& rendezvous = plan_.rendezvous;
  const bool by_file = write_file(place);
  if (rendezvous.exchange == Exchange::none) return;
  const std::string name = exchange_name(rendezvous.exchange);
  const bool other_way = by_file || !rendezvous.addresses.value.empty();
  start_exchange(render_place(place), [name, other_way](const ExchangeAnswer& answer) {
    if (answer.kind == Kind::told)
      return say_detail("the others can learn through " + name + " where this ddprun is");
    const ToldPlace why = place_from(answer);
    const std::string what = fmt::format("the others do not learn through {} where this ddprun is: {}", name,
                                         std::get<std::string>(why));
    if (answer.kind == Kind::uneven) return say_detail(what);
    say_notice(what, other_way ? "" : "try --rdzv file, or name the host of rank 0 with --master-addr");
  });
}

// Where there is another way, a file that cannot be made is not the end.
bool MeetingPoint::write_file(const MeetingPlace& place) {
  const RendezvousPlan& rendezvous = plan_.rendezvous;
  if (rendezvous.meeting_file.value.empty()) return false;
  try {
    file_.emplace(rendezvous.meeting_file.value,
                  render_note({rendezvous.key, plan_.host, snapshot_.host.pid, place}));
    return true;
  } catch (const Error& error) {
    const bool wanted = plan_.options.meeting == Meeting::file;
    if (wanted || (rendezvous.addresses.value.empty() && rendezvous.exchange == Exchange::none)) throw;
    say_notice(error.what(), error.hint());
    return false;
  }
}

void MeetingPoint::fetch(std::function<void(const ToldPlace&)> told) {
  if (plan_.rendezvous.exchange == Exchange::none) return;
  start_exchange(std::nullopt,
                 [told = std::move(told)](const ExchangeAnswer& answer) { told(place_from(answer)); });
}

void MeetingPoint::start_exchange(std::optional<std::string> value, OnAnswer on_answer) {
  const RendezvousPlan& rendezvous = plan_.rendezvous;
  on_answer_ = std::move(on_answer);
  ExchangeRequest request;
  request.service =
      rendezvous.exchange == Exchange::pmix ? ExchangeRequest::Service::pmix : ExchangeRequest::Service::pmi1;
  request.value = std::move(value);
  request.all_take_part = plan_.options.meeting == Meeting::pmi;
  request.barrier_limit = rendezvous.join_timeout;
  try {
    exchange_.emplace(snapshot_.environment, request);
    answer_.assign(duplicate(exchange_->descriptor()).release());
  } catch (const std::exception& error) {
    boost::asio::post(context_, [this, why = std::string(error.what())] { on_answer_({Kind::failed, why}); });
    return;
  }
  read();
}

void MeetingPoint::read() {
  answer_.async_read_some(boost::asio::buffer(buffer_),
                          [this](const boost::system::error_code& error, std::size_t size) {
                            if (error == boost::asio::error::operation_aborted) return;
                            received_.append(buffer_.data(), size);
                            if (!error && received_.size() <= k_max_answer) return read();
                            answer_.close();
                            on_answer_(parse_answer(received_));
                          });
}

ToldPlace MeetingPoint::look() const {
  const RendezvousPlan& rendezvous = plan_.rendezvous;
  MeetingFileLook look = look_at_meeting_file(rendezvous.meeting_file.value);
  if (!look.text) return std::move(look.problem);
  auto note = parse_note(*look.text, rendezvous.key);
  if (auto* const why = std::get_if<std::string>(&note)) return std::move(*why);
  return std::move(std::get<MeetingNote>(note).place);
}

void MeetingPoint::finish() {
  answer_.close();
  file_.reset();
  if (exchange_) exchange_->finish(k_finish_limit);
  exchange_.reset();
}

}  // namespace ddprun
