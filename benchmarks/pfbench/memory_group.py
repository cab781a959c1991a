# SPDX-License-Identifier: BSD-3-Clause
"""A memory cgroup of its own for the processes of a run, of version 2 or 1."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Iterator, Optional, Sequence

ROOT = Path("/sys/fs/cgroup")
# In a shell, so that all pages of the command are the group's.
_ENTER = 'echo $$ >"$0" && exec "$@"'


class MemoryGroup:
    """Exists inside the context of made()."""

    def __init__(self, root: Path = ROOT) -> None:
        self._parent, self._limit = _find(root)
        self._folder = self._parent / f"exanest-{os.getpid()}"

    @contextlib.contextmanager
    def made(self) -> Iterator[MemoryGroup]:
        try:
            self._folder.mkdir()
        except OSError as error:
            raise ValueError(f"no memory cgroup can be made: {error}") from None
        try:
            yield self
        finally:
            self.await_empty()
            try:
                self._folder.rmdir()
            except OSError as error:
                print(f"{self._folder} is left: {error}", file=sys.stderr)

    def limit(self, size: int) -> None:
        # Pages beyond the limit are to be dropped or written to their file, not to swap space.
        for name in ("memory.swap.max", "memory.swappiness"):
            if (self._folder / name).exists():
                (self._folder / name).write_text("0")
        (self._folder / self._limit).write_text(str(size))

    def press(self, share: Optional[float]) -> None:
        """Hold the group at this share of the memory that it uses now, until the next call;
        None: no more. The kernel moves pages to swap space, too, and kills no process."""
        high = self._folder / "memory.high"
        if not high.exists():
            raise ValueError("only memory cgroups of version 2 have memory.high")
        size = "max"
        if share is not None:
            used = int((self._folder / "memory.current").read_text())
            size = str(int(share * used))
        high.write_text(size)

    def await_empty(self, seconds: float = 10.0) -> None:
        """Wait for processes that are ending."""
        end = time.monotonic() + seconds
        processes = self._folder / "cgroup.procs"
        while processes.exists() and processes.read_text() and time.monotonic() < end:
            time.sleep(0.01)

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a command in the group."""
        return ["sh", "-c", _ENTER, str(self._folder / "cgroup.procs"), *command]


def _find(root: Path) -> tuple[Path, str]:
    """The folder of groups that have a limit of memory, and the name of the limit's file."""
    try:
        controllers = (root / "cgroup.subtree_control").read_text().split()
    except OSError:
        controllers = []
    if "memory" in controllers:
        return root, "memory.max"
    if (root / "memory" / "memory.limit_in_bytes").exists():
        return root / "memory", "memory.limit_in_bytes"
    raise ValueError(f"{root} has no groups with a limit of memory")
