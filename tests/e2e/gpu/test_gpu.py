"""Where there is an NVIDIA GPU and a torch for it: what ddprun sees of it, against nvidia-smi, and training on it."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from support import programs

TRAIN = """
import os, sys, time, torch, torch.distributed as dist
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
one = torch.ones(1 << 20, device=device)
dist.all_reduce(one)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256, device=device), device_ids=[device])
for _ in range(20):
    model(torch.randn(64, 256, device=device)).square().mean().backward()
torch.cuda.synchronize()
print("uuid", torch.cuda.get_device_properties(device).uuid, "sum", one[0].item(), flush=True)
if sys.argv[1:] == ["wait"]:
    open(f"trained.{os.environ['RANK']}", "w").close()
    while not os.path.exists("seen"):
        time.sleep(0.05)
dist.destroy_process_group()
"""


def query(fields: str) -> list[list[str]]:
    told = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"], capture_output=True,
                          text=True, check=True).stdout
    return [[word.strip() for word in line.split(",")] for line in told.splitlines()]


@pytest.fixture(scope="module", autouse=True)
def gpus() -> list[list[str]]:
    if shutil.which("nvidia-smi") is None:
        pytest.skip("the GPU tests need an NVIDIA GPU: there is no nvidia-smi")
    probe = subprocess.run([programs.torch_python(), "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())"])
    if probe.returncode != 0:
        pytest.skip(f"the GPU tests need a torch that sees the GPU: {programs.torch_python()} has none")
    return query("index,uuid,pci.bus_id,name")


def plan(machine, **environment) -> dict:
    result = machine.run("--dry-run=json", "train.py", env=environment)
    assert result.code == 0, str(result)
    return json.loads(result.stdout)


def test_the_gpus_are_those_of_nvidia_smi(machine, gpus):
    result = machine.run("--capture", "machine.json")
    assert result.code == 0, str(result)
    seen = json.loads((machine.directory / "machine.json").read_text())["host"]["gpus"]
    assert sorted((gpu["uuid"], gpu["model"]) for gpu in seen) == sorted((uuid, name) for _, uuid, _, name in gpus)
    # nvidia-smi writes the domain with eight digits.
    assert sorted(gpu["pci_address"] for gpu in seen) == sorted(bus[4:].lower() for _, _, bus, _ in gpus)


@pytest.mark.parametrize("order", ["PCI_BUS_ID", "FASTEST_FIRST"])
def test_a_worker_for_each_gpu_in_either_order(machine, gpus, order):
    assert len(plan(machine, CUDA_DEVICE_ORDER=order)["workers"]) == len(gpus)


def test_one_is_chosen_by_its_uuid(machine, gpus):
    (machine.directory / "train.py").write_text(TRAIN)
    uuid = gpus[-1][1]
    result = machine.run("train.py", env={"CUDA_VISIBLE_DEVICES": uuid, "PYTHON_EXEC": str(programs.torch_python())})
    assert result.code == 0, str(result)
    assert f"uuid {uuid.removeprefix('GPU-')} sum 1.0" in result.stdout, str(result)


def test_a_training_with_nccl_on_all_gpus(machine, gpus):
    (machine.directory / "train.py").write_text(TRAIN)
    result = machine.run("train.py", env={"PYTHON_EXEC": str(programs.torch_python())})
    assert result.code == 0, str(result)
    assert sorted(line.split()[1] for line in result.stdout.splitlines() if line.startswith("uuid")) == sorted(
        uuid.removeprefix("GPU-") for _, uuid, _, _ in gpus), str(result)
    assert result.stdout.count(f"sum {float(len(gpus))}") == len(gpus), str(result)


def test_status_shows_the_memory_that_nvidia_smi_shows(machine, gpus):
    (machine.directory / "train.py").write_text(TRAIN)
    program = machine.start("train.py", "wait", env={"PYTHON_EXEC": str(programs.torch_python())})
    try:
        machine.wait_for_files(*(f"trained.{rank}" for rank in range(len(gpus))))
        [job] = json.loads(machine.run("--status=json").stdout)
        shown = [worker["gpu_memory_bytes"] for node in job["nodes"] for worker in node["workers"]]
        by_smi = [int(used) << 20 for [used] in query("memory.used")]
    finally:
        (machine.directory / "seen").touch()
    assert program.wait().code == 0
    assert all(abs(one - other) <= 64 << 20 for one, other in zip(sorted(shown), sorted(by_smi), strict=True)), (shown, by_smi)


def test_memory_that_is_used_up_gets_its_hint(machine):
    (machine.directory / "train.py").write_text("import torch\n[torch.empty(1 << 34, device='cuda') for _ in range(99)]\n")
    result = machine.run("--nproc-per-node", "1", "train.py", env={"PYTHON_EXEC": str(programs.torch_python())})
    assert result.code == 1 and "hint: the memory of the GPU was used up" in result.stderr, str(result)
