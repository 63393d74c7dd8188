"""A script that starts ranks itself, one of which fails, as two such scripts do that claim the same ranks."""

import torch.multiprocessing as mp


def main(rank: int) -> None:
    if rank == 1:
        raise RuntimeError("Connection refused")


if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
