"""A component of TorchX whose role is ddprun:

    torchx run -s local_cwd torchx_component.py:train --workers 2 --script train_ddp.py -- --steps 40
"""

import torchx.specs as specs


def train(*script_args: str, script: str, workers: int = 1) -> specs.AppDef:
    """Trains with ddprun on one host.

    Args:
        script_args: arguments of the script
        script: the script
        workers: number of workers
    """
    return specs.AppDef(name="train", roles=[specs.Role(
        name="trainer", image="", entrypoint="ddprun", args=["--nproc-per-node", str(workers), script, *script_args])])
