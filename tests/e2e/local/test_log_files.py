"""Files of the workers' output: torchrun's folders and ddprun's own, and disks that do not take everything."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from support.hosts import wait_until
from support.machine import Screen, python_program
from support.tmux import Tmux, needs_tmux

needs_zstd = pytest.mark.skipif(shutil.which("zstd") is None, reason="needs zstd")
TORCH_PYTHON = os.environ.get("DDPRUN_TEST_TORCH_PYTHON", "")
SAY = ("--no-python", "sh", "-c", "echo out $RANK; echo err $RANK >&2")


def files_below(folder) -> dict[str, str]:
    """Their texts by path. A run's folder ends with eight characters, as of mkdtemp; before it is what torchrun takes for
    the run on one host, whatever --rdzv-id says."""
    return {re.sub(r"^[\w-]+_\w{8}/", "RUN/", str(path.relative_to(folder))): path.read_text()
            for path in sorted(folder.rglob("*")) if path.is_file()}


def sorted_lines(text: str) -> list[str]:
    return sorted(text.splitlines())


@pytest.mark.parametrize("options", [
    ("-r", "3"), ("-r", "0:1,1:2"), ("-t", "3"), ("-t", "0:3", "-r", "1:3"), ("-r", "3", "-t", "0:1"),
    ("-t", "3", "--local-ranks-filter", "1"), ("--local-ranks-filter", "0"),
    ("-t", "3", "--duplicate-stdout-filters", "out 1,x", "--duplicate-stderr-filters", "err"),
    ("--duplicate-stdout-filters", "out 1", "--duplicate-stderr-filters", "err"),
], ids=" ".join)
def test_the_files_and_the_console_are_torchruns(machine, options):
    if not TORCH_PYTHON:
        pytest.skip("needs torch")
    found = {}
    for name, program in (("torchrun", [TORCH_PYTHON, "-m", "torch.distributed.run"]), ("ddprun", [machine.binary])):
        logs = machine.directory / name
        result = machine.start_program([*program, "--nproc-per-node", "2", "--rdzv-id", "job", "--log-dir", str(logs),
                                        *options, *SAY]).wait()
        assert result.code == 0, str(result)
        texts = files_below(logs)
        filtered = {path: sorted_lines(text) for path, text in texts.items() if "filtered" in path}
        found[name] = (texts | filtered, sorted_lines(result.stdout),
                       [line for line in sorted_lines(result.stderr) if "err " in line])
    assert found["ddprun"] == found["torchrun"]


def test_local_ranks_of_two_digits_and_a_template(machine):
    result = machine.run("-q", "--nproc-per-node", "12", "-t", "11:1", "-r", "10:3", "--local-ranks-filter", "10,11",
                         "--log-dir", "logs", "--role", "trainer", *SAY,
                         env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[${role_name} $rank] "})
    assert result.code == 0 and result.stdout == "[trainer 11] out 11\n" and result.stderr == "err 11\n", str(result)
    texts = {path.split("/", 1)[1]: text for path, text in files_below(machine.directory / "logs").items()}
    assert texts == {"attempt_0/10/stdout.log": "out 10\n", "attempt_0/10/stderr.log": "err 10\n",
                     "attempt_0/11/stdout.log": "out 11\n"}


def test_a_folder_nobody_named_is_named(machine):
    result = machine.run("-r", "3", *SAY)
    assert result.code == 0 and result.stdout == "", str(result)
    folder = re.fullmatch(r"ddprun: log files on \S+ are in (\S+)\n", result.stderr)
    assert folder, str(result)
    with open(f"{folder[1]}/attempt_0/0/stdout.log") as file:
        assert file.read() == "out 0\n"
    subprocess.run(["rm", "-r", os.path.dirname(folder[1])], check=True)


def test_what_goes_to_a_file_only_is_written_by_the_worker(machine):
    look = "import os, stat; m = os.fstat(1).st_mode; print(stat.S_ISREG(m), os.readlink('/proc/self/fd/2'))"
    result = machine.run("--logs", "logs", "--ranks", "none", "--rdzv-id", "job", *python_program(look))
    assert result.code == 0 and result.stdout + result.stderr == "", str(result)
    text = (machine.directory / "logs/latest/attempt-0/rank-00000.out").read_text()
    assert text.split() == ["True", str(machine.directory / "logs/job/attempt-0/rank-00000.err")]


def test_logs_by_rank_with_an_index_over_restarts(machine):
    script = "echo out $RANK $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || [ $RANK = 0 ] || exit 3; sleep 0.5"
    result = machine.run("--nproc-per-node", "2", "--max-restarts", "1", "--logs", "logs", "--rdzv-id", "job",
                         "--no-python", "sh", "-c", script)
    assert result.code == 0, str(result)
    assert "out 0 1\n" in result.stdout, str(result)
    run = machine.directory / "logs" / "job"
    assert os.readlink(machine.directory / "logs" / "latest") == "job"
    for attempt in (0, 1):
        assert (run / f"attempt-{attempt}/rank-00001.out").read_text() == f"out 1 {attempt}\n"
    index = json.loads((run / "index.json").read_text())
    workers = {(each["attempt"], each["rank"]): each for each in index["workers"]}
    assert sorted(workers) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert workers[0, 1]["exit_code"] == 3 and workers[1, 1]["exit_code"] == 0
    assert workers[0, 1]["stdout"] == "attempt-0/rank-00001.out" and workers[0, 1]["pid"] > 1


def test_the_report_has_the_last_lines_of_a_file_and_says_where_it_is(machine):
    fail = ("--no-python", "sh", "-c", "echo no module named x >&2; exit 3")
    for options in (["-r", "3", "--log-dir", "logs"], ["-t", "1", "--log-dir", "teed"], ["--logs", "own"],
                    ["--logs", "packed", "--log-compress", "zstd"]):
        result = machine.run(*options, "--report", "report.json", *fail)
        assert result.code == 3 and "no module named x" in result.stderr, str(result)
        path = json.loads((machine.directory / "report.json").read_text())["failure"]["log_file"]
        assert f"\n  its output is in {path}\n" in result.stderr, str(result)
        wanted = "stdout.log" if "teed" in options else "stderr.log" if "logs" in options else "rank-00000.err"
        assert os.path.exists(path) and wanted in path, path


def test_a_folder_that_cannot_be_written_is_one_sentence(machine):
    (machine.directory / "file").write_text("")
    for option in ("--logs", "--log-dir"):
        result = machine.run(option, "file", "-r", "3", *SAY)
        assert result.code == 2 and re.fullmatch(
            rf"ddprun: {option} file on \S+ is not a folder\nhint: name a folder\n", result.stderr), str(result)
        result = machine.run(option, "/proc/logs", "-r", "3", *SAY)
        assert result.code == 2 and re.match(rf"ddprun: {option} cannot write to /proc/logs on \S+: ",
                                             result.stderr), str(result)


def test_a_full_disk_costs_the_file_and_nothing_else(machine, small_disk):
    (machine.directory / "small").mkdir()
    script = ("mount -t tmpfs -o size=256k none small && $ddprun --logs small/logs --rdzv-id job --no-python sh -c "
              "'yes 012345678901234567890123456789012345678901234567890123456789 | head -20000; echo last'")
    result = machine.start_program(["unshare", "-m", "sh", "-c", script], env={"ddprun": machine.binary}).wait()
    lines = result.stdout.splitlines()
    assert len(lines) == 20001 and lines[-1] == "last", str(result)[-2000:]
    said = result.stderr.splitlines()
    assert len(said) == 2, result.stderr
    assert re.match(r"ddprun: cannot write all output to \S+rank-00000.out on \S+: no space left on device", said[0])
    assert re.match(r"ddprun: \S+rank-00000.out on \S+ lacks \d+ bytes: no space left on device", said[1])
    assert result.code == 125


def test_a_disk_that_is_slow_for_a_while_costs_no_line(machine):
    """The worker waits for it, as it would if it wrote the file itself."""
    console = machine.directory / "console"
    script = "touch ready; while [ ! -e go ]; do sleep 0.05; done; exec seq 3000000"
    with open(console, "wb") as target:
        program = machine.start("-q", "--logs", "logs", "--no-python", "sh", "-c", script, stdout=target)
        machine.wait_for_files("ready")
        find = ["pgrep", "-P", str(program.pid), "-x", "ddprun-logs"]
        writer = int(wait_until("the process that writes the files has its name",
                                lambda: subprocess.run(find, capture_output=True, text=True).stdout))
        os.kill(writer, signal.SIGSTOP)
        (machine.directory / "go").touch()
        sizes = [0]

        def stands() -> bool:
            sizes.append(console.stat().st_size)
            return len(sizes) > 20 and sizes[-20] == sizes[-1] > 0

        wait_until("the worker waits", stands)
        os.kill(writer, signal.SIGCONT)
        result = program.wait()
    assert result.code == 0 and result.stderr == "", str(result)
    numbers = "".join(f"{number}\n" for number in range(1, 3000001))
    assert console.read_text() == numbers
    assert (machine.directory / "logs/latest/attempt-0/rank-00000.out").read_text() == numbers


def test_files_are_rotated_between_lines_and_timed(machine):
    result = machine.run("--logs", "logs", "--ranks", "none", "--log-rotate", "4k:2", "--timestamps", "--rdzv-id", "job",
                         "--no-python", "sh", "-c", "seq 1 1000")
    assert result.code == 0, str(result)
    folder = machine.directory / "logs/job/attempt-0"
    names = ["rank-00000.out.2", "rank-00000.out.1", "rank-00000.out"]
    assert sorted(path.name for path in folder.iterdir() if ".out" in path.name) == sorted(names)
    texts = [(folder / name).read_text() for name in names]
    assert all(len(text) <= 4096 and text.endswith("\n") for text in texts)
    lines = "".join(texts).splitlines()
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \d+", line) for line in lines)
    numbers = [int(line.split()[1]) for line in lines]
    assert numbers == list(range(numbers[0], 1001)) and numbers[0] > 1


def unpacked(path) -> str:
    return subprocess.run(["zstd", "-dcq", str(path)], check=True, capture_output=True, text=True).stdout


@needs_zstd
def test_files_that_are_complete_are_compressed_with_every_byte(machine):
    """What an earlier run has left under the same name stays, in front."""
    for turn in (1, 2):
        result = machine.run("--nproc-per-node", "2", "--logs", "logs", "--ranks", "none", "--log-compress", "zstd",
                             "--rdzv-id", "job", "--no-python", "sh", "-c", "seq 1 100000; echo err >&2")
        assert result.code == 0 and result.stderr == "", str(result)
        folder = machine.directory / "logs/job/attempt-0"
        assert sorted(path.name for path in folder.iterdir()) == [
            f"rank-0000{rank}.{stream}.zst" for rank in range(2) for stream in ("err", "out")]
        for rank in range(2):
            assert unpacked(folder / f"rank-0000{rank}.out.zst") == \
                "".join(f"{number}\n" for number in range(1, 100001)) * turn
            assert unpacked(folder / f"rank-0000{rank}.err.zst") == "err\n" * turn
    index = json.loads((machine.directory / "logs/job/index.json").read_text())
    assert {each["stdout"] for each in index["workers"]} == {f"attempt-0/rank-0000{rank}.out.zst" for rank in range(2)}


@needs_zstd
def test_rotated_files_are_compressed_beside_the_one_that_is_written(machine):
    result = machine.run("--logs", "logs", "--log-rotate", "64k:3", "--log-compress", "zstd", "--rdzv-id", "job",
                         "--no-python", "sh", "-c", "seq 1 200000")
    assert result.code == 0, str(result)
    folder = machine.directory / "logs/job/attempt-0"
    names = [f"rank-00000.out{age}.zst" for age in (".3", ".2", ".1", "")]
    assert sorted(path.name for path in folder.iterdir() if ".out" in path.name) == sorted(names)
    texts = [unpacked(folder / name) for name in names]
    most = 65536 + len("200000\n")  # a line that has come in part when the file is full ends in it
    assert all(0 < len(text) <= most and text.endswith("\n") for text in texts), [(len(text), text[-20:]) for text in texts]
    numbers = [int(line) for line in "".join(texts).splitlines()]
    assert numbers == list(range(numbers[0], 200001))


@needs_zstd
def test_a_program_that_is_killed_leaves_files_that_can_be_read(machine):
    program = machine.start("--logs", "logs", "--log-compress", "zstd", "--rdzv-id", "job", "--no-python", "sh", "-c",
                            "echo written; touch ready; exec sleep 600")
    folder = machine.directory / "logs/job/attempt-0"
    machine.wait_for_files("ready")
    wait_until("ddprun has written it too", lambda: (folder / "rank-00000.out").stat().st_size > 0)
    program.popen.kill()
    program.wait()
    machine.check_nothing_is_left()
    assert wait_until("the file is compressed", lambda: (folder / "rank-00000.out.zst").exists())
    assert unpacked(folder / "rank-00000.out.zst") == "written\n"


@needs_zstd
def test_a_file_that_cannot_be_compressed_stays_as_it_is(machine, small_disk):
    (machine.directory / "small").mkdir()
    script = ("mount -t tmpfs -o size=300k none small && $ddprun --logs small --rdzv-id job --ranks none --log-compress zstd "
              "--no-python sh -c 'head -c 200000 /dev/urandom | base64' && ls small/job/attempt-0 && wc -c < small/job/attempt-0/rank-00000.out && "
              "grep -o 'attempt-0/rank[^\"]*' small/job/index.json")
    result = machine.start_program(["unshare", "-m", "sh", "-c", script], env={"ddprun": machine.binary}).wait()
    assert result.code == 0 and result.stdout.split() == [
        "rank-00000.err.zst", "rank-00000.out", "270177", "attempt-0/rank-00000.out", "attempt-0/rank-00000.err.zst"], str(result)
    # The index is written again once there is room.
    assert re.fullmatch(r"(ddprun: the log files on \S+ have no index: cannot write \S+: no space left on device\n)?"
                        r"ddprun: cannot compress \S+rank-00000.out on \S+: no space left on device; it stays uncompressed\n",
                        result.stderr), str(result)


def test_a_flood_is_cut_on_the_console_beside_a_quiet_rank_and_files_have_it_all(machine):
    script = "[ $RANK = 1 ] || exec seq 1 100000; echo quiet"
    result = machine.run("--nproc-per-node", "2", "--output-rate", "64k", "--logs", "logs", "--no-python", "sh", "-c", script)
    assert result.code == 0 and "quiet" in result.stdout.splitlines(), str(result)[:2000]
    told = re.findall(r"^ddprun: (\d+) lines \(\S+ \wB\) of rank 0 on \S+ omitted \(--output-rate\)$", result.stdout, re.M)
    shown = [line for line in result.stdout.splitlines() if line.isdigit()]
    assert told and len(shown) + sum(map(int, told)) == 100000 and "1" in shown
    text = (machine.directory / "logs/latest/attempt-0/rank-00000.out").read_text()
    assert text == "".join(f"{number}\n" for number in range(1, 100001))


def test_without_an_option_copies_on_stderr_are_counted_and_nothing_else(machine):
    """How many are copies is the machine's; each rank is there in any case, and once all but the first were copies."""
    fail = ("import os, sys, time; print('hello'); open(os.environ['RANK'], 'w')\n"
            "while not all(os.path.exists(str(n)) for n in range(6)): time.sleep(0.01)\n"
            "print('Traceback (most recent call last):\\n  Error: same', file=sys.stderr)")
    texts = []
    for both in (False, True) * 5:  # separately, and into one file
        extra = {"stderr": subprocess.STDOUT} if both else {}
        result = machine.run("-q", "--nproc-per-node", "6", *python_program(fail), **extra)
        assert result.code == 0 and result.stdout.count("hello\n") == 6, str(result)
        text = result.stdout if both else result.stderr
        texts.append(text)
        copies = re.findall(r"^\[\S+\] the same 2 lines as rank \d:   Error: same$", text, re.M)
        for rank in range(6):
            (machine.directory / str(rank)).unlink()
        if len(copies) == 1 and text.count("Traceback") == 1:
            break
    else:
        raise AssertionError("never folded:\n" + "\n".join(texts))
    result = machine.run("-q", "--fold=off", "--nproc-per-node", "4", "--no-python", "sh", "-c", "echo same >&2")
    assert result.stderr == "same\n" * 4, str(result)


