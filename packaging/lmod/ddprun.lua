-- Modulefile for the unpacked tar.gz: change `root`, and put this file at ddprun/0.2.0.lua in a folder of MODULEPATH.
local root = "/opt/ddprun/0.2.0"

help([[Starts PyTorch jobs on one machine or a whole allocation: ddprun train.py]])
whatis("Name: ddprun")
whatis("Version: 0.2.0")
whatis("Description: starts PyTorch jobs on one machine or a whole allocation")

prepend_path("PATH", pathJoin(root, "bin"))
-- Where these are unset they stand for the system's folders, which ours alone would hide; man looks beside PATH as well.
for name, folder in pairs({MANPATH = "share/man", XDG_DATA_DIRS = "share"}) do
    if (os.getenv(name) or "") ~= "" then
        prepend_path(name, pathJoin(root, folder))
    end
end
