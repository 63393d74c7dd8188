"""What workers write on hosts where ddprun started itself, as it comes out of the ddprun that a user typed."""

from __future__ import annotations

import re

import pytest

from support import written_lines
from support.hosts import wait_until

PER_HOST = "python3 " + written_lines.__file__


def sh(script: str) -> list[str]:
    return ["--no-python", "sh", "-c", script]


@pytest.mark.parametrize("length, size", [(200, 1_000_000), (65536, 4_000_000)])
def test_no_byte_is_lost_and_no_line_torn(reachable, directory, length, size):
    command = f"ddprun --hosts a,b,c --no-python {PER_HOST} {length} {size} > out 2> err"
    result = reachable["a"].run(["sh", "-c", command], cwd=directory)
    found = written_lines.look_at((directory / "out").read_bytes(), 3, length, size)
    assert result.code == 0 and found.is_whole, f"{found}\n{(directory / 'err').read_text()}"


def test_both_streams_stay_apart_or_in_order_as_they_are_redirected(reachable, directory):
    (directory / "worker.sh").write_text("for i in $(seq 9); do echo out $RANK $i; echo err $RANK $i >&2; done")
    line = f"ddprun --hosts b,c --no-python sh {directory}/worker.sh"
    reachable["a"].check(["sh", "-c", f"{line} > out 2> err; {line} > both 2>&1"], cwd=directory)
    for name in ("out", "err"):
        said = (directory / name).read_text().splitlines()
        assert sorted(said) == [f"{name} {rank} {i}" for rank in (0, 1) for i in range(1, 10)]
    both = (directory / "both").read_text().splitlines()
    for rank in (0, 1):
        assert [said for said in both if said.split()[1] == str(rank)] == [
            f"{name} {rank} {i}" for i in range(1, 10) for name in ("out", "err")]


FAILING = """
import glob, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # all get to write it
folder, mark = sys.argv[1], "[rank%s]: " % os.environ["RANK"] if sys.argv[2] == "marked" else ""
open(f"{folder}/here." + os.environ["RANK"], "w").close()
while len(glob.glob(f"{folder}/here.*")) < 3: time.sleep(0.01)
lines = ["Traceback (most recent call last):", "  File x", "ValueError: same"]
sys.stderr.write("".join(mark + line + "\\n" for line in lines))
sys.exit(1)
"""


@pytest.mark.parametrize("how,first,other", [("marked", "rank [0-2]", "[0-2](?:[-, ]+[0-2])?"), ("plain", "[bcd]", "[bcd](?:, [bcd])?")])
def test_equal_tracebacks_of_three_hosts_are_one(reachable, directory, how, first, other):
    """Copies that a loaded machine brings too late, or beside the report, are shown whole."""
    (directory / "failing.py").write_text(FAILING)
    def fail(*options):
        for path in directory.glob("here.*"):
            path.unlink()
        line = ["ddprun", "-q", *options, "--hosts", "b,c,d", "--no-python", "python3", f"{directory}/failing.py", str(directory), how]
        result = reachable["a"].run(line)
        assert result.code == 1, str(result)
        return len(re.findall(r"^(?:\[rank\d\]: )?Traceback ", result.stderr, re.M)), result

    for _ in range(3):
        whole, result = fail()
        if whole == 1 and re.search(rf"^\[{other}\] the same 3 lines as {first}: ValueError: same$", result.stderr, re.M):
            break
    else:
        raise AssertionError(str(result))
    whole, result = fail("--fold=off")
    assert whole == 3 and "the same 3" not in result.stderr, str(result)


def test_a_reader_that_leaves_or_stands_still_is_as_with_one_host(reachable, directory):
    worker = f"{PER_HOST} 200 20000000; touch {directory}/done.$RANK"
    leaving = 'ddprun --hosts b,c "$@" | head -1; exit ${PIPESTATUS[0]}'
    result = reachable["a"].run(["bash", "-c", leaving, "-", *sh(worker)])
    assert result.code == 0 and len(result.stdout) == 200, str(result)
    done = [directory / f"done.{rank}" for rank in (0, 1)]
    assert all(path.exists() for path in done), str(result)
    for path in done:
        path.unlink()
    reading = f'ddprun --hosts b,c "$@" | (until [ -e {directory}/go ]; do sleep 0.05; done; cat > {directory}/out)'
    waiting = reachable["a"].popen(["bash", "-c", reading, "-", *sh(f"touch {directory}/ready.$RANK; {worker}")])
    wait_until("both workers write", lambda: len(list(directory.glob("ready.*"))) == 2)
    assert not any(path.exists() for path in done)  # 40 MB are more than all pipes and windows between here and there
    (directory / "go").touch()
    assert waiting.wait().code == 0
    found = written_lines.look_at((directory / "out").read_bytes(), 2, 200, 20_000_000)
    assert found.is_whole, str(found)


def test_what_an_agent_wrote_before_it_was_killed_comes_and_all_ends(reachable, directory):
    worker = (f"echo rank $RANK is here; cd {directory}; echo $PPID > new.$RANK; mv new.$RANK agent.$RANK; "
              "exec sleep 600")
    running = reachable["a"].popen(["ddprun", "--hosts", "b,c", *sh(worker)])
    wait_until("both workers run", lambda: len(list(directory.glob("agent.*"))) == 2)
    shown = [running.popen.stdout.readline().rstrip("\n") for _ in range(2)]
    reachable["c"].check(["kill", "-KILL", (directory / "agent.1").read_text().strip()])
    result = running.wait()
    assert result.code == 125, str(result)
    assert sorted(shown + result.stdout.splitlines()) == ["rank 0 is here", "rank 1 is here"], str(result)
