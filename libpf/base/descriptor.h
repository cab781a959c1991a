/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_DESCRIPTOR_H
#define PF_DESCRIPTOR_H

#include <stdbool.h>

/*
 * After a system call failed with the errno for want of a descriptor, or because too many
 * descriptors of the user are in flight between processes (ETOOMANYREFS): raise the soft limit
 * (RLIMIT_NOFILE) up to the hard limit. True: the limit was raised, perhaps by another thread,
 * and the call may succeed now. False: errno is as before. Any thread. Until a call fails the
 * limit is left alone, because some programs close all descriptors up to the limit.
 */
bool descriptor_limit_raised(int error);
/*
 * Raise the limit ahead of need, where a descriptor without room would be lost: newest is the
 * descriptor opened last, and a few more are to come.
 */
void descriptor_limit_ensure(int newest);
/*
 * Move a descriptor of a peer kept by libpf to the returned number. A program with select(2)
 * needs numbers below FD_SETSIZE (1024), and the kernel gives each new descriptor the lowest free
 * number. Once the numbers in use come to a quarter of FD_SETSIZE, libpf takes higher numbers, as
 * far as the hard limit permits. errno stays as before.
 */
int descriptor_lift(int fd);
/* More than pf_open opens, with four interfaces. */
#define DESCRIPTORS_RESERVED 48
/*
 * Raise the limit until so many descriptors more can be opened, at most DESCRIPTORS_RESERVED.
 * Libraries open some, and without optional descriptors the context goes on. Return false, with
 * errno, if there are fewer.
 */
bool descriptor_limit_reserve(unsigned wanted);

#endif
