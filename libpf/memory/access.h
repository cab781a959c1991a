/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Own memory of the process, read and written by the kernel, to make a bad address an error and
 * not a signal: with process_vm_readv and process_vm_writev, or, where a container or a filter
 * forbids both even for the calling process itself, through a file in memory.
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
	pid_t pid; /* of the process: contexts do not outlive a fork, and getpid is a system call */
	int file;  /* of memory; -1 until an access needs the file */
	bool refused; /* process_vm_readv and process_vm_writev are refused */
	/*
	 * Set by the caller: use the file, which also reaches memory hidden from both system
	 * calls.
	 */
	bool by_file;
};

void access_open(struct access *access);
void access_close(struct access *access);
/* Have what copies of length bytes need. False: no memory or no descriptor for the file. */
bool access_prepare(struct access *access, size_t length);

/*
 * Copy length bytes to (from) address. PF_OK, PF_ERR_FAULT with the first bad
 * address in *bad, or PF_ERR_MEMORY.
 */
int access_write(struct access *access, uint64_t address, const void *from, size_t length,
		 uint64_t *bad);
int access_read(struct access *access, uint64_t address, void *to, size_t length, uint64_t *bad);
/* Copy the bytes of count vectors, in order. PF_ERR_FAULT if a part is not accessible. */
int access_gather(struct access *access, const struct iovec *from, unsigned count, void *to);
/*
 * Copy from the vectors of from to the vectors of to. Returns the bytes written before the first
 * bad address.
 */
size_t access_scatter(struct access *access, const struct iovec *from, unsigned from_count,
		      const struct iovec *to, unsigned to_count);
/* Look at each page as access_read, without a copy of the bytes. */
int access_look(struct access *access, uint64_t address, size_t length, uint64_t *bad);

#endif
