"""--stage: files of the shared file system are copied to each host, from host to host, and the workers use the copy."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys

import pytest

from support import evidence
from support.hosts import wait_until
from support.manual import as_text, codes, start, start_all, wait_all

SHOW = """import os, socket, sys
names = "VIRTUAL_ENV", "PATH", "PYTHONPATH", "DDPRUN_STAGED"
print(socket.gethostname(), sys.prefix, sys.executable, *(os.environ.get(name, "-") for name in names), flush=True)
"""
IMAGE_SIZE = 1500 << 20
COPIES = "/dev/shm/ddprun-stage-0"


@pytest.fixture
def venv(directory):
    path = directory / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
    site = next((path / "lib").glob("python3*/site-packages"))
    (site / "marker_module.py").write_text("place = __file__\n")
    script = path / "bin" / "own-script"
    script.write_text(f"#!{path}/bin/python\nimport sys, marker_module\nprint(sys.prefix, marker_module.place)\n")
    script.chmod(0o755)
    return path


@pytest.fixture
def clean(hosts):
    yield
    for name in "abcd":
        hosts[name].run(["rm", "-rf", COPIES])


def environment(venv, hosts):
    return {"VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:{hosts.environment['PATH']}", "PYTHONPATH": f"{venv}/extra:/other"}


def left(hosts, names="abcd") -> list[str]:
    return [line for name in names
            for line in hosts[name].run(["sh", "-c", f"ls -A {COPIES} 2>/dev/null"]).stdout.split()]


def copies_on(hosts, name: str) -> str:
    return hosts[name].run(["sh", "-c", f"ls {COPIES} 2>/dev/null"]).stdout


def test_a_venv_is_used_from_the_copy_on_every_host_and_removed_at_the_end(hosts, directory, key, venv, clean):
    script = directory / "show.py"
    script.write_text(SHOW)
    results = wait_all(start_all(hosts, "--key-file", key, "--nproc-per-node", "2", "-v", "--stage", str(venv), str(script), nodes=4,
                                 env=environment(venv, hosts)))
    assert codes(results) == [0] * 4, as_text(results)
    for name, result in zip("abcd", results):
        lines = result.stdout.split("\n")[:-1]
        assert len(lines) == 2, str(result)
        for line in lines:
            host, prefix, executable, variable, path, python_path, staged = line.split(" ")
            assert re.fullmatch(COPIES + r"/venv-[0-9a-f]{16}/venv", prefix), line
            assert (host, variable, staged) == (name, prefix, prefix), line
            assert executable.startswith(prefix + "/bin/python"), line
            assert path.startswith(prefix + "/bin:") and f"{prefix}/extra:/other" in python_path, line
    sources = [re.search(r"is staged on \w in \S+: .* files, (.*) in ", result.stderr).group(1) for result in results]
    assert sources == ["read on a", "from a", "from a", "from b"], as_text(results)
    assert left(hosts) == []


def test_scripts_of_the_venv_start_the_copy(hosts, directory, key, venv, clean):
    results = wait_all(start_all(hosts, "--key-file", key, "--stage", str(venv), "--no-python", str(venv / "bin" / "own-script")))
    assert codes(results) == [0, 0], as_text(results)
    for result in results:
        prefix, module = result.stdout.split()
        assert prefix.startswith(COPIES) and module.startswith(prefix + "/lib/"), str(result)


def test_a_host_without_room_uses_the_original_and_says_so(hosts, directory, key, clean):
    data = directory / "data"
    data.mkdir()
    (data / "big").write_bytes(b"x" * (8 << 20))
    hosts["b"].check(["sh", "-c", "mkdir /tmp/small && mount -t tmpfs -o size=4m tmpfs /tmp/small"])
    for name in "acd":
        hosts[name].check(["mkdir", "/tmp/small"])
    try:
        results = wait_all(start_all(hosts, "--key-file", key, "--stage", str(data), "--stage-to", "/tmp/small", "--no-python",
                                     "sh", "-c", "echo $(hostname) $DDPRUN_STAGED; ls $DDPRUN_STAGED", nodes=4))
        assert codes(results) == [0] * 4, as_text(results)
        for name, result in zip("abcd", results):
            place = str(data) if name == "b" else r"/tmp/small/ddprun-stage-0/data-[0-9a-f]{16}/data"
            assert re.fullmatch(f"{name} {place}\nbig\n", result.stdout), str(result)
        said = f"ddprun: {data} is not staged on b: /tmp/small has 4 MiB free, 72 MiB are needed; workers use the original"
        assert said in results[1].stderr, str(results[1])
        assert not any("is not staged" in results[other].stderr for other in (0, 2, 3)), as_text(results)
    finally:
        hosts["b"].run(["umount", "/tmp/small"])
        for name in "abcd":
            hosts[name].run(["rm", "-rf", "/tmp/small"])


def test_a_place_that_forbids_execution_is_not_used(hosts, directory, key, venv, clean):
    hosts["a"].check(["sh", "-c", "mkdir /tmp/noexec && mount -t tmpfs -o noexec tmpfs /tmp/noexec"])
    try:
        result = start(hosts, 0, "--key-file", key, "--stage", str(venv), "--stage-to", "/tmp/noexec", "--no-python",
                       "sh", "-c", "echo $DDPRUN_STAGED", nodes=1).wait()
        assert (result.code, result.stdout) == (0, f"{venv}\n"), str(result)
        assert f"{venv} is not staged on a: /tmp/noexec is mounted noexec; workers use the original" in result.stderr, str(result)
    finally:
        hosts["a"].run(["umount", "/tmp/noexec"])


def test_a_kept_copy_is_found_checked_and_made_anew_where_it_is_damaged(hosts, directory, key, venv, clean):
    def run():
        results = wait_all(start_all(hosts, "--key-file", key, "-v", "--stage", str(venv), "--stage-keep", "--no-python", "true"))
        assert codes(results) == [0, 0], as_text(results)
        return [re.search(r"is staged on \w in \S+: .* files, (.*) in ", result.stderr).group(1) for result in results]

    assert run() == ["read on a", "from a"]
    assert run() == ["found on a", "found on b"]
    hosts["b"].check(["sh", "-c", f"echo bad > {COPIES}/venv-*/venv/pyvenv.cfg.new; rm {COPIES}/venv-*/venv/pyvenv.cfg.new;"
                      f"printf X | dd of=$(echo {COPIES}/venv-*/venv/lib/python3*/site-packages/marker_module.py) conv=notrunc"])
    assert run() == ["found on a", "from a"]
    (venv / "new-file").write_text("new")
    assert run() == ["read on a", "from a"]
    assert len(left(hosts, "a")) == len(left(hosts, "b")) == 1  # the one that it replaces is gone


def test_several_agents_of_a_host_share_one_copy(hosts, directory, key, clean):
    data = directory / "data"
    data.mkdir()
    (data / "file").write_text("x")
    script = f"echo $DDPRUN_STAGED; ls {COPIES} | wc -l; touch {directory}/seen.$RANK; while [ $(ls {directory}/seen.* | wc -l) -lt 4 ]; do sleep 0.05; done"
    agents = [hosts["ab"[rank // 2]].popen(
        ["ddprun", "--key-file", key, "--stage", str(data), "--no-python", "sh", "-c", script],
        env={"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": str(rank % 2),
             "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "MASTER_ADDR": hosts["a"].address, "MASTER_PORT": "29500"}) for rank in range(4)]
    results = wait_all(agents)
    assert codes(results) == [0] * 4, as_text(results)
    places = [result.stdout.split() for result in results]
    assert all(count == "1" and place.startswith(COPIES) for place, count in places), as_text(results)
    assert left(hosts) == []


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_that_is_ended_by_a_signal_leaves_no_copy(hosts, directory, key, ending, clean):
    data = directory / "data"
    data.mkdir()
    (data / "file").write_text("x")
    agent = start(hosts, 0, "--key-file", key, "--stage", str(data), "--no-python", "sh", "-c", f"touch {directory}/up; sleep 600", nodes=1)
    wait_until("the worker runs", (directory / "up").exists)
    assert copies_on(hosts, "a") != ""
    agent.send_signal(ending)
    agent.wait()
    wait_until("the copy is gone", lambda: copies_on(hosts, "a") == "")


def test_what_a_killed_job_has_left_is_removed_by_the_next_one(hosts, directory, key, clean):
    data = directory / "data"
    data.mkdir()
    (data / "file").write_text("x")
    start(hosts, 0, "--key-file", key, "--stage", str(data), "--no-python", "sh", "-c", f"touch {directory}/up; sleep 600", nodes=1)
    wait_until("the worker runs", (directory / "up").exists)
    doomed = [pid for pid, line in hosts["a"].processes().items() if "sleep" in line or "--stage" in line or "reaper" in line]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # all at once, as a cgroup is killed
        for pid in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    wait_until("all has ended", lambda: not any("--stage" in line for line in hosts["a"].processes().values()))
    assert copies_on(hosts, "a") != ""
    (directory / "other").write_text("y")
    result = start(hosts, 0, "--key-file", key, "--stage", str(directory / "other"), "--no-python", "sh", "-c", f"ls {COPIES}",
                   nodes=1).wait()
    assert result.code == 0 and re.fullmatch(r"other-\w+\n", result.stdout), str(result)


def big_file(directory):
    """Some contents, and then so many zeros that sending them takes a moment, and no room."""
    path = directory / "image.sqsh"
    with path.open("wb") as file:
        file.write(b"x" * (4 << 20))
        file.truncate(IMAGE_SIZE)
    return path


def test_a_host_whose_parent_dies_gets_the_rest_from_another(hosts, directory, key, clean):
    image = big_file(directory)
    command = ["sh", "-c", "echo $(hostname) $DDPRUN_STAGED $(stat -c %s $DDPRUN_STAGED)"]
    agents = [start(hosts, node, "--key-file", key, "-v", "--host-timeout", "7", "--rdzv-conf", "last_call_timeout=60",
                    "--stage-to", "/dev/shm", "--stage", str(image), "--no-python", *command, nodes="3:4") for node in range(4)]
    wait_until("d has a part", lambda: hosts["d"].run(
        ["sh", "-c", f"[ $(du -s {COPIES}/image.sqsh-*/image.sqsh | cut -f1) -ge 4096 ]"]).code == 0)
    hosts["b"].unplug()
    try:
        results = wait_all([agents[node] for node in (0, 2, 3)])
        assert codes(results) == [0] * 3, as_text(results)
        for name, result in zip("acd", results):
            line = result.stdout.strip().split("\n")[-1]
            assert re.fullmatch(rf"{name} {COPIES}/image.sqsh-\w+/image.sqsh {IMAGE_SIZE}", line), str(result)
        assert "asking a instead of b" in results[2].stderr, str(results[2])
    finally:
        agents[1].kill()
        hosts["b"].plug_in_again()
        wait_until("b has ended", lambda: not any("--stage" in line for line in hosts["b"].processes().values()))


def test_a_spare_that_takes_a_place_has_its_copy(hosts, directory, key, clean):
    data = directory / "data"
    data.mkdir()
    (data / "file").write_text("x")
    command = ["sh", "-c", f"echo $DDPRUN_STAGED > {directory}/$TORCHELASTIC_RESTART_COUNT.$(hostname); trap 'exit 0' TERM;"
               f"until [ -e {directory}/end ]; do sleep 0.05; done"]
    agents = [start(hosts, node, "--key-file", key, "--spares", "1", "--rdzv-conf", "last_call_timeout=20", "--stage", str(data),
                    "--no-python", *command, nodes=3) for node in range(3)]
    wait_until("both run", lambda: all((directory / f"0.{name}").exists() for name in "ab"))
    agents[1].send_signal(signal.SIGKILL)
    wait_until("both run again", lambda: all((directory / f"1.{name}").exists() for name in "ac"))
    (directory / "end").touch()
    results = wait_all([agents[0], agents[2]])
    assert codes(results) == [0, 0], as_text(results)
    assert (directory / "1.c").read_text().startswith(COPIES), as_text(results)


def test_a_tar_is_unpacked(hosts, directory, key, clean):
    (directory / "tree").mkdir()
    (directory / "tree" / "file").write_text("text\n")
    subprocess.run(["tar", "--zstd", "-cf", directory / "tree.tar.zst", "-C", directory, "tree"], check=True)
    results = wait_all(start_all(hosts, "--key-file", key, "--stage", str(directory / "tree.tar.zst"), "--no-python",
                                 "sh", "-c", "cat $DDPRUN_STAGED/tree/file"))
    assert codes(results) == [0, 0] and [result.stdout for result in results] == ["text\n"] * 2, as_text(results)


def test_a_damaged_tar_is_used_where_it_is(hosts, directory, key, clean):
    (directory / "tree.tar").write_text("no tar")
    result = start(hosts, 0, "--key-file", key, "--stage", str(directory / "tree.tar"), "--no-python", "sh", "-c", "echo $DDPRUN_STAGED",
                   nodes=1).wait()
    assert (result.code, result.stdout) == (0, f"{directory}/tree.tar\n"), str(result)
    assert "it cannot be unpacked: tar exits with 2: tar: This does not look like a tar archive; workers use the original" in result.stderr, \
        str(result)
    assert left(hosts) == []


def test_the_folder_that_stage_to_names_is_made_where_its_parent_is_there(hosts, directory, key, clean):
    (directory / "file").write_text("text\n")

    def show_copy(folder: str):
        return start(hosts, 0, "--key-file", key, "--stage", str(directory / "file"), "--stage-to", folder, "--no-python",
                     "sh", "-c", "echo $DDPRUN_STAGED", nodes=1).wait()

    made = show_copy("/tmp/made")
    assert made.code == 0 and made.stdout.startswith("/tmp/made/ddprun-stage-"), str(made)
    hosts["a"].check(["rmdir", "/tmp/made"])  # the copy is gone
    missing = show_copy("/tmp/missing/folder")
    assert (missing.code, missing.stdout) == (0, f"{directory}/file\n"), str(missing)
    assert (f"{directory}/file is not staged on a: /tmp/missing/folder cannot be used: no such file or directory; workers use the original\n"
            "hint: create that folder on each node, or name another one with --stage-to\n") in missing.stderr, str(missing)


def test_the_image_of_a_container_is_the_copy(hosts, directory, key, clean):
    image = directory / "image.sif"
    image.write_text("an image\n")
    container = directory / "apptainer"
    container.write_text("#!/bin/sh\necho \"$1 $2\"; cat $2\n")
    container.chmod(0o755)
    result = start(hosts, 0, "--key-file", key, "--stage", str(image), "--container", f"{container} exec {image}", "--no-python", "prog",
                   nodes=1).wait()
    assert result.code == 0 and re.fullmatch(rf"exec {COPIES}/image.sif-\w+/image.sif\nan image\n", result.stdout), str(result)


def test_a_path_that_is_not_there_is_an_error_before_anything_starts(hosts, directory, key):
    results = wait_all(start_all(hosts, "--key-file", key, "--stage", "/nonexistent/venv", "--no-python", "true"))
    assert codes(results) == [127, 127], as_text(results)
    assert "cannot stage /nonexistent/venv on a: no such file or directory" in results[0].stderr, as_text(results)


def test_a_file_that_is_another_than_it_was_leaves_all_hosts_with_the_original_and_one_says_so(hosts, key, clean):
    odd = "/sys/kernel/mm/transparent_hugepage/enabled"  # longer by its status than it is
    results = wait_all(start_all(hosts, "--key-file", key, "--stage", odd, "--no-python", "sh", "-c", "echo $DDPRUN_STAGED", nodes=3))
    assert codes(results) == [0] * 3 and [result.stdout for result in results] == [f"{odd}\n"] * 3, as_text(results)
    said = f"{odd} is not staged on a: {odd} has changed while it was copied; workers use the original"
    assert said in results[0].stderr, as_text(results)
    assert evidence.times_said(as_text(results), "is not staged") == 1, as_text(results)
    assert left(hosts) == []
