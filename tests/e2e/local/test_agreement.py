"""What the hosts of one job have to agree on, and the sentence when they do not."""

from __future__ import annotations

import re

import pytest

from support import evidence
from support.manual import as_text, codes, start, wait_all, wait_for_listener
from support.programs import SCRIPTS

PRINT = str(SCRIPTS / "print_env.py")


def test_hosts_may_have_different_numbers_of_workers(hosts, directory, key):
    results = wait_all([start(hosts, node, "--nproc-per-node", count, "--key-file", key, PRINT, str(directory))
                        for node, count in enumerate(("1", "3"))])
    assert codes(results) == [0, 0], as_text(results)
    workers = evidence.workers(directory)
    assert [worker["host"] for worker in workers] == ["a", "b", "b", "b"]
    assert [evidence.numbers(worker, "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "GROUP_RANK")
            for worker in workers] == [(0, 0, 1, 4, 0), (1, 0, 3, 4, 1), (2, 1, 3, 4, 1), (3, 2, 3, 4, 1)]


@pytest.mark.parametrize(("first", "second", "sentence"), [
    pytest.param([], ["--nnodes", "3"], "b counts 3 ddprun processes in this job and a counts 2", id="nnodes"),
    pytest.param(["--max-restarts", "1"], ["--max-restarts", "2"], "--max-restarts", id="max-restarts"),
])
def test_a_disagreement_ends_both_with_one_sentence(hosts, directory, key, first, second, sentence):
    results = wait_all([start(hosts, node, *options, "--key-file", key, PRINT, str(directory))
                        for node, options in enumerate((first, second))])
    assert codes(results) == [125, 125], as_text(results)
    assert evidence.times_said(results[0].stderr + results[1].stderr, sentence) == 1, as_text(results)
    assert not evidence.workers(directory)


def test_a_second_ddprun_in_a_taken_place_is_refused_and_the_job_goes_on(hosts, directory, key):
    worker = ["--no-python", "sh", "-c",
              f"[ $RANK = 0 ] || touch {directory}/up; until [ -e {directory}/end ]; do sleep 0.05; done"]
    waiting = start(hosts, 0, "--key-file", key, *worker)
    wait_for_listener(hosts, "a")
    first = start(hosts, 1, "--key-file", key, *worker)
    while not (directory / "up").exists():
        assert first.is_running()
    second = start(hosts, 1, "--key-file", key, *worker).wait()
    assert second.code == 125, str(second)
    assert "another ddprun has already joined in the place of b (number 1)" in second.stderr, str(second)
    assert "hint: start each ddprun of the job only once" in second.stderr, str(second)
    (directory / "end").touch()
    results = wait_all([waiting, first])
    assert codes(results) == [0, 0], as_text(results)


def test_a_second_node_0_finds_the_port_taken(hosts, key):
    first = start(hosts, 0, "--key-file", key, "--join-timeout", "60", "--no-python", "true")
    wait_for_listener(hosts, "a")
    second = start(hosts, 0, "--key-file", key, "--no-python", "true").wait()
    assert second.code == 125 and re.search(r"ddprun with pid \d+ listens there: nodes of one job on one host need different numbers", second.stderr), str(second)
    first.send_signal(15)
    assert first.wait().code == 143


def test_a_wrong_key_is_refused_whoever_has_it(hosts, directory, key):
    other = directory / "other"
    other.write_text("fedcba9876543210" * 4 + "\n")
    other.chmod(0o600)
    results = wait_all([start(hosts, node, "--join-timeout", "3", "--key-file", file, PRINT, str(directory))
                        for node, file in enumerate((str(other), key))])
    assert codes(results) == [124, 124], as_text(results)
    for result in results:
        assert "key" in result.stderr, str(result)
    assert f"refused {hosts['b'].address}" in results[0].stderr, str(results[0])
    assert not evidence.workers(directory)
