#include "lifecycle/after_success.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::lifecycle;

TEST_CASE("only workers that start Python are expected at the store") {
  CHECK(starts_python({"/venv/bin/python3", "-u", "train.py"}));
  CHECK(starts_python({"python3.12"}));
  CHECK_FALSE(starts_python({"hostname"}));
  CHECK_FALSE(starts_python({"/opt/python/bin/tool"}));
  CHECK_FALSE(starts_python({}));
}

TEST_CASE("a function of ddprun.launch() may never mean to train together") {
  CHECK(may_train_together({"python3", "train.py"}));
  CHECK_FALSE(may_train_together(
      {"/v/bin/python", "-u", "/v/lib/python3.11/site-packages/ddprun/_worker.py", "/tmp/x"}));
  CHECK_FALSE(may_train_together({"hostname"}));
}

TEST_CASE("a store that no worker reaches is a question about the script") {
  const allocation::Notice notice = describe_silent_store(Milliseconds{60000});
  CHECK(
      notice.what ==
      "no worker has reached the store within 60 s; does the script set MASTER_PORT or start ranks itself?");
  CHECK(notice.hint ==
        "call torch.distributed.init_process_group() without an address, and start no ranks in the script; "
        "the job continues");
}

TEST_CASE("a script that ran once a worker without torch.distributed is told so") {
  const allocation::Notice notice = describe_unused_store(4);
  CHECK(notice.what ==
        "no worker connected to the store that torch.distributed uses: the script ran 4 times, once in each "
        "worker");
  CHECK(notice.hint ==
        "to train together, call torch.distributed.init_process_group() in the script; to run it once, add "
        "--nproc-per-node 1");
}
