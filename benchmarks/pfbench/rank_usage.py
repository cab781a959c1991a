# SPDX-License-Identifier: BSD-3-Clause
"""
Runs the program of one rank in a folder and writes what it used to another file:

    rank_usage.py FOLDER INPUT PROGRAM [ARGUMENT...]

INPUT is the program's standard input, a file of FOLDER or /dev/null. FOLDER/usage.RANK
gets the time from the start of the program to its end, its user and system time (s),
its peak resident memory, and the most that it had locked (mlock) and pinned (KiB).
Imports little, because every rank starts it.
"""

import os
import select
import signal
import sys
import time

# Between two looks at the locked memory, s.
_INTERVAL = 0.05
# The rank's number, of Open MPI and of PMIx.
_RANK = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK")
# A rank is a process. Libraries would otherwise start a thread for each processor.
_SINGLE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def locked(process: int) -> tuple:
    """VmLck and VmPin, KiB; 0 if the process has ended."""
    found = {}
    try:
        with open(f"/proc/{process}/status", "rb") as file:
            for line in file:
                name, _, value = line.partition(b":")
                if name in (b"VmLck", b"VmPin"):
                    found[name] = int(value.split()[0])
    except OSError:
        pass
    return found.get(b"VmLck", 0), found.get(b"VmPin", 0)


def run(folder: str, standard_input: str, command: list) -> int:
    """Returns the exit code."""
    rank = next(os.environ[name] for name in _RANK if name in os.environ)
    os.chdir(folder)
    opened = (os.POSIX_SPAWN_OPEN, 0, standard_input, os.O_RDONLY, 0)
    environment = {**os.environ, **_SINGLE}
    start = time.monotonic()
    # mpirun ends a rank by a signal to this process, which waits until there is a rank to pass it to.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    process = os.posix_spawn(
        command[0], command, environment, file_actions=[opened], setsigmask=mask
    )
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(process, number))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    ended = os.pidfd_open(process)
    most = (0, 0)
    while not select.select([ended], [], [], _INTERVAL)[0]:
        most = tuple(map(max, most, locked(process)))
    seconds = time.monotonic() - start
    _, status, usage = os.wait4(process, 0)
    with open(f"usage.{rank}", "w") as file:
        print(
            f"{seconds:.6f} {usage.ru_utime:.6f} {usage.ru_stime:.6f}",
            *(usage.ru_maxrss, *most),
            file=file,
        )
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2], sys.argv[3:]))
