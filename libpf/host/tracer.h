/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes with permission to copy to and from the memory of this process, where Yama
 * (kernel.yama.ptrace_scope) forbids copies to all but ancestors. At scope 1 a process may name one
 * other process, which then may copy, as may all descendants of the named process.
 */
#ifndef PF_TRACER_H
#define PF_TRACER_H

#include <stdbool.h>
#include <stdint.h>

/* Return kernel.yama.ptrace_scope; -1: the kernel has no Yama. */
int tracer_scope(void);

/* Does the calling thread have CAP_SYS_PTRACE? Then Yama forbids nothing below scope 3. */
bool tracer_is_privileged(void);

/*
 * Permit copies to the processes that the option ptracer names. Does nothing unless the scope is 1,
 * and nothing where copies are permitted already: by CAP_SYS_PTRACE, or because the program has
 * named a tracer that includes the program's own children.
 */
void tracer_permit(uint64_t whom);

#endif
