-- Modulefile for the unpacked tar.gz: change `root`, and put this file at ddprun/0.1.0.lua in a folder of MODULEPATH.
local root = "/opt/ddprun/0.1.0"

help([[Starts PyTorch jobs on one machine or a whole allocation: ddprun train.py]])
whatis("Name: ddprun")
whatis("Version: 0.1.0")
whatis("Description: starts PyTorch jobs on one machine or a whole allocation")

prepend_path("PATH", pathJoin(root, "bin"))
prepend_path("MANPATH", pathJoin(root, "share/man"))
prepend_path("XDG_DATA_DIRS", pathJoin(root, "share"))
