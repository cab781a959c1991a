# SPDX-License-Identifier: BSD-3-Clause
"""
A file that all ranks write together. Each rank has every size-th column, so that
collective output has to exchange the data among the ranks; each reads the rows of
a block that others wrote.
"""

import sys

import h5py
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
rows = columns = int(sys.argv[1]) * size
checked = 0
for step in range(int(sys.argv[2])):
    with h5py.File("together.h5", "w", driver="mpio", comm=comm) as file:
        data = file.create_dataset("data", (rows, columns), "i8")
        mine = numpy.add.outer(
            numpy.arange(rows) * columns, numpy.arange(rank, columns, size)
        )
        with data.collective:
            data[:, rank::size] = mine + step
    with h5py.File("together.h5", "r", driver="mpio", comm=comm) as file:
        begin, end = rows // size * rank, rows // size * (rank + 1)
        with file["data"].collective:
            block = file["data"][begin:end]
        wanted = numpy.arange(begin * columns, end * columns).reshape(block.shape)
        assert (block == wanted + step).all()
        checked += comm.allreduce(block.size)
if rank == 0:
    print("elements checked:", checked)
