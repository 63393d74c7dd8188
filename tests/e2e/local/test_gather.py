"""--gather: what all hosts write, on the coordinator's console."""

from __future__ import annotations

import re
import signal

from support import written_lines
from support.manual import as_text, codes, start_all, wait_all, wait_for_files
from support.hosts import is_full, wait_until

SHELL = ("--no-python", "sh", "-c")
LINES = f"python3 {written_lines.__file__}"


def test_four_hosts_come_out_whole_on_one_console(hosts, directory, key):
    size = 1_000_000
    # One long line in ten: srun, pbsdsh and ssh would tear them.
    script = f"{LINES} 65536 {size}"
    results = wait_all(start_all(hosts, "--key-file", key, "--gather", *SHELL, script, nodes=4))
    assert codes(results) == [0] * 4, as_text(results)[:5000]
    assert [result.output for result in results[1:]] == [""] * 3, as_text(results[1:])[:5000]
    found = written_lines.look_at(results[0].stdout.encode(), 4, 65536, size)
    assert found.is_whole, str(found)


def test_streams_stay_apart_over_restarts_and_the_report_comes_last(hosts, directory, key):
    script = (f"echo out $RANK; echo err $RANK >&2; touch {directory}/up.$TORCHELASTIC_RESTART_COUNT.$RANK\n"
              f"until [ $(ls {directory}/up.$TORCHELASTIC_RESTART_COUNT.* | wc -l) = 2 ]; do sleep 0.02; done\n"
              "[ $RANK = 1 ] && exit 3; sleep 60")
    results = wait_all(start_all(hosts, "--key-file", key, "--gather", "--fold=off", "--label", "--max-restarts", "1",
                                 *SHELL, script))
    assert codes(results) == [3, 3], as_text(results)
    assert results[1].output == "", as_text(results)
    assert sorted(results[0].stdout.splitlines()) == ["[0 a] out 0"] * 2 + ["[1 b] out 1"] * 2, as_text(results)
    assert results[0].stderr.count("[1 b] err 1\n") == 2, as_text(results)
    report = results[0].stderr.index("ddprun: rank 1 on b exited with code 3\n")
    assert report > results[0].stderr.rindex("[1 b] err 1\n"), as_text(results)


def test_a_reader_that_stands_still_holds_every_host_up_and_loses_nothing(hosts, directory, key):
    size = 20_000_000
    script = f"touch {directory}/ready.$RANK; {LINES} 200 {size}; touch {directory}/done.$RANK"
    both = start_all(hosts, "--key-file", key, "--gather", *SHELL, script)
    wait_for_files(directory, "ready.*", 2)
    wait_until("the first host's output is full", lambda: is_full(both[0]))
    assert not list(directory.glob("done.*"))  # 40 MB are more than all pipes and windows between here and there
    results = wait_all(both)
    assert codes(results) == [0, 0]
    found = written_lines.look_at(results[0].stdout.encode(), 2, 200, size)
    assert found.is_whole, str(found)


def test_a_host_that_loses_the_coordinator_says_so_on_its_own(hosts, directory, key):
    both = start_all(hosts, "--key-file", key, "--gather", *SHELL, "echo here $RANK; sleep 600")
    assert sorted(both[0].popen.stdout.readline() for _ in range(2)) == ["here 0\n", "here 1\n"]
    both[0].send_signal(signal.SIGKILL)
    results = wait_all(both)
    assert results[1].code == 125, as_text(results)
    assert re.search(r"ddprun: lost the coordinator .*: (the connection was closed|connection reset)", results[1].stderr), as_text(results)
    assert "here 1" not in results[1].output, as_text(results)


def test_an_agent_that_is_killed_holds_nothing_up(hosts, directory, key):
    script = (f"echo here $RANK; [ $RANK = 0 ] || {{ until [ -e {directory}/heard ]; do sleep 0.05; done; kill -KILL $PPID; }}; "
              "sleep 600")
    both = start_all(hosts, "--key-file", key, "--gather", *SHELL, script)
    assert sorted(both[0].popen.stdout.readline() for _ in range(2)) == ["here 0\n", "here 1\n"]
    (directory / "heard").touch()
    results = wait_all(both)
    assert results[0].code == 125 and "lost b" in results[0].stderr, as_text(results)


def test_a_stop_of_all_hosts_ends_although_nobody_reads(hosts, directory, key):
    flood = f"touch {directory}/up.$RANK; exec yes"
    both = start_all(hosts, "--key-file", key, "--gather", *SHELL, flood)
    wait_for_files(directory, "up.*", 2)
    wait_until("the first host's output is full", lambda: is_full(both[0]))
    both[0].send_signal(signal.SIGTERM)
    wait_until("both have ended", lambda: not any(each.is_running() for each in both))
    assert codes(wait_all(both)) == [143, 143]
