#include "rendezvous/coordinator_address.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;

namespace {

const CoordinatorPlace k_place{{"10.0.0.1", "fd00::1"}, 20480};

std::string refusal(const std::string& text) {
  const auto note = parse_note(text, "slurm/29/0/0");
  REQUIRE(std::holds_alternative<std::string>(note));
  return std::get<std::string>(note);
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = render_note({"slurm/29/0/0", "n1", 77, k_place});
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("a place is one word") {
  CHECK(render_place(k_place) == "20480,10.0.0.1,fd00::1");
  CHECK(parse_place("20480,10.0.0.1,fd00::1") == k_place);
  for (const char* text : {"", "20480", "20480,", "0,10.0.0.1", "65536,10.0.0.1", "x,10.0.0.1", ",10.0.0.1",
                           "20480,n1", "20480,10.0.0.1,", "20480,10.0.0.1 "}) {
    CAPTURE(text);
    CHECK_FALSE(parse_place(text));
  }
}

TEST_CASE("a host with very many addresses tells the best of them") {
  const CoordinatorPlace many{std::vector<std::string>(100, "10.0.0.1"), 1};
  CHECK(parse_place(render_place(many))->addresses.size() == k_max_place_addresses);
  const auto note = parse_note(render_note({"l", "n1", 1, many}), "l");
  REQUIRE(std::holds_alternative<CoordinatorNote>(note));
  CHECK(std::get<CoordinatorNote>(note).place.addresses.size() == k_max_place_addresses);
}

TEST_CASE("a note keeps what it says") {
  const CoordinatorNote note{"slurm/29/0/0", "n1", 77, k_place};
  const auto read = parse_note(render_note(note), "slurm/29/0/0");
  REQUIRE(std::holds_alternative<CoordinatorNote>(read));
  CHECK(std::get<CoordinatorNote>(read) == note);
}

TEST_CASE("what is no note of this launch is refused with its reason") {
  CHECK(refusal("") == "it is not complete");
  CHECK(refusal(with("}", "")) == "it is not complete");
  CHECK(refusal("[]") == "it is malformed: not an object");
  CHECK(refusal(with("\"port\"", "\"part\"")) == "it is malformed: \"port\" is missing");
  CHECK(refusal(with("20480", "0")) == "it is malformed: no numeric addresses and port");
  CHECK(refusal(with("fd00::1", "evil.example")) == "it is malformed: no numeric addresses and port");
  CHECK(refusal(with("\"ddprun_meeting\": 1", "\"ddprun_meeting\": 2")) == "it has format 2, not 1");
  CHECK(refusal(with("slurm/29/0/0", "slurm/28/0/0")) == "it belongs to another launch, slurm/28/0/0");
}
