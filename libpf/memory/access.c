/* SPDX-License-Identifier: BSD-3-Clause */
#include "access.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/memcheck.h"
#include <libpf/pf.h>

/* Pages looked at by one call. */
#define LOOK_PAGES 64
/* Vectors that a system call takes: UIO_MAXIOV. */
#define VECTORS_MOST 1024

void access_open(struct access *access)
{
	access->pid = getpid();
	access->file = -1;
	access->refused = false;
	access->by_file = false;
}

void access_close(struct access *access)
{
	if (access->file >= 0)
		close(access->file);
}

/*
 * Judge a failed copy by errno. PF_ERR_AGAIN: try again, by the file if the system calls are
 * refused.
 */
static int access_judge(struct access *access)
{
	if (errno == EFAULT)
		return PF_ERR_FAULT;
	if (errno == EINTR || errno == ENOMEM) {
		usleep(1000);
		return PF_ERR_AGAIN;
	}
	if (access->refused)
		return PF_ERR_MEMORY;
	access->refused = true;
	return PF_ERR_AGAIN;
}

static bool uses_file(const struct access *access)
{
	return access->refused || access->by_file;
}

/* Have a file for length bytes. Beyond the limit of file lengths, a write would end the program. */
static bool access_open_file(struct access *access, size_t length)
{
	if (!file_size_permitted(length))
		return false;
	while (access->file < 0) {
		access->file = descriptor_lift(file_create("libpf access", MFD_CLOEXEC));
		if (access->file < 0 && !descriptor_limit_raised(errno))
			break;
	}
	return access->file >= 0;
}

bool access_prepare(struct access *access, size_t length)
{
	return !uses_file(access) || access_open_file(access, length);
}

/* Copy between the file and memory of libpf, which is certain to be present. */
static bool access_exchange(const struct access *access, bool fill, char *bytes, size_t length)
{
	size_t done = 0;
	ssize_t moved;

	while (done < length) {
		moved = fill ? pwrite(access->file, bytes + done, length - done, (off_t)done) :
			       pread(access->file, bytes + done, length - done, (off_t)done);
		if (moved > 0)
			done += (size_t)moved;
		else if (!moved || errno != EINTR)
			return false;
	}
	return true;
}

/*
 * Make a bare system call for memory of the application, which may use or unmap the memory
 * meanwhile and then gets an error. The thread sanitizer takes preadv(3), pwritev(3) and the like
 * for accesses by the calling thread, and would report a data race. number: SYS_preadv or
 * SYS_pwritev.
 */
static ssize_t file_vectors(const struct access *access, long number, const struct iovec *vectors,
			    unsigned count, size_t offset)
{
	return syscall(number, access->file, vectors, (unsigned long)count, (unsigned long)offset,
		       0ul);
}

/* Copy a part, at least the first byte. Returns its length, or -1 with errno. */
static ssize_t copy_some(const struct access *access, bool write, uint64_t address, char *bytes,
			 size_t length, size_t done)
{
	struct iovec there = { (void *)(uintptr_t)(address + done), length - done };
	struct iovec here = { bytes + done, length - done };

	if (uses_file(access))
		return file_vectors(access, write ? SYS_preadv : SYS_pwritev, &there, 1, done);
	return write ? process_vm_writev(access->pid, &here, 1, &there, 1, 0) :
		       process_vm_readv(access->pid, &here, 1, &there, 1, 0);
}

static int access_copy(struct access *access, bool write, uint64_t address, char *bytes,
		       size_t length, uint64_t *bad)
{
	bool by_file = false;
	size_t done = 0;
	ssize_t moved;
	int status;

	/*
	 * A short count gives no reason; the next call starts at the cause and reports the
	 * reason.
	 */
	while (done < length) {
		if (uses_file(access) && !by_file) {
			by_file = true;
			done = 0;
			if (!access_open_file(access, length) ||
			    (write && !access_exchange(access, true, bytes, length)))
				return PF_ERR_MEMORY;
		}
		moved = copy_some(access, write, address, bytes, length, done);
		if (moved > 0) {
			if (write)
				memcheck_defined((void *)(uintptr_t)(address + done),
						 (size_t)moved);
			done += (size_t)moved;
			continue;
		}
		status = moved ? access_judge(access) : PF_ERR_FAULT;
		*bad = address + done;
		if (status != PF_ERR_AGAIN)
			return status;
	}
	if (by_file && !write && !access_exchange(access, false, bytes, length))
		return PF_ERR_MEMORY;
	return PF_OK;
}

