"""A fixed number of nodes, started by hand: an agent that is killed and started again is taken back under its rank."""

from __future__ import annotations

import signal


from support import evidence
from support.hosts import wait_until
from support.manual import as_text, codes, start, wait_all, wait_for_listener


def test_an_agent_that_is_killed_and_started_again_is_taken_back_three_times(hosts, directory, key):
    worker = ["--no-python", "sh", "-c",
              f"touch {directory}/up.$TORCHELASTIC_RESTART_COUNT.$RANK; "
              f"until [ -e {directory}/end ]; do sleep 0.05; done; echo rank $RANK in $TORCHELASTIC_RESTART_COUNT"]
    options = ["--max-restarts", "3", "--key-file", key, *worker]
    first = start(hosts, 0, *options)
    wait_for_listener(hosts, "a")
    second = start(hosts, 1, *options)
    for attempt in range(4):
        wait_until(f"attempt {attempt} runs", lambda number=attempt: all((directory / f"up.{number}.{rank}").exists() for rank in (0, 1)))
        if attempt == 3:
            break
        second.send_signal(signal.SIGKILL)
        second.wait()
        second = start(hosts, 1, *options)
    (directory / "end").touch()
    results = wait_all([first, second])
    assert codes(results) == [0, 0], as_text(results)
    assert "rank 0 in 3" in results[0].stdout and "rank 1 in 3" in results[0].stdout + results[1].stdout, as_text(results)
    for number in (1, 2, 3):
        assert evidence.times_said(results[0].stderr, f"to return (restart {number} of 3)") == 1, as_text(results)
    assert "hint: start ddprun there again with the same line" in results[0].stderr, as_text(results)


def test_an_agent_that_does_not_return_ends_the_job_after_the_join_timeout(hosts, directory, key):
    worker = ["--no-python", "sh", "-c", f"touch {directory}/up.$RANK; exec sleep 600"]
    options = ["--max-restarts", "1", "--join-timeout", "5", "--key-file", key, *worker]
    first = start(hosts, 0, *options)
    wait_for_listener(hosts, "a")
    second = start(hosts, 1, *options)
    wait_until("both run", lambda: all((directory / f"up.{rank}").exists() for rank in (0, 1)))
    second.send_signal(signal.SIGKILL)
    second.wait()
    result = first.wait()
    assert result.code == 124, str(result)
    assert "gave up after 5 s waiting for" in result.stderr and "lost b (rank 1)" in result.stderr, str(result)
