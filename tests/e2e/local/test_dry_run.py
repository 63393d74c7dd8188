"""--dry-run, --capture and --snapshot of the program itself, on this machine and without starting anything."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

# The second task of a step of two hosts; variables of the test's own environment stay out.
STEP = {
    "PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "29", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": "1", "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0", "PET_NPROC_PER_NODE": "3", "API_KEY": "do-not-tell",
}


def run(binary: Path, *arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([binary, *arguments], env=environment, capture_output=True, text=True, timeout=60)


@pytest.fixture
def captured(binary, tmp_path) -> Path:
    """A snapshot of STEP, as the host n2 would have written it."""
    done = run(binary, "--capture", "-", environment=STEP)
    assert done.returncode == 0, done.stderr
    assert "do-not-tell" not in done.stdout
    snapshot = json.loads(done.stdout)
    snapshot["host"]["name"] = "n2"
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(snapshot))
    return path


@pytest.mark.parametrize("place", [["--node-rank", "1", "--master-addr", "10.9.9.9"],
                                   ["--rdzv-endpoint", "10.9.9.9:29500"]], ids=["static", "by-arrival"])
def test_each_host_at_which_somebody_types_shows_its_plan(binary, place):
    done = run(binary, "--dry-run", "--nnodes", "2", *place, "--no-python", "true", environment={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0 and "10.9.9.9" in done.stdout, done.stderr


def test_a_capture_goes_to_a_file_or_to_standard_output(binary, tmp_path):
    path = tmp_path / "snapshot.json"
    done = run(binary, "--capture", str(path), environment=STEP)
    assert done.returncode == 0 and done.stdout == "", done.stderr
    assert "ddprun: wrote a snapshot of this host" in done.stderr
    printed = json.loads(run(binary, "--capture", "-", environment=STEP).stdout)
    assert json.loads(path.read_text())["environment"] == printed["environment"]


def test_a_capture_holds_no_secret_says_where_they_were_and_is_the_users_alone(binary, tmp_path):
    secret = "t0ps3cret"
    planted = {"SLURM_JOB_COMMENT": secret, "FLUX_DB_PASS": secret, "OMPI_MCA_x": f"Bearer {secret}",
               "NCCL_x": json.dumps({"api_key": secret}), "SLURM_x": f"https://s/o?sig={secret}"}
    path = tmp_path / "snapshot.json"
    done = run(binary, "--capture", str(path), "--no-python", "true", "--auth", secret, "-p", secret,
               environment=STEP | planted)
    assert done.returncode == 0, done.stderr
    text = path.read_text()
    assert secret not in text and path.stat().st_mode & 0o777 == 0o600
    names = json.loads(text)["removed_secrets"]
    assert set(names) == {"arguments", *planted}
    assert f"removed the secrets in {', '.join(names)}" in done.stderr


def test_a_snapshot_has_its_own_variables_and_is_printed_wherever_it_came_from(binary, captured):
    here = {"PATH": "/usr/bin:/bin", "PET_NPROC_PER_NODE": "7", "OMP_NUM_THREADS": "5"}
    done = run(binary, "--snapshot", str(captured), "--dry-run=json", "--no-python", "true", environment=here)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["rendezvous"]["role"] == "member"
    assert [worker["rank"] for worker in plan["workers"]] == [3, 4, 5]
    assert plan["world_size"] == {"value": 6, "origin": "2 nodes, if all have 3 workers"}
    assert "OMP_NUM_THREADS" in plan["workers"][0]["env"]
    text = run(binary, "--snapshot", str(captured), "--no-python", "true", environment=here)
    assert text.returncode == 0, text.stderr
    assert f"what would happen on n2, by its snapshot {captured.name}" in " ".join(text.stdout.split()), text.stdout


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_env_lines_set_up_a_shell_without_a_script(binary, shell):
    done = subprocess.run(
        [shell, "-c", 'eval "$("$1" --dry-run=env)" && printf "%s\\n" "$RANK" "$WORLD_SIZE" "$MASTER_ADDR" '
                      '"$TORCHELASTIC_RUN_ID"', shell, str(binary)],
        env={"PATH": "/usr/bin:/bin", "PET_NPROC_PER_NODE": "2", "PET_RDZV_ID": "it's\ta 'name'"},
        capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["0", "2", "127.0.0.1", "it's\ta 'name'"]


# What starts nothing, where something is wrong with it and where not.
LOOKS = [["--dry-run", "--gpus-per-worker", "3"], ["--dry-run"], ["--dry-run=json", "--rdzv-endpoint", "master.example:29500"],
         ["--print-config"], ["--help"], ["--print-completion", "bash"], ["--dry-run", "--no-such-option"], ["--version"]]


@pytest.fixture
def refused_network(tmp_path):
    """Runs a program whose connections are all refused; the addresses that it tried."""
    if shutil.which("strace") is None or subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "true"]).returncode != 0:
        pytest.skip("needs strace, and ptrace to be allowed")
    path = tmp_path / "calls"

    def run(command: list[str], environment: dict[str, str]) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        traced = ["strace", "-f", "-qq", "-o", str(path), "-e", "trace=connect,sendto,sendmsg,sendmmsg",
                  "--inject=connect:error=ECONNREFUSED"]
        done = subprocess.run([*traced, *command], env=environment, capture_output=True, text=True, timeout=60)
        calls = [line for line in path.read_text().splitlines() if re.search(r"AF_(INET|UNIX)", line)]
        return done, calls
    return run


@pytest.mark.parametrize("options", LOOKS, ids=" ".join)
@pytest.mark.parametrize("place", [["--nnodes", "2", "--node-rank", "1", "--master-addr", "10.9.9.9"],
                                   ["--nnodes", "2", "--rdzv-endpoint", "master.example:29500"]], ids=["static", "by-arrival"])
def test_who_only_looks_connects_to_nobody_and_looks_up_no_name(binary, refused_network, options, place):
    command = [str(binary), *options, *([] if "--rdzv-endpoint" in options and "--rdzv-endpoint" in place else place),
               "--no-python", "true"]
    done, calls = refused_network(command, {"PATH": "/usr/bin:/bin", "DDPRUN_FRONT_END": "10.9.9.9:4000/8f3c"})
    assert not calls, f"{calls}\n{done.stderr}"
    wrong = "--gpus-per-worker" in options or "--no-such-option" in options
    assert done.returncode == (2 if wrong else 0), done.stderr
    assert "wait" not in done.stderr, done.stderr


def test_a_snapshot_with_an_error_tells_nobody(binary, refused_network, captured):
    done, calls = refused_network([str(binary), "--snapshot", str(captured), "--gpus-per-worker", "5", "--no-python", "true"],
                                  {"PATH": "/usr/bin:/bin"})
    assert done.returncode != 0 and not calls, f"{calls}\n{done.stderr}"


def test_a_plan_says_that_it_does_not_look_up_the_coordinator(binary):
    done = run(binary, "--dry-run", "--nnodes", "2", "--rdzv-endpoint", "master.example:29500", "--no-python", "true",
               environment={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    assert "--dry-run does not look up master.example: if it is a name of " in done.stdout + done.stderr, done.stdout + done.stderr
