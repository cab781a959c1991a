/* SPDX-License-Identifier: BSD-3-Clause */
#include "slice.h"

#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NANOSECONDS 100000 /* the shortest slice accepted by the kernel */

void slice_request_short(void)
{
	struct sched_attr attributes = { 0 };

	if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) < 0)
		return;
	attributes.sched_runtime = SLICE_NANOSECONDS;
	syscall(SYS_sched_setattr, 0, &attributes, 0);
}
