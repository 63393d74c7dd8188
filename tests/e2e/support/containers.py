"""Programs that start containers, where there are none: they run the command on the host."""

# apptainer exec --cleanenv: of the environment only APPTAINERENV_X enters, as X.
APPTAINER = r"""#!/usr/bin/env python3
import os, sys
prefix = "APPTAINERENV_"
env = {name[len(prefix):]: value for name, value in os.environ.items() if name.startswith(prefix)}
words = sys.argv[sys.argv.index("image.sif") + 1:]
os.execvpe(words[0], words, env | {"PATH": os.environ["PATH"]})
"""