def test_a_program_that_is_killed_loses_no_line_of_its_file(machine):
    """The process that writes the files is not ddprun's to take along."""
    program = machine.start("--logs", "logs", "--rdzv-id", "job", "--no-python", "sh", "-c", "echo written; exec sleep 600")
    assert program.popen.stdout.readline() == "written\n"  # which has passed through ddprun
    program.popen.kill()
    program.wait()
    machine.check_nothing_is_left()
    assert (machine.directory / "logs/job/attempt-0/rank-00000.out").read_text() == "written\n"


def test_ranks_that_lose_one_that_raises_are_one_traceback(machine, torch_python):
    """Gloo names the peer's port, which is another one for each of them. They ignore SIGTERM, so that all get to say so, and
    say it in one piece and at one time: on a loaded machine they notice the loss seconds apart. They end without what Python does
    at its end, where a thread of gloo may abort them."""
    script = ("import glob, os, signal, sys, time, traceback, torch, torch.distributed as dist\n"
              "def say(*error):\n    text = ''.join(traceback.format_exception(*error))\n"
              "    if dist.get_rank() != 2:\n        open(f'lost.{dist.get_rank()}', 'w').close()\n"
              "        while len(glob.glob('lost.*')) < 7: time.sleep(0.005)\n"
              "    sys.stderr.write(text)\n    sys.stderr.flush()\n    os._exit(1)\n"
              "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ndist.init_process_group('gloo')\n"
              "sys.excepthook = say  # torch has one of its own\nones = torch.ones(1)\n"
              "for step in range(5):\n    if dist.get_rank() == 2 and step == 3:\n        raise ValueError('bad batch')\n"
              "    dist.scatter(ones, 8 * [ones] if dist.get_rank() == 2 else None, 2)\n")  # all wait for rank 2 itself
    (machine.directory / "train.py").write_text(script)
    for _ in range(3):  # copies that a loaded machine brings too late are shown whole
        for lost in machine.directory.glob("lost.*"):
            lost.unlink()
        result = machine.run("-q", "--nproc-per-node", "8", "--shutdown-timeout", "60", "train.py", env={"PYTHON_EXEC": str(torch_python)})
        assert result.code == 1, str(result)
        copies = re.findall(r"^\[([\d, -]+)\] the same \d+ lines as rank \d(?: but for the port)?: RuntimeError: .*Connection closed by peer", result.stderr, re.M)
        ranks = {rank for each in copies for part in each.split(", ")
                 for rank in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)}
        whole = re.findall(r"^RuntimeError: .*Connection closed by peer", result.stderr, re.M)
        if len(ranks) >= 3 and len(whole) <= 4 and 2 not in ranks:
            break
    else:
        raise AssertionError(str(result))
    assert "ValueError: bad batch" in result.stderr, str(result)


