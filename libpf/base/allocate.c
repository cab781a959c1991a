/* SPDX-License-Identifier: BSD-3-Clause */
#include "allocate.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static const char text[] =
	"libpf: this process has had no memory for 10 s and waits for it; see the memory limits of the job "
	"(ulimit -v, the memory controller of its cgroup)\n";

void allocate_wait(unsigned *tries)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	usleep(1000);
	if (++*tries != ALLOCATE_TRIES_SILENT || atomic_flag_test_and_set(&said))
		return;
	/* Without a standard error the process waits as before. */
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		return;
}

void *allocate_or_wait(size_t size)
{
	unsigned tries = 0;
	void *memory;

	while (!(memory = calloc(1, size)))
		allocate_wait(&tries);
	return memory;
}
