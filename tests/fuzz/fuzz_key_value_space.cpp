// How nodes find the coordinator by others' help: a PMI server's answers (the input's lines, after a byte
// that chooses the request), what a key-value space ends with, the place in it, and a rendezvous file.
#include "facts/pmi_conversation.hpp"
#include "promise.hpp"
#include "rendezvous/coordinator_address.hpp"

using namespace ddprun;
using fuzz::require;

namespace {

void converse(int choice, const std::vector<std::string>& lines) {
  facts::PmiRequest request;
  request.size = 1 + choice / 8;
  request.all_take_part = choice % 2 == 1;
  if (choice / 2 % 2 == 1) request.value = "20480,10.0.0.1,fd00::1";
  if (choice / 4 % 2 == 1) request.id = "3";
  facts::PmiConversation conversation(request);
  require(conversation.start().ends_with('\n'));
  for (const std::string& line : lines) {
    if (conversation.over()) break;
    const std::string asked = conversation.take(line);
    require(asked.empty() || (asked.starts_with("cmd=") && asked.find('\n') == asked.size() - 1));
    require(!conversation.over() || asked.empty());
  }
  if (!conversation.over()) return;
  const facts::KeyValueAnswer& answer = conversation.answer();
  require(answer.kind != facts::KeyValueAnswer::Kind::failed || !answer.text.empty());
  if (answer.kind == facts::KeyValueAnswer::Kind::failed) fuzz::require_printable(answer.text);
  require(facts::parse_answer(facts::render_answer(answer)) == answer);
}

void check_places(const std::string& text) {
  const facts::KeyValueAnswer answer = facts::parse_answer(text);
  require(facts::parse_answer(facts::render_answer(answer)) == answer);
  if (const auto place = rendezvous::parse_place(text))
    require(rendezvous::parse_place(rendezvous::render_place(*place)) == place);
  const auto note = rendezvous::parse_note(text, "slurm/29/0/0");
  if (std::holds_alternative<std::string>(note)) return fuzz::require_printable(std::get<std::string>(note));
  const rendezvous::CoordinatorNote& read = std::get<rendezvous::CoordinatorNote>(note);
  const auto again = rendezvous::parse_note(rendezvous::render_note(read), "slurm/29/0/0");
  require(std::holds_alternative<rendezvous::CoordinatorNote>(again) &&
          std::get<rendezvous::CoordinatorNote>(again) == read);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  fuzz::Input input(data, size);
  const int choice = input.byte();
  converse(choice, split(input.rest(), '\n'));
  check_places(text);
  return 0;
}
