"""Runs in a Python with torch: N forked ranks meet by gloo, their store behind a meter. Prints one line of JSON.

    gloo_switches_ranks.py measure RANKS PORT     seconds and CPU seconds of each step, what the store was asked for it
    gloo_switches_ranks.py break CASE PORT        how a case of BREAKS ends: seconds, and what rank 0 says

PORT is that of a store without clients. Switches are in the environment.
"""

from __future__ import annotations

import collections
import datetime
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
from typing import NamedTuple

import torch
import torch.distributed as dist

# By TCPStore's number of the request: a byte, then texts ("s": 8 bytes of length), a list of texts ("l") or numbers.
REQUESTS = {0: ("VALIDATE", "4"), 1: ("SET", "ss"), 2: ("COMPARE_SET", "sss"), 3: ("GET", "s"), 4: ("ADD", "s8"), 5: ("CHECK", "l"),
            6: ("WAIT", "l"), 7: ("GET_NUM_KEYS", ""), 8: ("DELETE", "s"), 9: ("APPEND", "ss"), 10: ("MULTI_GET", "l"),
            12: ("CANCEL_WAIT", ""), 13: ("PING", "4")}
LOSS_TIMEOUT = 6.0  # seconds: of the groups of BREAKS
STEP_DEADLINE = 120.0  # seconds
DEADLINE = 25.0  # seconds: more than any of them may wait


class Requests:
    """Counts those in the bytes of one connection."""

    def __init__(self, counts: collections.Counter) -> None:
        self.bytes = bytearray()
        self.counts = counts

    def take(self, received: bytes) -> None:
        self.bytes += received
        at = 0
        while (end := self.end_of_request(at)) is not None:
            self.counts[REQUESTS[self.bytes[at]][0]] += 1
            at = end
        del self.bytes[:at]

    def end_of_request(self, at: int) -> int | None:
        if at >= len(self.bytes):
            return None
        at += 1
        for kind in REQUESTS[self.bytes[at - 1]][1]:
            if kind.isdigit():
                at += int(kind)
                continue
            texts = 1
            if kind == "l":
                if at + 8 > len(self.bytes):
                    return None
                texts = struct.unpack_from("<Q", self.bytes, at)[0]
                at += 8
            for _ in range(texts):
                if at + 8 > len(self.bytes):
                    return None
                at += 8 + struct.unpack_from("<Q", self.bytes, at)[0]
        return at if at <= len(self.bytes) else None