def test_labels_colours_and_chosen_ranks(machine):
    four = ("-q", "--nproc-per-node", "4", "--ranks", "0,2-3", "--label", *SAY)
    result = machine.run(*four)
    assert sorted_lines(result.stdout) == ["[0] out 0", "[2] out 2", "[3] out 3"], str(result)
    assert sorted_lines(result.stderr) == ["[0] err 0", "[2] err 2", "[3] err 3"], str(result)
    coloured = machine.run("--label={rank}/{attempt}> ", *SAY, env={"CLICOLOR_FORCE": "1"})
    assert coloured.stdout == "\x1b[36m0/0>\x1b[0m out 0\n", str(coloured)
    assert machine.run("--label={rank}", *SAY, env={"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}).stdout == "0out 0\n"
    result = machine.run("--label={node}", *SAY)
    assert result.code == 2 and "--label has an unknown macro: '{node}'" in result.stderr, str(result)


def test_equal_tracebacks_are_one_and_files_keep_their_own(machine):
    """How many come within the moment is the machine's; every rank is there in any case, and once all were one."""
    fail = ("import os, sys, time; open(os.environ['RANK'], 'w')\n"
            "while not all(os.path.exists(str(n)) for n in range(6)): time.sleep(0.01)\n"
            "print('Traceback\\n  Error: same', file=sys.stderr)")
    for turn in range(10):
        result = machine.run("-q", "--nproc-per-node", "6", "--fold", "--logs", f"logs{turn}", *python_program(fail))
        assert result.code == 0, str(result)
        errors = sorted((machine.directory / f"logs{turn}/latest/attempt-0").glob("*.err"))
        assert [path.read_text() for path in errors] == ["Traceback\n  Error: same\n"] * 6
        if result.stderr == "[0-5] Traceback\n[0-5]   Error: same\n":
            return
        assert result.stderr.count("  Error: same\n") == result.stderr.count("Traceback\n") <= 6, str(result)
        for rank in range(6):
            (machine.directory / str(rank)).unlink()
    raise AssertionError("never folded")


def test_a_chosen_ranks_progress_bar_is_not_held_by_folding(machine):
    script = ("[ $RANK != 0 ] || { printf 'step 1\\r'; while [ ! -e seen ]; do sleep 0.05; done; printf 'step 2\\r\\n'; }; "
              "echo same")
    screen = Screen(machine, [machine.binary, "--nproc-per-node", "3", "--fold", "--no-python", "sh", "-c", script])
    screen.wait_for("step 1")
    (machine.directory / "seen").touch()
    assert screen.wait() == 0
    assert "step 2" in screen.text and screen.text.count("same") >= 1, screen.text


def test_labels_are_coloured_on_a_terminal_and_progress_bars_keep_theirs(machine):
    script = "printf ' 10%%\\r 20%%\\r100%%\\n'"
    screen = Screen(machine, [machine.binary, "--label", "--no-python", "sh", "-c", script])
    assert screen.wait() == 0
    label = "\x1b[36m[0]\x1b[0m "
    shown = re.sub(r"\x1b\[\?7[lh]", "", screen.text).replace("\r\n", "\n")  # cut at the width, and no longer
    assert shown == f"{label} 10%\r{label} 20%\r{label}100%\n", repr(screen.text)


@needs_tmux
def test_a_terminal_shows_colours_a_traceback_once_and_one_progress_bar(machine):
    """Each step waits until the screen shows the one before, so that the order is a person's."""
    (machine.directory / "worker.py").write_text("""
import os, sys, time
def wait(name):
    while not os.path.exists(name): time.sleep(0.01)
if os.environ["RANK"] == "0":
    for step in (" 10%|#", " 50%|#####", "100%|##########"):
        sys.stderr.write("\\r" + step)
        sys.stderr.flush()
        wait("go" + step[:4].strip())
    sys.stderr.write("\\n")
    open("bar", "w")
wait("bar")
wait("fail")
sys.exit("Traceback (most recent call last):\\n  Error: same" if os.environ["RANK"] != "7" else 0)
""")
    with Tmux(machine, f"{machine.binary} --label --nproc-per-node 4 --no-python {sys.executable} worker.py") as terminal:
        for step in ("10%", "50%", "100%"):
            shown = wait_until(f"the bar is at {step}", lambda: f" {step}|" in terminal.screen() and terminal.screen())
            assert shown.count("%|") == 1, shown  # drawn over, not below
            if step == "10%":
                assert "\x1b[36m[0]" in terminal.screen("-e"), terminal.screen("-e")
            (machine.directory / f"go{step}").touch()
        (machine.directory / "fail").touch()
        wait_until("the job has ended", lambda: (machine.directory / "ended").exists())
        shown = terminal.screen("-S", "-")
        folded = re.findall(r"^\[\d(?:, \d|-\d)+\] the same 2 lines as rank \d:   Error: same$", shown, re.M)
        assert folded or shown.count("Traceback") >= 1, shown
