#include "facts/pmi_conversation.hpp"

#include <vector>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::facts;
using Kind = KeyValueAnswer::Kind;

namespace {

struct KeyValueOutcome {
  std::string request;
  std::string answer;
};

// The requests must be these, and what comes back after the last answer is the end.
KeyValueAnswer play(PmiRequest request, const std::vector<KeyValueOutcome>& script) {
  PmiConversation conversation(std::move(request));
  std::string next = conversation.start();
  for (const KeyValueOutcome& each : script) {
    CHECK(next == each.request + "\n");
    next = conversation.take(each.answer);
  }
  CHECK(next.empty());
  REQUIRE(conversation.over());
  return conversation.answer();
}

const char* const k_init = "cmd=init pmi_version=1 pmi_subversion=1";
const char* const k_hydra_init = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
const char* const k_hydra_maxes = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024";
const char* const k_hydra_name = "cmd=my_kvsname kvsname=kvs_6704_0_3_n1";
const char* const k_hydra_mapping = "cmd=get kvsname=kvs_6704_0_3_n1 key=PMI_process_mapping";

std::vector<KeyValueOutcome> hydra_until_mapping(const std::string& mapping) {
  return {{k_init, k_hydra_init},
          {"cmd=get_maxes", k_hydra_maxes},
          {"cmd=get_my_kvsname", k_hydra_name},
          {k_hydra_mapping, "cmd=get_result rc=0 msg=success value=" + mapping}};
}

std::vector<KeyValueOutcome> plus(std::vector<KeyValueOutcome> script,
                                  const std::vector<KeyValueOutcome>& more) {
  script.insert(script.end(), more.begin(), more.end());
  return script;
}

std::string failure_after(const std::vector<std::string>& answers, PmiRequest request = {}) {
  PmiConversation conversation(std::move(request));
  conversation.start();
  for (const std::string& answer : answers) conversation.take(answer);
  REQUIRE(conversation.over());
  CHECK(conversation.answer().kind == Kind::failed);
  return conversation.answer().text;
}

}  // namespace

TEST_CASE("hydra: the coordinator leaves its place and the others fetch it") {
  const std::string place = "20480,10.0.0.1,fd00::1";
  CHECK(play({place, 2, false, {}}, plus(hydra_until_mapping("(vector,(0,2,1))"),
                                         {{"cmd=put kvsname=kvs_6704_0_3_n1 key=ddprun value=" + place,
                                           "cmd=put_result rc=0 msg=success"},
                                          {"cmd=barrier_in", "cmd=barrier_out"}})) ==
        KeyValueAnswer{Kind::told, place});
  CHECK(play({std::nullopt, 2, false, {}}, plus(hydra_until_mapping("(vector,(0,2,1))"),
                                                {{"cmd=barrier_in", "cmd=barrier_out"},
                                                 {"cmd=get kvsname=kvs_6704_0_3_n1 key=ddprun",
                                                  "cmd=get_result rc=0 msg=success value=" + place}})) ==
        KeyValueAnswer{Kind::told, place});
}

