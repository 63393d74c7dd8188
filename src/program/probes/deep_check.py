# --check=deep: what each rank runs with the job's Python. Prints one line of JSON at its end.
import datetime
import json
import os
import time

result = {"device": "", "backend": "", "matmul": 0.0, "sizes": [], "rates": [], "error": ""}
MIB = 1 << 20


def measure(call, wait, least=5, seconds=0.5):
    """Seconds of one call: the best of some, after one that is not counted."""
    call()
    wait()
    best, end = float("inf"), time.perf_counter() + seconds
    while least > 0 or (time.perf_counter() < end and least > -50):
        start = time.perf_counter()
        call()
        wait()
        best, least = min(best, time.perf_counter() - start), least - 1
    return best


def check():
    import torch
    import torch.distributed as dist

    world, on_gpu = int(os.environ["WORLD_SIZE"]), torch.cuda.is_available()
    device = torch.device("cpu")
    if on_gpu:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    result["device"] = torch.cuda.get_device_name(device) if on_gpu else "CPU"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    if on_gpu:
        one = torch.randn(8192, 8192, dtype=torch.bfloat16, device=device)
        result["matmul"] = 2 * 8192 ** 3 / measure(lambda: one @ one, wait)
    if world == 1:
        return
    result["backend"] = "nccl" if on_gpu else "gloo"
    dist.init_process_group(result["backend"], timeout=datetime.timedelta(seconds=60))
    for size in (MIB, 16 * MIB, 256 * MIB) if on_gpu else (MIB // 16, MIB, 16 * MIB):
        data = torch.ones(size // 4, device=device)
        # As often on every rank: a clock of its own would let one stop before the others.
        taken = measure(lambda: dist.all_reduce(data), wait, least=8, seconds=0)
        result["sizes"].append(size)
        result["rates"].append(2 * (world - 1) / world * size / taken)
    total = torch.full((1,), float(os.environ["RANK"]), device=device)
    dist.all_reduce(total)
    if total.item() != world * (world - 1) / 2:
        raise RuntimeError(f"the sum of all ranks is {total.item():g}, not {world * (world - 1) / 2:g}")
    dist.barrier()
    dist.destroy_process_group()


try:
    check()
except BaseException as error:
    result["error"] = (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
print("\nddprun-deep-check " + json.dumps(result), flush=True)
os._exit(0)
