"""The command lines of real MPI launchers: where to start how many processes, over ssh."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Launcher:
    name: str
    program: str
    options: tuple[str, ...]

    def __str__(self) -> str:
        return self.name

    def line(self, processes: dict[str, int], *more: str) -> list[str]:
        """So many processes on each host, in this order."""
        places = ",".join(f"{host}:{count}" for host, count in processes.items())
        option = "-hosts" if self.name == "hydra" else "--host"
        return [self.program, *self.options, option, places, "-n", str(sum(processes.values())), *more]


HYDRA = Launcher("hydra", "mpiexec.hydra", ("-launcher", "ssh"))
OPEN_MPI = Launcher("open-mpi", "mpirun.openmpi", ("--allow-run-as-root", "--mca", "plm_rsh_agent", "ssh",
                                                   "--mca", "btl_tcp_if_include", "fabric0"))


def one_each(names: str) -> dict[str, int]:
    return dict.fromkeys(names, 1)


def ranks_by_host(workers: Sequence[dict]) -> dict[str, list[int]]:
    """Of print_env.py's records."""
    ranks: dict[str, list[int]] = {}
    for worker in workers:
        ranks.setdefault(worker["host"], []).append(int(worker["RANK"]))
    return {host: sorted(numbers) for host, numbers in ranks.items()}