class Meter:
    """A process between the ranks and the store."""

    def __init__(self, store_port: int) -> None:
        self.pipe, theirs = socket.socketpair()
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = listener.getsockname()[1]
        if os.fork() == 0:
            self.pipe.close()
            self.serve(listener, theirs, store_port)
        theirs.close()
        listener.close()

    def serve(self, listener: socket.socket, asked: socket.socket, store_port: int) -> None:
        counts: collections.Counter = collections.Counter()
        peers: dict[socket.socket, tuple[socket.socket, Requests | None]] = {}
        with selectors.DefaultSelector() as ready:
            for each in (listener, asked):
                ready.register(each, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fileobj is asked:
                        if not asked.recv(1):
                            os._exit(0)
                        asked.sendall(json.dumps(counts).encode() + b"\n")
                    elif key.fileobj is listener:
                        client, store = listener.accept()[0], socket.create_connection(("127.0.0.1", store_port))
                        peers[client], peers[store] = (store, Requests(counts)), (client, None)
                        for each in (client, store):
                            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                            ready.register(each, selectors.EVENT_READ)
                    elif key.fileobj in peers:
                        self.pass_on(key.fileobj, peers, ready, counts)

    @staticmethod
    def pass_on(source: socket.socket, peers: dict, ready: selectors.BaseSelector, counts: collections.Counter) -> None:
        target, requests = peers[source]
        try:
            received = source.recv(1 << 18)
            if received:
                target.sendall(received)
        except OSError:
            received = b""
        if requests:
            requests.take(received)
        counts["bytes to the store" if requests else "bytes to ranks"] += len(received)
        if not received:
            for each in (source, target):
                del peers[each]
                ready.unregister(each)
                each.close()

    def read(self) -> collections.Counter:
        self.pipe.sendall(b"?")
        said = b""
        while not said.endswith(b"\n"):
            said += self.pipe.recv(1 << 16)
        return collections.Counter(json.loads(said))


def become_rank(rank: int, ranks: int, port: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks),
                      TORCHELASTIC_USE_AGENT_STORE="True", GLOO_SOCKET_IFNAME="lo", TORCH_CPP_LOG_LEVEL="ERROR")
    torch.set_num_threads(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # torch 2.8 and 2.9 say on standard output which ranks are connected
        os.dup2(nowhere, stream)


class Turn(NamedTuple):
    begun: float
    ended: float
    cpu: float


STEPS = {"init_process_group": lambda: dist.init_process_group("gloo"),
         "new_group": dist.new_group,
         "first all_reduce": lambda: dist.all_reduce(torch.ones(1)),
         "first all_to_all": lambda: dist.all_to_all_single(torch.zeros(dist.get_world_size()), torch.ones(dist.get_world_size()))}


def take_steps(orders: socket.socket) -> None:
    for step in STEPS.values():
        orders.recv(1)
        begun, cpu = time.time(), time.process_time()
        step()
        orders.sendall(struct.pack("<ddd", begun, time.time(), time.process_time() - cpu))
    orders.recv(1)  # destroy_process_group() sometimes waits for ever in gloo's Loop::unregisterDescriptor


def measure(ranks: int, store_port: int) -> dict:
    meter = Meter(store_port)
    orders, processes = [], []
    for rank in range(ranks):
        ours, theirs = socket.socketpair()
        process = os.fork()
        if process == 0:
            become_rank(rank, ranks, meter.port)
            take_steps(theirs)
            os._exit(0)
        theirs.close()
        ours.settimeout(STEP_DEADLINE)
        orders.append(ours)
        processes.append(process)
    try:
        return {"torch": torch.__version__, "steps": order_steps(orders, meter)}
    except (OSError, struct.error):
        sys.exit(f"a rank has failed or has not ended a step within {STEP_DEADLINE:.0f} s")
    finally:
        for process in processes:
            os.kill(process, signal.SIGKILL)


def order_steps(orders: list[socket.socket], meter: Meter) -> dict:
    before = meter.read()
    steps = {}
    for name in STEPS:
        for each in orders:
            each.sendall(b"!")
        turns = [Turn(*struct.unpack("<ddd", each.recv(24, socket.MSG_WAITALL))) for each in orders]
        now = meter.read()
        steps[name] = {"seconds": max(turn.ended for turn in turns) - min(turn.begun for turn in turns),
                       "cpu": sum(turn.cpu for turn in turns), "asked": now - before}
        before = now
    return steps


# ---- what the switches break: each is run by every one of four ranks


def seconds(count: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=count)


def group_without_one(rank: int) -> None:
    """new_group(timeout=2 s), which rank 1 never calls"""
    dist.init_process_group("gloo", timeout=seconds(LOSS_TIMEOUT))
    if rank == 1:
        time.sleep(DEADLINE)
    dist.new_group(timeout=seconds(2))
    dist.barrier()


def loss_before_use(rank: int) -> None:
    """rank 1 ends between init_process_group and the first all_reduce"""
    dist.init_process_group("gloo", timeout=seconds(LOSS_TIMEOUT))
    if rank == 1:
        os._exit(0)
    time.sleep(0.5)
    dist.all_reduce(torch.ones(1))


def one_without(rank: int) -> None:
    """rank 0 has no switch, as a process that another launch started"""
    if rank == 0:
        for name in ("GLOO_ENABLE_STORE_V2_API", "GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", "TORCH_GLOO_LAZY_INIT"):
            os.environ.pop(name, None)
    dist.init_process_group("gloo", timeout=seconds(LOSS_TIMEOUT))
    dist.all_reduce(torch.ones(1))


BREAKS = {each.__name__: each for each in (group_without_one, loss_before_use, one_without)}


def run_case(case: str, store_port: int) -> dict:
    begun = time.monotonic()
    results = []
    for rank in range(4):
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            become_rank(rank, 4, store_port)
            try:
                BREAKS[case](rank)
                said = "works"
            except Exception as error:  # what a user would see
                said = str(error)
            os.write(writing, json.dumps({"seconds": time.monotonic() - begun, "said": said[:1000]}).encode())
            os._exit(0)
        os.close(writing)
        results.append((process, reading))
    ends = []
    for rank, (process, reading) in enumerate(results):
        limit = 0 if rank == 1 and case != "one_without" else DEADLINE
        while not (ended := os.waitpid(process, os.WNOHANG))[0] and time.monotonic() - begun < limit:
            time.sleep(0.01)
        if not ended[0]:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        end = {"seconds": time.monotonic() - begun, "said": "still waits"}
        if ended[0]:
            end = json.loads(os.read(reading, 4000) or b"{}") or end | {"said": f"ended by signal {os.WTERMSIG(ended[1])}"}
        os.close(reading)
        ends.append({"rank": rank, **end})
    return {"torch": torch.__version__, "what": BREAKS[case].__doc__,
            "ends": [each for each in ends if each["rank"] != 1 or case == "one_without"]}


def main() -> None:
    what, number, port = sys.argv[1:4]
    print(json.dumps(measure(int(number), int(port)) if what == "measure" else run_case(number, int(port))), flush=True)


if __name__ == "__main__":
    main()