int access_write(struct access *access, uint64_t address, const void *from, size_t length,
		 uint64_t *bad)
{
	return access_copy(access, true, address, (char *)(uintptr_t)from, length, bad);
}

int access_read(struct access *access, uint64_t address, void *to, size_t length, uint64_t *bad)
{
	return access_copy(access, false, address, to, length, bad);
}

int access_gather(struct access *access, const struct iovec *from, unsigned count, void *to)
{
	struct iovec here = { to, 0 };
	unsigned some, i;
	ssize_t moved;
	int status;

	for (; count; from += some, count -= some) {
		some = count < VECTORS_MOST ? count : VECTORS_MOST;
		here.iov_base = (char *)here.iov_base + here.iov_len;
		for (i = 0, here.iov_len = 0; i < some; i++)
			here.iov_len += from[i].iov_len;
		do {
			if (uses_file(access) && !access_open_file(access, here.iov_len))
				return PF_ERR_MEMORY;
			moved = uses_file(access) ?
					file_vectors(access, SYS_pwritev, from, some, 0) :
					process_vm_readv(access->pid, &here, 1, from, some, 0);
			status = moved < 0 ? access_judge(access) : PF_OK;
		} while (status == PF_ERR_AGAIN);
		if (status != PF_OK)
			return status;
		if ((size_t)moved < here.iov_len)
			return PF_ERR_FAULT;
		if (uses_file(access) &&
		    !access_exchange(access, false, here.iov_base, here.iov_len))
			return PF_ERR_MEMORY;
	}
	return PF_OK;
}

size_t access_scatter(struct access *access, const struct iovec *from, unsigned from_count,
		      const struct iovec *to, unsigned to_count)
{
	size_t length = 0;
	ssize_t moved;
	unsigned i;

	for (i = 0; i < from_count; i++)
		length += from[i].iov_len;
	do {
		if (!uses_file(access)) {
			moved = process_vm_writev(access->pid, from, from_count, to, to_count, 0);
			continue;
		}
		if (!access_open_file(access, length))
			return 0;
		moved = file_vectors(access, SYS_pwritev, from, from_count, 0);
		/* Behind what was written are bytes of earlier calls. */
		if (moved >= 0)
			moved = (size_t)moved < length ?
					0 :
					file_vectors(access, SYS_preadv, to, to_count, 0);
	} while (moved < 0 && access_judge(access) == PF_ERR_AGAIN);
	for (i = 0, length = 0; i < to_count && (ssize_t)length < moved; i++) {
		memcheck_defined(to[i].iov_base, to[i].iov_len);
		length += to[i].iov_len;
	}
	return moved < 0 ? 0 : (size_t)moved;
}

int access_look(struct access *access, uint64_t address, size_t length, uint64_t *bad)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = address + length, at;
	struct iovec pages[LOOK_PAGES];
	uint8_t bytes[LOOK_PAGES];
	struct iovec to = { bytes, sizeof(bytes) };
	int count, status;
	ssize_t moved;

	while (address < end) {
		for (at = address, count = 0; count < LOOK_PAGES && at < end; count++) {
			pages[count] = (struct iovec){ (void *)(uintptr_t)at, 1 };
			at = (at & ~(page - 1)) + page;
		}
		if (uses_file(access) && !access_open_file(access, LOOK_PAGES))
			return PF_ERR_MEMORY;
		moved = uses_file(access) ?
				file_vectors(access, SYS_pwritev, pages, (unsigned)count, 0) :
				process_vm_readv(access->pid, &to, 1, pages, (unsigned)count, 0);
		if (moved > 0) {
			address = (address & ~(page - 1)) + (uint64_t)moved * page;
			continue;
		}
		status = moved ? access_judge(access) : PF_ERR_FAULT;
		*bad = address;
		if (status != PF_ERR_AGAIN)
			return status;
	}
	return PF_OK;
}
