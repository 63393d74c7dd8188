#include "rendezvous/lifeline.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::rendezvous::lifeline;

namespace {

std::optional<Message> there_and_back(const Message& message) {
  return decode(std::string_view(encode(message)).substr(4));
}

}  // namespace

TEST_CASE("a front end's address is text and back") {
  const FrontEndAddress address{{"10.0.0.1", "fd00::1"}, 4000, "8f3c"};
  CHECK(to_string(address) == "10.0.0.1,fd00::1:4000/8f3c");
  CHECK(parse_front_end_address(to_string(address)) == address);
  for (const char* wrong : {"", "10.0.0.1:4000", "10.0.0.1:0/x", "10.0.0.1:65536/x", ":4000/x", "a:4000/"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_front_end_address(wrong));
  }
}

TEST_CASE("messages of a lifeline come back as they were") {
  CHECK(there_and_back(Hello{3, "n3 of 4", true}) == Message(Hello{3, "n3 of 4", true}));
  CHECK(there_and_back(Hello{-1, "", false}) == Message(Hello{-1, "", false}));
  for (const Signal& signal : {Signal{15}, Signal{64, true, false}, Signal{1, false, true},
                               Signal{2, true, true}, Signal{15, false, false, true}})
    CHECK(there_and_back(signal) == Message(signal));
  CHECK(there_and_back(Ended{143}) == Message(Ended{143}));
  CHECK(there_and_back(Ended{127, false}) == Message(Ended{127, false}));
  CHECK(there_and_back(Ended{125, true, true}) == Message(Ended{125, true, true}));
  for (const Output& output : {Output{Stream::output, "n3 of 4"}, Output{Stream::error, ""}})
    CHECK(there_and_back(output) == Message(output));
  const Task sealed{std::string("a\0b", 3)};
  CHECK(there_and_back(sealed) == Message(sealed));
}

TEST_CASE("what no lifeline says is nothing") {
  for (const char* wrong : {"", "s", "s15", "s.1", "s.1-0", "s.1-65", "s.1-15x", "s?1-15", "s.?-15", "s.1?15",
                            "e256", "e-1", "h1", "hx n1", "h-2 n1", "q"}) {
    CAPTURE(wrong);
    CHECK_FALSE(decode(wrong));
  }
  // A host's name is no longer than what is sent of it.
  const std::string name(1024, 'n');
  CHECK(decode("h1 " + name) == Message(Hello{1, name, false}));
  CHECK_FALSE(decode("h1 " + name + "n"));
}

TEST_CASE("a task comes back as it was, and a cut one not at all") {
  const AgentTask task{{"--nnodes", "2", "train.py", ""}, "/home/me", {"A=1", "B=x y\nz", "C="}};
  const std::string bytes = encode(task);
  CHECK(decode_task(bytes) == task);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(decode_task(bytes.substr(0, length)));
  }
  CHECK(decode_task(encode(AgentTask{})) == AgentTask{});
}

TEST_CASE("an agent keeps what belongs to its host") {
  const auto merged = merge_environments(
      {"A=1", "HOSTNAME=n1", "PBS_NODENUM=0", "PBS_JOBID=7", "CUDA_VISIBLE_DEVICES=GPU-of-n1", "PMI_RANK=0"},
      {"A=2", "HOSTNAME=n2", "PBS_NODENUM=1", "CUDA_VISIBLE_DEVICES=GPU-of-n2", "SSH_CONNECTION=x"});
  CHECK(merged == std::vector<std::string>{"A=1", "PBS_JOBID=7", "HOSTNAME=n2", "PBS_NODENUM=1",
                                           "CUDA_VISIBLE_DEVICES=GPU-of-n2", "SSH_CONNECTION=x"});
  CHECK(merge_environments({"NCPUS=8", "OMP_NUM_THREADS=8"}, {"A=2"}) ==
        std::vector<std::string>{"NCPUS=8", "OMP_NUM_THREADS=8"});
  CHECK(merge_environments({"NCPUS=8"}, {"NCPUS=4"}) == std::vector<std::string>{"NCPUS=4"});
  CHECK(merge_environments({"CUDA_VISIBLE_DEVICES=0,1"}, {"A=2"}) ==
        std::vector<std::string>{"CUDA_VISIBLE_DEVICES=0,1"});
}
