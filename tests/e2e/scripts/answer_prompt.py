"""answer_prompt.py COMMAND...: runs it on a terminal of its own and types an answer once "prompt> " is shown."""

import os
import pty
import select
import sys

pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
shown = b""
answered = False
while select.select([terminal], [], [], 30)[0]:
    try:
        text = os.read(terminal, 65536)
    except OSError:
        break  # the last process has closed it
    shown += text
    if b"prompt> " in shown and not answered:
        os.write(terminal, b"hello\n")
        answered = True
os.close(terminal)
print(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
