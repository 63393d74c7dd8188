#include "staging/rewrite.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::staging;

namespace {

constexpr std::uint64_t k_gib = std::uint64_t{1} << 30U;

}  // namespace

TEST_CASE("copies lie where the user says, else in TMPDIR, else in memory") {
  CHECK(places("/local", "/tmp/job") == std::vector<std::string>{"/local"});
  CHECK(places("", "/tmp/job") == std::vector<std::string>{"/tmp/job", "/dev/shm"});
  CHECK(places("", std::nullopt) == std::vector<std::string>{"/dev/shm"});
  CHECK(places("", "relative") == std::vector<std::string>{"/dev/shm"});
}

TEST_CASE("the first place that will do is taken") {
  const PlaceFacts full{"/tmp", "", k_gib, true}, memory{"/dev/shm", "", 8 * k_gib, false};
  CHECK(choose_place({full, memory}, k_gib / 2, true).folder == "/tmp");
  CHECK(choose_place({full, memory}, 2 * k_gib, false).folder == "/dev/shm");
}

TEST_CASE("where no place will do, each says why") {
  const std::vector<PlaceFacts> places{{"/tmp", "", k_gib, true},
                                       {"/dev/shm", "", 8 * k_gib, false},
                                       {"/scratch", "is on lustre", 99 * k_gib, true}};
  const ChosenPlace chosen = choose_place(places, k_gib, true);
  CHECK(chosen.folder.empty());
  CHECK(chosen.problem ==
        "/tmp has 1.0 GiB free, 1.1 GiB are needed; /dev/shm is mounted noexec; /scratch is on lustre");
}

TEST_CASE("a copy's folder has the name of its source") {
  CHECK(copy_folder("/shared/venv", "0123") == "venv-0123");
  CHECK(user_folder(1000) == "ddprun-stage-1000");
}
