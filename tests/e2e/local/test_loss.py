"""Hosts that vanish, launchers that freeze, and failures of several hosts at once."""

from __future__ import annotations

import re
import signal
import uuid

import pytest

from support import evidence
from support.manual import as_text, codes, start_all, wait_all, wait_for_files
from support.hosts import wait_until


def marked() -> tuple[str, dict[str, str]]:
    value = str(uuid.uuid4())
    return f"DDPRUN_TEST_MARKER={value}", {"DDPRUN_TEST_MARKER": value}


@pytest.mark.parametrize("lost", [0, 1])
def test_an_unplugged_host_ends_the_job_on_both_sides(hosts, directory, key, lost):
    marker, env = marked()
    both = start_all(hosts, "--key-file", key, "--no-python", "sh", "-c",
                     f"touch {directory}/up.$RANK; exec sleep 600", env=env)
    wait_for_files(directory, "up.*", 2)
    hosts["ab"[lost]].unplug()
    try:
        results = wait_all(both)
    finally:
        hosts["ab"[lost]].plug_in_again()
    assert codes(results) == [125, 125], as_text(results)
    why = "(the host no longer answers|no route to the host)"
    coordinator = re.escape(f"lost the coordinator node 0 ({hosts['a'].address})")
    assert re.search(rf"lost b \(rank 1\): {why}", results[0].stderr), str(results[0])
    assert re.search(f"{coordinator}: {why}", results[1].stderr), str(results[1])
    wait_until("no worker is left", lambda: not hosts.processes_with(marker))


def test_a_frozen_ddprun_does_not_keep_the_others_from_being_stopped(hosts, directory, key):
    marker, env = marked()
    both = start_all(hosts, "--key-file", key, "--shutdown-timeout", "1", "--no-python", "sh", "-c",
                     f"touch {directory}/up.$RANK; exec sleep 600", env=env)
    wait_for_files(directory, "up.*", 2)
    both[1].freeze()
    both[0].send_signal(signal.SIGTERM)
    result = both[0].wait()
    assert result.code == 143, str(result)
    assert "lost b (rank 1): it did not stop its workers within 16 s and does not answer" in result.stderr, str(result)
    both[1].thaw()
    assert both[1].wait().code == -signal.SIGKILL  # by its reaper, as the others have gone on without it
    wait_until("no worker is left", lambda: not hosts.processes_with(marker))


def test_hosts_that_fail_together_give_one_cause(hosts, directory, key):
    program = (f"touch {directory}/up.$RANK; until [ -e {directory}/go ]; do sleep 0.01; done;"
               "echo the reason of $RANK >&2; exit $((7 + RANK))")
    both = start_all(hosts, "--key-file", key, "--no-python", "sh", "-c", program)
    wait_for_files(directory, "up.*", 2)
    (directory / "go").touch()
    results = wait_all(both)
    assert codes(results) in ([7, 7], [8, 8]), as_text(results)
    rank, host = results[0].code - 7, "ab"[results[0].code - 7]
    text = as_text(results)
    assert evidence.times_said(text, f"ddprun: rank {rank} on {host} exited with code {7 + rank}") == 1, text
    assert f"the reason of {rank}" in results[0].stderr, text


def test_restarts_on_four_hosts_wait_for_a_worker_that_ignores_the_stop(hosts, directory, key):
    program = (f"echo $TORCHELASTIC_RESTART_COUNT >> {directory}/rank.$RANK; [ $RANK = 2 ] && trap '' TERM;"
               "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; touch " + f"{directory}/up.$RANK;"
               f"[ $RANK = 3 ] || while :; do sleep 0.1; done;"
               f"for R in 0 1 2; do until [ -e {directory}/up.$R ]; do sleep 0.02; done; done; exit 9")
    results = wait_all(start_all(hosts, "--key-file", key, "--max-restarts", "1", "--shutdown-timeout", "1",
                                 "--no-python", "sh", "-c", program, nodes=4))
    assert codes(results) == [0] * 4, as_text(results)
    for rank in range(4):
        assert (directory / f"rank.{rank}").read_text() == "0\n1\n", as_text(results)
    assert evidence.times_said(as_text(results), "rank 3 on d exited with code 9") == 1, as_text(results)


def test_a_host_whose_workers_end_early_waits_for_the_others(hosts, directory, key):
    program = (f"[ $RANK = 1 ] && touch {directory}/gone && exit 0;"
               f"until [ -e {directory}/end ]; do sleep 0.05; done; echo late")
    both = start_all(hosts, "--key-file", key, "--no-python", "sh", "-c", program)
    wait_for_files(directory, "gone", 1)
    (directory / "end").touch()
    results = wait_all(both)
    assert codes(results) == [0, 0], as_text(results)
    assert [result.stdout for result in results] == ["late\n", ""]
