/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process's own memory, read and written by the kernel, so that a bad
 * address is an error and not a signal: with process_vm_readv and
 * process_vm_writev, or, where a container or a filter forbids these even
 * for the calling process itself, through a file in memory.
 */
#ifndef PF_ACCESS_H
#define PF_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* One thread at a time. */
struct access {
	pid_t pid;    /* ours: contexts do not outlive a fork, and asking is a system call */
	int file;     /* -1 until it is needed */
	bool refused; /* process_vm_readv and process_vm_writev are */
	/* Set by the caller: use the file, which also reaches memory that is hidden from these. */
	bool by_file;
};

void access_open(struct access *access);
void access_close(struct access *access);

/*
 * Copy length bytes to (from) address. PF_OK, PF_ERR_FAULT with the first bad
 * address in *bad, or PF_ERR_MEMORY.
 */
int access_write(struct access *access, uint64_t address, const void *from, size_t length,
		 uint64_t *bad);
int access_read(struct access *access, uint64_t address, void *to, size_t length, uint64_t *bad);
/* What count vectors name, one behind the other; PF_ERR_FAULT if some of it is not there. */
int access_gather(struct access *access, const struct iovec *from, unsigned count, void *to);
/* The other way round. Returns the bytes written before the first that cannot be. */
size_t access_scatter(struct access *access, const struct iovec *from, unsigned from_count,
		      const struct iovec *to, unsigned to_count);
/* The same as access_read, without the bytes: only a look at each page. */
int access_look(struct access *access, uint64_t address, size_t length, uint64_t *bad);

#endif
