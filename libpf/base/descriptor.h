/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_DESCRIPTOR_H
#define PF_DESCRIPTOR_H

#include <stdbool.h>

/*
 * After a system call failed with this errno for want of a descriptor, or because too many of this
 * user's are in flight between processes (ETOOMANYREFS): raise the soft limit (RLIMIT_NOFILE) up to
 * the hard limit. True: it was raised, perhaps by another thread, so the call may succeed now.
 * False: errno is as it was. Any thread. The limit is left alone until then, because some programs
 * close all descriptors up to it.
 */
bool descriptor_limit_raised(int error);
/*
 * The same ahead of need, where a descriptor that finds no room would be lost: newest is the
 * one opened last, and a few more are to come.
 */
void descriptor_limit_ensure(int newest);
/*
 * A descriptor of a peer that libpf keeps, from now on with the number that is returned. A program that
 * uses select(2) needs numbers below FD_SETSIZE (1024), and the kernel gives each new descriptor the
 * lowest that is free. So once the numbers in use come to a quarter of those, libpf takes higher ones,
 * as far as the hard limit permits. errno stays as it is.
 */
int descriptor_lift(int fd);
/*
 * descriptor_limit_ensure for all that a context opens: libraries open some of it, and without what is optional
 * the context goes on.
 */
void descriptor_limit_reserve(void);

#endif
