"""What ddprun inherits from the shell that starts it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from support import evidence
from support.ports import free_port


def test_what_a_script_started_before_exec_lives_on(binary, tmp_path):
    script = f"sleep 300 >/dev/null 2>&1 & echo $! > daemon; exec {binary} --no-python sh -c 'sleep 299 & echo $! > left'"
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          timeout=60)
    daemon, left = (int((tmp_path / name).read_text()) for name in ("daemon", "left"))
    try:
        assert done.returncode == 0, done.stderr
        assert Path(f"/proc/{daemon}").exists() and not Path(f"/proc/{left}").exists()
    finally:
        os.kill(daemon, signal.SIGKILL)


def test_a_dry_run_to_a_closed_standard_output_is_an_error(binary, tmp_path):
    done = subprocess.run(["sh", "-c", f"exec {binary} --dry-run --no-python true >&-"], cwd=tmp_path, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 125
    assert done.stderr == "ddprun: cannot write to standard output: it is closed\n"


def test_store_on_worker_s_port_is_spoken_of_once(binary, tmp_path):
    done = subprocess.run([binary, "--store", "worker", "--nproc-per-node", "2", "--no-python", "true"], cwd=tmp_path,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0
    assert done.stderr.count("another user of its host can take the port kept for --store worker") == 1, done.stderr


@pytest.fixture(scope="module")
def folder():
    """Where a user that is not root may go."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="ddprun-nobody-") as place:
        os.chmod(place, 0o755)
        yield Path(place)


@pytest.fixture(scope="module")
def program(binary, folder) -> Path:
    return Path(shutil.copy(binary, folder / "ddprun"))


@pytest.fixture
def nobody(folder):
    """Settings of a process that is not root's, for whom permissions count, and its empty home."""
    home = Path(tempfile.mkdtemp(dir=folder))
    if os.geteuid() != 0:
        return {"cwd": home, "env": surroundings(home)}
    entry = pwd.getpwnam("nobody")
    os.chown(home, entry.pw_uid, entry.pw_gid)
    return {"cwd": home, "env": surroundings(home), "user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def surroundings(home: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home)}


def run(script: str, program: Path, settings: dict) -> subprocess.CompletedProcess[str]:
    script = script.replace("$ddprun", str(program))
    return subprocess.run(["bash", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, **settings)


def two_nodes(program: Path, more: str) -> str:
    node = f"{program} --nnodes 2 --master-addr 127.0.0.1 --master-port {free_port()} --join-timeout 20 --bind none --node-rank"
    return f"{node} 0 {more} & {node} 1 {more}; second=$?; wait $!; echo codes $? $second"


def test_with_umask_777_folders_of_ddprun_s_own_are_usable_and_go_again(program, nobody, no_munge):
    done = run("umask 777; $ddprun --no-python sh -c 'umask; echo > $TORCHELASTIC_ERROR_FILE'; " +
               two_nodes(program, "--no-python true"), program, nobody)
    assert (done.stdout, evidence.without_waiting(done.stderr)) == ("0777\ncodes 0 0\n", ""), str(done)
    assert os.listdir(nobody["cwd"]) == [".ddprun"] and os.listdir(nobody["cwd"] / ".ddprun") == ["key"]
    logs = run("umask 777; exec $ddprun --log-dir logs --no-python true", program, nobody)
    assert (logs.returncode, logs.stdout) == (2, "") and "--log-dir cannot write to logs on" in logs.stderr, str(logs)


@pytest.mark.parametrize("limit", [24, 40, 64])
def test_two_nodes_with_few_open_files_work_or_say_why_not(program, nobody, limit):
    done = run(f"ulimit -n {limit}; " + two_nodes(program, "--nproc-per-node 2 --no-python sh -c 'echo rank $RANK'"), program, nobody)
    if "codes 0 0" in done.stdout:
        assert sorted(done.stdout.splitlines()) == ["codes 0 0", *(f"rank {rank}" for rank in range(4))], str(done)
    else:
        assert limit < 40, str(done)
        assert "too many open files" in done.stderr.lower() and "ulimit -n" in done.stderr, str(done)
    assert "internal error" not in done.stderr


def test_a_limit_of_file_sizes_kills_neither_ddprun_nor_the_workers_that_write_through_it(program, nobody):
    lines = "for i in $(seq 400); do printf %060d\\\\n $i; done; echo end >&2"
    done = run(f"ulimit -f 8; $ddprun --no-python sh -c '{lines}' > big; echo $?", program, nobody)
    assert done.stdout == "125\n" and "end" in done.stderr.splitlines(), str(done)
    assert "standard output on" in done.stderr and "is incomplete: file too large\n" in done.stderr, str(done)
    assert (nobody["cwd"] / "big").stat().st_size == 8192
    failed = run(f"ulimit -f 8; $ddprun --no-python sh -c '{lines}; exit 7' > big; echo $?", program, nobody)
    assert failed.stdout == "7\n" and "is incomplete: file too large\n" in failed.stderr, str(failed)


def test_a_home_that_cannot_be_written_to_and_has_no_key_yet_is_named(program, nobody, no_munge):
    nobody["cwd"].joinpath("home").mkdir(mode=0o555)
    nobody["env"]["HOME"] = str(nobody["cwd"] / "home")
    done = run(two_nodes(program, "--no-python true"), program, nobody)
    assert done.stdout == "codes 125 125\n", str(done)
    sentence = f"ddprun: cannot create the key file {nobody['env']['HOME']}/.ddprun/key: permission denied\nhint: name another place with --key-file\n"
    assert done.stderr == 2 * sentence, str(done)


def test_a_ddprun_that_a_worker_starts_by_hand_has_its_own_launch(binary, tmp_path):
    show = "echo $1 $RANK of $WORLD_SIZE in $GROUP_WORLD_SIZE at $MASTER_PORT by $DDPRUN_LAUNCH_ID $TORCHELASTIC_RUN_ID"
    (tmp_path / "show").write_text(show)
    (tmp_path / "outer").write_text(f"sh show outer\n[ $RANK = 0 ] || exit 0\nexec {binary} --nproc-per-node 2 --no-python sh show inner\n")
    done = subprocess.run([binary, "--nproc-per-node", "3", "--no-python", "sh", "outer"], cwd=tmp_path, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 0, str(done)
    assert sorted(line[:6] for line in lines) == [
        *(["inner", str(rank), "of", "2", "in", "1"] for rank in range(2)),
        *(["outer", str(rank), "of", "3", "in", "1"] for rank in range(3))]
    for column in (7, 9, 10):  # one port and name for each launch
        assert len({(line[0], line[column]) for line in lines}) == len({line[column] for line in lines}) == 2, str(done)
