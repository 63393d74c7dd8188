// Our host-list parser against Slurm's own, in the library and in scontrol. Without Slurm there is nothing to
// compare with, and the cases say so.
#include "os/libraries/slurm_api.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <random>

#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "catch.hpp"
#include "os/descriptors.hpp"
#include "random_seed.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

// Well-formed lists of all shapes that every Slurm version reads the same way. Left out: text after a
// bracket, refused before 23.11.
class ListMaker {
 public:
  explicit ListMaker(unsigned seed) : random_(seed) {}

  std::string make_list() {
    static constexpr std::array separators{",", " ", "\t", ",,", ", "};
    std::string list = make_name();
    for (unsigned more = below(4); more > 0; --more)
      list += separators[below(separators.size())] + make_name();
    return list;
  }

 private:
  unsigned below(std::size_t count) { return static_cast<unsigned>(random_() % count); }

  std::string make_name() {
    static constexpr std::array texts{"n", "nid", "a-0", "x1000c", "rack", "n0", "b_", "c.d"};
    std::string name = texts[below(texts.size())];
    if (below(3) == 0) name += std::to_string(below(1200));
    for (unsigned groups = below(8) == 0 ? 4 : below(4); groups > 0; --groups) {
      name += "[" + make_group() + "]";
      if (groups > 1 && below(4) != 0) name += texts[below(texts.size())];
    }
    return name;
  }

  std::string make_group() {
    std::string group = make_range();
    for (unsigned more = below(2); more > 0; --more) group += "," + make_range();
    return group;
  }

  std::string make_range() {
    const unsigned low = below(2) == 0 ? below(12) : 90 + below(20);
    std::string range = fmt::format("{:0{}}", low, 1 + below(4));
    if (below(2) == 0) range += fmt::format("-{:0{}}", low + below(4), 1 + below(4));
    return range;
  }

  std::mt19937 random_;
};

// libslurm leaks what it parsed before it refuses, so that happens in a process that just ends.
bool refuses(const SlurmApi& api, const std::string& list) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDERR_FILENO);  // where libslurm complains
    ::_exit(api.expand_hostlist(list) ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

// scontrol wants a configuration, though no daemon, to print host names.
class SlurmConf {
 public:
  SlurmConf() {
    const Fd file(::mkstemp(path_.data()));
    const std::string_view text = "ClusterName=test\nSlurmctldHost=localhost\n";
    REQUIRE(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  ~SlurmConf() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/ddprun-slurm-conf-XXXXXX";
};

std::string read_output(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  REQUIRE(pipe);
  std::string output;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
    output.append(buffer.data(), count);
  return output;
}

}  // namespace

TEST_CASE("host lists expand to what libslurm makes of them") {
  const auto api = SlurmApi::open();
  if (!api) SKIP("no libslurm on this machine: nothing to compare with");
  RANDOM_SEED(seed);
  CAPTURE(api->soname());
  ListMaker maker(seed);
  for (int round = 0; round < 12000; ++round) {
    const std::string list = maker.make_list();
    CAPTURE(list);
    const auto expected = api->expand_hostlist(list);
    REQUIRE(expected);
    REQUIRE(allocation::expand_hostlist(list, "LIST") == *expected);
    if (round % 10 == 0) REQUIRE(api->expand_hostlist(allocation::compress_hostlist(*expected)) == expected);
  }
}

TEST_CASE("what libslurm refuses is refused") {
  const auto api = SlurmApi::open();
  if (!api) SKIP("no libslurm on this machine: nothing to compare with");
  for (const std::string list : {"n[3-1]", "n[]", "n[a-c]", "n[0-65536]", "n[1-3,]", "n[,1]", "n[1-2-3]",
                                 "n[-1]", "n[[1-2]]", "n[1[2]]"}) {
    CAPTURE(list);
    CHECK(refuses(*api, list));
    CHECK_THROWS_AS(allocation::expand_hostlist(list, "LIST"), Error);
  }
}

TEST_CASE("host lists expand to what scontrol makes of them") {
  if (read_output("command -v scontrol").empty())
    SKIP("no scontrol on this machine: nothing to compare with");
  const SlurmConf conf;
  RANDOM_SEED(seed);
  ListMaker maker(seed);
  for (int batch = 0; batch < 5; ++batch) {
    std::vector<std::string> lists;
    for (int i = 0; i < 50; ++i) lists.push_back(maker.make_list());
    const std::string list = join(lists, ",");
    CAPTURE(list);
    const std::string output = read_output("SLURM_CONF=" + conf.path() + " scontrol show hostnames " +
                                           shell_quote(std::string_view(list)));
    REQUIRE(split_words(output) == allocation::expand_hostlist(list, "LIST"));
  }
}
