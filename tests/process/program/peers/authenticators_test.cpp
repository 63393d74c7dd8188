#include "peers/authenticators.hpp"

#include <filesystem>

#include "catch.hpp"
#include "os/files/key_file.hpp"
#include "os/files/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::peers;

namespace {

using Methods = std::vector<rendezvous::ProofMethod>;

const allocation::JobSecret k_cookie{allocation::SecretKind::pbs_cookie, "cookie", "PBS_JOBCOOKIE"};
const allocation::JobSecret k_open_mpi{allocation::SecretKind::open_mpi_transports, "transports",
                                       "OMPI_MCA_orte_precondition_transports"};
const allocation::JobSecret k_pmi{allocation::SecretKind::pmi_shared_secret, "secret", "PMI_SHARED_SECRET"};
const allocation::JobSecret k_front_end{allocation::SecretKind::front_end, "key", "DDPRUN_KEY"};

struct Home {
  Home() : folder(std::nullopt) { snapshot.environment["HOME"] = folder.path(); }
  bool has_key() const { return std::filesystem::exists(folder.path() + "/.ddprun/key"); }
  Methods methods(const std::vector<allocation::JobSecret>& secrets) const {
    return make_authenticator({}, secrets, snapshot).methods;
  }
  os::TempDir folder;
  facts::Snapshot snapshot;
};

}  // namespace

TEST_CASE("keys of the job come before the key file, best first, and none is made beside them") {
  const Home home;
  CHECK(home.methods({k_open_mpi}) == Methods{rendezvous::ProofMethod::open_mpi});
  CHECK(home.methods({k_pmi, k_front_end}) ==
        Methods{rendezvous::ProofMethod::front_end, rendezvous::ProofMethod::pmi_secret});
  CHECK_FALSE(home.has_key());
  os::read_or_make_key_file(home.folder.path() + "/.ddprun/key");
  CHECK(home.methods({k_open_mpi}) ==
        Methods{rendezvous::ProofMethod::open_mpi, rendezvous::ProofMethod::key_file});
}

TEST_CASE("the user's secret comes before what others gave, and no key file is made beside it") {
  Home home;
  const allocation::JobSecret given{allocation::SecretKind::given, "0123456789abcdef", "DDPRUN_SECRET"};
  home.snapshot.host.munge = true;
  CHECK(home.methods({k_pmi, given}) == Methods{rendezvous::ProofMethod::given,
                                                rendezvous::ProofMethod::munge,
                                                rendezvous::ProofMethod::pmi_secret});
  CHECK_FALSE(home.has_key());
  home.snapshot.host.munge = false;
  home.snapshot.environment.erase("HOME");
  CHECK(home.methods({given}) == Methods{rendezvous::ProofMethod::given});
  const auto another =
      make_authenticator({}, {{given.kind, "fedcba9876543210", given.origin}}, home.snapshot);
  CHECK(
      make_authenticator({}, {given}, home.snapshot)
          .open(rendezvous::ProofMethod::given, another.seal(rendezvous::ProofMethod::given, "payload").text)
          .text == "DDPRUN_SECRET differs between the two hosts; set it to the same value on every node");
}

TEST_CASE("munge comes after the front end's key and before what others gave") {
  Home home;
  home.snapshot.host.munge = true;
  CHECK(home.methods({k_pmi, k_front_end}) == Methods{rendezvous::ProofMethod::front_end,
                                                      rendezvous::ProofMethod::munge,
                                                      rendezvous::ProofMethod::pmi_secret});
}

TEST_CASE("PBS's cookie, which others can compute, counts only where there is nothing else") {
  Home home;
  CHECK(home.methods({k_cookie}) == Methods{rendezvous::ProofMethod::key_file});
  CHECK(home.has_key());
  home.snapshot.host.munge = true;
  CHECK(home.methods({k_cookie, k_open_mpi}) == Methods{rendezvous::ProofMethod::munge,
                                                        rendezvous::ProofMethod::open_mpi,
                                                        rendezvous::ProofMethod::key_file});
  home.snapshot.host.munge = false;
  home.snapshot.environment["HOME"] = "/proc";
  CHECK(home.methods({k_cookie}) == Methods{rendezvous::ProofMethod::pbs_cookie});
}

TEST_CASE("two agents of one job prove themselves with its secret, those of another do not") {
  const Home one;
  const Home other;
  const std::string sealed = make_authenticator({}, {k_open_mpi}, one.snapshot)
                                 .seal(rendezvous::ProofMethod::open_mpi, "payload")
                                 .text;
  CHECK(make_authenticator({}, {k_cookie, k_open_mpi}, other.snapshot)
            .open(rendezvous::ProofMethod::open_mpi, sealed)
            .text == "payload");
  allocation::JobSecret another = k_open_mpi;
  another.value = "of another launch";
  CHECK(make_authenticator({}, {another}, other.snapshot)
            .open(rendezvous::ProofMethod::open_mpi, sealed)
            .text == "the peer does not hold Open MPI's launch key of this job");
}

TEST_CASE("a key file that the user names is the only key") {
  const Home home;
  options::Options options;
  options.key_file = home.folder.path() + "/mine";
  CHECK(make_authenticator(options, {k_open_mpi}, home.snapshot).methods ==
        Methods{rendezvous::ProofMethod::key_file});
}

TEST_CASE("where the key files differ, the line that copies one of them is told") {
  Home one;
  Home other;
  one.snapshot.host.name = "n1";
  const std::string sealed =
      make_authenticator({}, {}, other.snapshot).seal(rendezvous::ProofMethod::key_file, "payload").text;
  const auto told = [&](const options::Options& options) {
    return make_authenticator(options, {}, one.snapshot).open(rendezvous::ProofMethod::key_file, sealed).text;
  };
  const std::string start = "the key files of the two hosts differ; ";
  options::Options options;
  CHECK(told(options) == start + "on the refused host: scp n1:.ddprun/key ~/.ddprun/key");
  options.place.address = sourced(std::string("10.0.0.1"), "--master-addr");
  CHECK(told(options) == start + "on the refused host: scp 10.0.0.1:.ddprun/key ~/.ddprun/key");
  CHECK(make_authenticator({}, {}, one.snapshot, "SkyPilot")
            .open(rendezvous::ProofMethod::key_file, sealed)
            .text == start +
                         "if the hosts share no home directory, set DDPRUN_SECRET to the same value on every "
                         "node, or name a file that all of them can read with --key-file");
  const os::TempDir elsewhere(std::nullopt);
  options.key_file = elsewhere.path() + "/mine";
  CHECK(told(options) == start + "copy the file of --key-file from one host to the other");  // and no path
}
