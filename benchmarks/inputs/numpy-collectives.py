# SPDX-License-Identifier: BSD-3-Clause
"""Collective operations on numpy's arrays; every element that arrives is checked."""

import sys

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
checked = 0
for exponent in range(int(sys.argv[1]) + 1):
    count = 1 << exponent
    base = numpy.arange(count, dtype="i8")
    mine = base * (rank + 1)
    total = numpy.empty_like(mine)
    gathered = numpy.empty((size, count), "i8")
    parts = numpy.empty((size, count), "i8")
    for step in range(int(sys.argv[2])):
        comm.Allreduce(mine + step, total)
        assert (total == base * (size * (size + 1) // 2) + size * step).all()
        comm.Allgather(mine + step, gathered)
        comm.Alltoall(gathered + rank, parts)
        for peer in range(size):
            assert (gathered[peer] == base * (peer + 1) + step).all()
            assert (parts[peer] == base * (rank + 1) + step + peer).all()
        checked += count * (1 + 2 * size)
if rank == 0:
    print("elements checked:", checked)
