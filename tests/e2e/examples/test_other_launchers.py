"""The batch scripts of launchers that are not here: what their last line would start, planned from what the launcher
is documented to set. The launchers that are here are run, by test_examples.py and the suites of each."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from support.programs import EXAMPLES

SLINGSHOT = {"lo": "127.0.0.1", "hsn0": "10.128.0.2", "hsn1": "10.128.1.2"}
GPUS = [{"vendor": "nvidia", "pci_address": f"0000:{bus:02x}:00.0"} for bus in (3, 0x41, 0x81, 0xc1)]


@dataclasses.dataclass
class Case:
    """The last of a launch's processes."""

    script: str
    host: str
    environment: dict[str, str]
    node_file: tuple[str, ...] = ()
    interfaces: dict[str, str] = dataclasses.field(default_factory=lambda: SLINGSHOT)
    site: str | None = None
    workers: int = 4
    last_rank: int = 7


def pbs(job: str) -> dict[str, str]:
    return {"PBS_JOBID": job, "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_NODEFILE": f"/var/spool/pbs/aux/{job}",
            "PBS_JOBCOOKIE": "0123456789ABCDEF0123456789ABCDEF", "PBS_NODENUM": "0", "PBS_TASKNUM": "1"}


def pals(rank: int, size: int, node: int, local: int, local_size: int) -> dict[str, str]:
    return {"PALS_RANKID": str(rank), "PALS_LOCAL_RANKID": str(local), "PALS_LOCAL_SIZE": str(local_size),
            "PALS_NODEID": str(node), "PALS_APID": "0f9b7c52-7f3f-4b5a-8a44-6f1b7d1e4c11", "PMI_RANK": str(rank),
            "PMI_SIZE": str(size), "PMI_LOCAL_RANK": str(local), "PMI_LOCAL_SIZE": str(local_size),
            "PMI_SHARED_SECRET": "9563473811932041", "PMI_CONTROL_PORT": "26010,26011"}


CASES = [
    Case("derecho.pbs", "deg0002", pbs("1234567.desched1") | pals(1, 2, 1, 0, 1),
         ("deg0001",) * 4 + ("deg0002",) * 4, site="derecho"),
    Case("polaris.pbs", "x3001c0s19b1n0", pbs("7.polaris-pbs-01.hsn.cm.polaris.alcf.anl.gov") | pals(7, 8, 1, 3, 4),
         tuple(f"x3001c0s{slot}b{slot % 2}n0.hsn.cm.polaris.alcf.anl.gov" for slot in (13, 19)), site="polaris",
         workers=1),
    Case("lsf.bsub", "h2", {
        "LSB_JOBID": "811", "LSB_JOBINDEX": "0", "LSB_MCPU_HOSTS": "h1 1 h2 1", "LSB_HOSTS": "h1 h2",
        "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "OMPI_COMM_WORLD_NODE_RANK": "0", "PMIX_RANK": "1",
        "PMIX_NAMESPACE": "1700000001", "PMIX_SERVER_URI2": "1700000000.1;tcp4://127.0.0.1:38181"},
         interfaces={"lo": "127.0.0.1", "eth0": "10.0.0.2"}),
    Case("flux.sh", "n2", {
        "FLUX_JOB_ID": "f3XzQ1", "FLUX_JOB_NNODES": "2", "FLUX_JOB_SIZE": "2", "FLUX_TASK_RANK": "1",
        "FLUX_TASK_LOCAL_ID": "0", "FLUX_JOB_TMPDIR": "/tmp/flux/job", "FLUX_KVS_NAMESPACE": "job-1",
        "FLUX_URI": "local:///run/flux/local", "PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "12"},
         interfaces={"lo": "127.0.0.1", "eth0": "10.0.0.2"}),
]


def snapshot_of(case: Case) -> dict:
    addresses = [{"interface": name, "address": address, "prefix_length": 24, "loopback": name == "lo"}
                 for name, address in case.interfaces.items()]
    environment = {"HOME": "/home/user", "PATH": "/usr/bin:/bin", **case.environment}
    files = {case.environment["PBS_NODEFILE"]: "\n".join(case.node_file) + "\n"} if case.node_file else {}
    return {"format": 1, "environment": environment, "files": files, "working_directory": "/home/user",
            "host": {"name": case.host, "addresses": addresses, "gpus": GPUS, "allowed_cpus": "0-63",
                     "allowed_cores": 64, "online_cpus": 128}}


def words_for_ddprun(script: str) -> list[str]:
    [line] = [line for line in (EXAMPLES / script).read_text().splitlines()
              if re.match(r"(mpiexec|mpirun|flux run) .*\bddprun ", line)]
    return shlex.split(line.split(" ddprun ", 1)[1])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.script)
def test_batch_script(binary, tmp_path: Path, case: Case):
    shutil.copy(EXAMPLES / "train_ddp.py", tmp_path)
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(json.dumps(snapshot_of(case)))
    result = subprocess.run([binary, "--snapshot", snapshot, "--dry-run=json", *words_for_ddprun(case.script)],
                            cwd=tmp_path, text=True, capture_output=True, timeout=60)
    assert result.returncode == 0, result.stderr
    plan = json.loads(result.stdout)
    assert (plan["site"] or {"name": {"value": None}})["name"]["value"] == case.site
    assert plan["world_size"]["value"] == 8
    assert len(plan["workers"]) == case.workers
    assert plan["workers"][-1]["rank"] == case.last_rank
    environment = plan["workers"][-1]["env"]
    if case.site:
        assert (environment["GLOO_SOCKET_IFNAME"], environment["NCCL_SOCKET_IFNAME"]) == ("hsn0", "hsn")
        assert environment["NCCL_CROSS_NIC"] == "1"
    if case.script == "polaris.pbs":
        assert plan["rendezvous"]["addresses"]["value"][0] == "x3001c0s13b1n0.hsn.cm.polaris.alcf.anl.gov"
