#include "net/name_lookup.hpp"

#include <poll.h>
#include <unistd.h>

#include "catch.hpp"

using ddprun::net::NameLookupChild;

namespace {

std::string answer_for(const std::string& name) {
  const NameLookupChild lookup(name);
  std::string answer;
  char buffer[256];
  while (true) {
    pollfd waiting{lookup.descriptor(), POLLIN, 0};
    REQUIRE(::poll(&waiting, 1, 30000) == 1);
    const ssize_t count = ::read(lookup.descriptor(), buffer, sizeof buffer);
    if (count <= 0) return answer;
    answer.append(buffer, static_cast<std::size_t>(count));
  }
}

}  // namespace

TEST_CASE("a known name gives its addresses, one a line") {
  const std::string answer = answer_for("localhost");
  CHECK((answer.find("127.0.0.1\n") != std::string::npos || answer.find("::1\n") != std::string::npos));
}

TEST_CASE("an unknown name gives a sentence") {
  const std::string answer = answer_for("no-such-host.invalid");
  CHECK((answer == "error: the name does not resolve on this host\n" ||
         answer == "error: the name service does not answer\n"));
}

TEST_CASE("a look-up can be dropped at any time") {
  { const NameLookupChild dropped("no-such-host.invalid"); }
  CHECK(answer_for("127.0.0.1") == "127.0.0.1\n");
}