TEST_CASE("Slurm's pmi2 plug-in orders its keys in another way") {
  CHECK(play({std::nullopt, 2, true, {}},
             {{k_init, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1"},
              {"cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"},
              {"cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=21.0"},
              {"cmd=barrier_in", "cmd=barrier_out rc=0"},
              {"cmd=get kvsname=21.0 key=ddprun", "cmd=get_result rc=0 value=20480,10.0.0.1"}}) ==
        KeyValueAnswer{Kind::told, "20480,10.0.0.1"});
}

TEST_CASE("nobody enters the barrier where processes share a node") {
  CHECK(play({"20480,10.0.0.1", 3, false, {}}, hydra_until_mapping("(vector,(0,1,2),(1,1,1))")) ==
        KeyValueAnswer{Kind::uneven, {}});
}

TEST_CASE("a connection by port begins with the greeting, whose answer has four lines") {
  PmiConversation conversation({std::nullopt, 2, false, "1"});
  CHECK(conversation.start() == "cmd=initack pmiid=1\n");
  CHECK(conversation.take("cmd=initack rc=0").empty());
  CHECK(conversation.take("cmd=set size=2").empty());
  CHECK(conversation.take("cmd=set rank=1").empty());
  CHECK(conversation.take("cmd=set debug=0") == std::string(k_init) + "\n");
  CHECK_FALSE(conversation.over());
}

TEST_CASE("a line is read by key") {
  CHECK(parse_pmi_line("cmd=a b=c=d  e=") == PmiLine{{"cmd", "a"}, {"b", "c=d"}, {"e", ""}});
  for (const char* text : {"", "cmd", "a=b", "cmd=a word", "\n"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_pmi_line(text));
  }
}

TEST_CASE("the blocks of a mapping are repeated until every process has its node") {
  CHECK(shares_a_node("(vector,(0,3,1))", 3) == false);
  CHECK(shares_a_node("(vector,(0,1,1))", 3) == true);  // hydra's, three processes on one host
  CHECK(shares_a_node("(vector,(0,2,1))", 3) == true);
  CHECK(shares_a_node("(vector,(0,1,3),(1,1,1))", 4) == true);
  CHECK(shares_a_node("(vector,(0,1,3),(1,1,1))", 1) == false);
  CHECK(shares_a_node("(vector,(1,1,1),(0,1,1))", 2) == false);
  for (const char* text :
       {"", "(vector)", "(vector,)", "(vector,(0,1))", "(vector,(0,1,0))", "(vector,(0,0,1))",
        "(vector,(-1,1,1))", "(vector,(0,1,1)", "(vector,(0,1,1)(1,1,1))", "(vector,(0,1,x))",
        "(vector,(0,1,99999999999))", "(vector,(0,1,1),)"}) {
    CAPTURE(text);
    CHECK_FALSE(shares_a_node(text, 2));
  }
  CHECK_FALSE(shares_a_node("(vector,(0,1,1))", 0));
}

TEST_CASE("whatever else the server says ends the conversation with a sentence") {
  CHECK(failure_after({"hello"}) == "it answered init with 'hello'");
  CHECK(failure_after({"cmd=response_to_init rc=-1"}) ==
        "it answered init with 'cmd=response_to_init rc=-1'");
  CHECK(failure_after({"cmd=response_to_init rc=0 pmi_version=2"}) == "it does not support PMI version 1");
  CHECK(failure_after({k_hydra_init, "cmd=maxes"}) == "it does not give the maximum length of a value");
  CHECK(failure_after({k_hydra_init, "cmd=maxes vallen_max=8"}, {"20480,10", 2, false, {}}) ==
        "it accepts values below 8 bytes, and the addresses of this host need 8");
  CHECK(failure_after({k_hydra_init, k_hydra_maxes, "cmd=my_kvsname"}) ==
        "it does not name its key-value space");
  CHECK(failure_after({k_hydra_init, k_hydra_maxes, k_hydra_name,
                       "cmd=get_result rc=-1 msg=key_PMI_process_mapping_not_found value=unknown"}) ==
        "it answered get with 'cmd=get_result rc=-1 msg=key_PMI_process_mapping_not_found value=unknown'");
  CHECK(failure_after({k_hydra_init, k_hydra_maxes, k_hydra_name, "cmd=get_result rc=0 value=(vector)"}) ==
        "its PMI_process_mapping is malformed: '(vector)'");
  CHECK(failure_after({k_hydra_init, "cmd=barrier_out\x1b[2J"}) ==
        "it answered get_maxes with 'cmd=barrier_out\\x1b[2J'");
}

TEST_CASE("answers travel as one line") {
  for (const KeyValueAnswer& answer :
       {KeyValueAnswer{Kind::told, "20480,10.0.0.1"}, KeyValueAnswer{Kind::uneven, {}},
        KeyValueAnswer{Kind::failed, "why"}}) {
    CHECK(parse_answer(render_answer(answer)) == answer);
  }
  CHECK(parse_answer("") == KeyValueAnswer{Kind::failed, "it ended without an answer"});
}
