/* SPDX-License-Identifier: BSD-3-Clause */
#include "page.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/statistics.h"
#include <libpf/pf.h>
#include "host/channel.h"
#include "host/connection_message.h"
#include "host/inbox.h"

#define RING_SIZE channel_ring_size(RING_SIZE_MIN, PAGE)

static int create(struct channel *channel)
{
	static _Atomic int64_t allowance;

	return channel_create(channel, RING_SIZE_MIN, &allowance, NULL);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* A file as a hostile peer may send it. */
static int make_file(off_t size, int seals, const void *head, size_t head_length)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	if (head_length)
		assert_int_equal(pwrite(fd, head, head_length, 0), (ssize_t)head_length);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void test_round_trip(void **state)
{
	struct channel out, in;
	struct ring_entry entry;
	uint8_t *payload;

	assert_int_equal(create(&out), PF_OK);
	assert_true(fcntl(out.fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(channel_map(&in, dup(out.fd)), PF_OK);
	assert_ptr_not_equal(in.memory, out.memory);
	assert_int_equal(in.ring.size, RING_SIZE);
	payload = ring_reserve(&out.ring, 5);
	memcpy(payload, "hello", 5);
	ring_commit(&out.ring, 5, 1, 2);
	assert_int_equal(ring_peek(&in.ring, &entry), 1);
	assert_int_equal(entry.length, 5);
	assert_memory_equal(entry.payload, "hello", 5);
	/* Both processes map the ring twice in a row. */
	in.ring.base[3] = 77;
	assert_int_equal(in.ring.base[RING_SIZE + 3], 77);
	assert_int_equal(out.ring.base[RING_SIZE + 3], 77);
	channel_destroy(&in);
	channel_destroy(&out);
	assert_false(is_open(in.fd));
	assert_false(is_open(out.fd));
}

/* The bytes that the kernel copies to the ring and from it, up to the first that cannot be accessed. */
static void test_copies(void **state)
{
	uint8_t *memory = test_map(3 * PAGE), *payload;
	const size_t length = PAGE + 100;
	_Atomic int64_t allowance = 0;
	struct channel out, in;
	unsigned round;

	assert_int_equal(mprotect(memory + 2 * PAGE, PAGE, PROT_NONE), 0);
	assert_int_equal(channel_create(&out, 8 * PAGE, &allowance, NULL), PF_OK);
	assert_int_equal(channel_map(&in, dup(out.fd)), PF_OK);
	/* With the descriptors, then without. */
	for (round = 0; round < 2; round++) {
		pattern_fill(memory, length, round);
		payload = ring_reserve(&out.ring, length);
		assert_non_null(payload);
		assert_int_equal(channel_fill(&out, payload, memory, length), length);
		memset(memory, 0, length);
		payload = in.ring.base + (payload - out.ring.base);
		assert_int_equal(channel_place(&in, payload, memory, length), length);
		assert_int_equal(pattern_differs(memory, length, round), length);
		/* One page of it can be accessed. */
		assert_int_equal(channel_place(&in, payload, memory + PAGE, length), PAGE);
		assert_int_equal(channel_fill(&out, out.ring.base, memory + PAGE, length), PAGE);
		assert_int_equal(channel_fill(&out, out.ring.base, memory + 2 * PAGE, length), 0);
		channel_drop_file(&out);
		channel_drop_file(&in);
	}
	channel_destroy(&in);
	channel_destroy(&out);
	munmap(memory, 3 * PAGE);
}

/* Does a core file leave out the mapping of this address? */
static bool is_left_out(const void *address)
{
	uintptr_t wanted = (uintptr_t)address, start, end;
	FILE *file = fopen("/proc/self/smaps", "r");
	bool inside = false, left_out = false;
	char line[512];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2)
			inside = wanted >= start && wanted < end;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			left_out = strstr(line, " dd") != NULL;
	}
	fclose(file);
	return left_out;
}

/* Both views of a ring, on both sides. */
static void test_core_file(void **state)
{
	struct channel out, in;

	assert_int_equal(create(&out), PF_OK);
	assert_int_equal(channel_map(&in, dup(out.fd)), PF_OK);
	assert_true(is_left_out(out.ring.base));
	assert_true(is_left_out(out.ring.base + RING_SIZE));
	assert_true(is_left_out(in.ring.base));
	assert_true(is_left_out(in.ring.base + RING_SIZE));
	channel_destroy(&in);
	channel_destroy(&out);
}

/* The size is fixed: a shorter file would raise SIGBUS in the other process. */
static void test_sealed(void **state)
{
	struct channel channel;
	int fd;

	assert_int_equal(create(&channel), PF_OK);
	/* Linux 6.3 and later: nobody executes it. Some of these refuse any other file. */
	fd = memfd_create("test", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (fd >= 0)
		assert_int_equal(fcntl(fd, F_GET_SEALS) & ~fcntl(channel.fd, F_GET_SEALS), 0);
	close(fd);
	assert_int_equal(ftruncate(channel.fd, 0), -1);
	assert_int_equal(ftruncate(channel.fd, 1 << 20), -1);
	channel_destroy(&channel);
}

static void refuse_channel(int fd, const char *what)
{
	struct channel channel = { .fd = -1 };

	if (channel_map(&channel, fd) == PF_OK)
		fail_msg("taken: %s", what);
	if (is_open(fd))
		fail_msg("descriptor left open: %s", what);
}

/* Both mappings start at a page, whatever its size, and a ring fills its pages. */
static void test_page_sizes(void **state)
{
	uint64_t page, wanted, size;

	for (page = 4096; page <= 65536; page *= 4) {
		assert_int_equal(CHANNEL_RING % page, 0);
		for (wanted = RING_SIZE_MIN; wanted <= RING_SIZE_MAX; wanted *= 2) {
			size = channel_ring_size(wanted, page);
			assert_true(channel_ring_valid(size, page));
			assert_int_equal(size % page, 0);
			assert_int_equal(size, wanted < page ? page : wanted);
		}
		assert_false(channel_ring_valid(page / 2, page));
		assert_false(channel_ring_valid(3 * page, page));
	}
}

static void test_hostile_files(void **state)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	const off_t header = CHANNEL_RING, good = header + (off_t)RING_SIZE;
	struct channel model;
	uint64_t head[2], changed[2];
	int ends[2];

	assert_int_equal(create(&model), PF_OK);
	memcpy(head, model.memory, sizeof(head));
	channel_destroy(&model);

	refuse_channel(make_file(good, 0, head, 16), "unsealed");
	refuse_channel(make_file(good, F_SEAL_GROW, head, 16), "may shrink");
	refuse_channel(make_file(0, seals, NULL, 0), "empty");
	refuse_channel(make_file(16, seals, head, 16), "sixteen bytes");
	refuse_channel(make_file(header - 1, seals, head, 16), "cut header");
	refuse_channel(make_file(header, seals, head, 16), "no ring");
	refuse_channel(make_file(header + 1, seals, head, 16), "ring of one byte");
	refuse_channel(make_file(header + (off_t)RING_SIZE / 2, seals, head, 16), "ring too small");
	refuse_channel(make_file(good + (off_t)PAGE, seals, head, 16), "ring no power of two");
	refuse_channel(make_file(header + ((off_t)2 << 30), seals, head, 16), "ring too large");
	refuse_channel(make_file(good, seals, NULL, 0), "no magic");
	changed[0] = head[0] ^ 1;
	changed[1] = head[1];
	refuse_channel(make_file(good, seals, changed, 16), "wrong magic");
	changed[0] = head[0];
	changed[1] = 2 * RING_SIZE;
	refuse_channel(make_file(good, seals, changed, 16), "ring larger than the file");
	changed[1] = 0;
	refuse_channel(make_file(good, seals, changed, 16), "ring of no size");
	refuse_channel(open("/dev/zero", O_RDWR), "a device");
	refuse_channel(open("/", O_RDONLY | O_DIRECTORY), "a folder");
	assert_int_equal(pipe(ends), 0);
	close(ends[1]);
	refuse_channel(ends[0], "a pipe");

	/* A correct file is accepted. */
	struct channel channel;

	assert_int_equal(channel_map(&channel, make_file(good, seals, head, 16)), PF_OK);
	channel_destroy(&channel);
}

static void test_read_only_file(void **state)
{
	struct channel model;
	char path[64];
	int fd;

	assert_int_equal(create(&model), PF_OK);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", model.fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	refuse_channel(fd, "read only");
	channel_destroy(&model);
}

static void test_hostile_inbox(void **state)
{
	const struct {
		off_t size;
		int seals;
	} files[] = {
		{ (off_t)PAGE, 0 },
		{ (off_t)PAGE, F_SEAL_GROW },
		{ 0, F_SEAL_SHRINK },
		{ (off_t)PAGE - 1, F_SEAL_SHRINK },
		{ 2 * (off_t)PAGE, F_SEAL_SHRINK },
	};
	struct inbox inbox;
	size_t i;
	int fd;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		fd = make_file(files[i].size, files[i].seals, NULL, 0);
		assert_int_not_equal(inbox_map(&inbox, fd), PF_OK);
		assert_false(is_open(fd));
	}
	fd = make_file(PAGE, F_SEAL_SHRINK, NULL, 0);
	assert_int_equal(inbox_map(&inbox, fd), PF_OK);
	assert_false(is_open(fd));
	/* The peer chooses the slot: no number may lead outside the page. */
	inbox_ring(inbox.memory, 0);
	inbox_ring(inbox.memory, INBOX_SLOTS - 1);
	inbox_ring(inbox.memory, INBOX_SLOTS);
	inbox_ring(inbox.memory, INBOX_NO_SLOT);
	inbox_destroy(&inbox);
}

/* Running out of descriptors is not reported as a malformed message. */
static void test_no_descriptor_left(void **state)
{
	struct connection_message message = { CONNECTION_MAGIC, CONNECTION_WELCOME };
	struct rlimit before, limit;
	int ends[2], fds[CONNECTION_DESCRIPTORS];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_int_equal(connection_message_send(ends[0], &message, ends[0]), PF_OK);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = (struct rlimit){ (rlim_t)ends[1] + 1, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	errno = 0;
	assert_int_equal(connection_message_receive(ends[1], &message, fds), PF_ERR_SYSTEM);
	assert_int_equal(errno, EMFILE);
	assert_int_equal(fds[0], -1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	close(ends[0]);
	close(ends[1]);
}

/* Where files may not be that long, there is an error and not SIGXFSZ. */
static void test_short_files(void **state)
{
	static _Alignas(PAGE_MOST) struct statistics statistics;
	struct rlimit before, limit;
	struct channel channel;
	struct inbox inbox;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){ PAGE - 1, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	errno = 0;
	assert_status(create(&channel), PF_ERR_SYSTEM);
	assert_int_equal(errno, EFBIG);
	errno = 0;
	assert_status(inbox_create(&inbox, INBOX_NEVER_SLEEPS), PF_ERR_SYSTEM);
	assert_int_equal(errno, EFBIG);
	/* The page of the statistics is then private. */
	statistics_create(&statistics, false);
	assert_int_equal(statistics.fd, -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/*
 * A page between two that cannot be accessed. These are mapped without permission, so
 * that no other mapping takes their place.
 */
static char *island(void)
{
	char *area = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(area, MAP_FAILED);
	assert_int_equal(mprotect(area + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
	return area + PAGE;
}

static void test_fill_and_place(void **state)
{
	static const size_t lengths[] = { 0, 1, 7, 8, 9, 4095, 4096, 8000 };
	char from[8192], to[8192 + 2];
	struct channel channel;
	size_t start, i;

	assert_int_equal(create(&channel), PF_OK);
	for (start = RING_SIZE - 8192; start < RING_SIZE; start += 8) {
		uint8_t *payload = channel.ring.base + start;

		for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			size_t length = lengths[i];

			pattern_fill(from, length, start);
			memset(to, 0x55, sizeof(to));
			payload[length] = 0x77;
			assert_int_equal(channel_fill(&channel, payload, from, length), length);
			assert_int_equal(pattern_differs(payload, length, start), length);
			assert_int_equal(payload[length], 0x77);
			assert_int_equal(channel_place(&channel, payload, to + 1, length), length);
			assert_int_equal(pattern_differs(to + 1, length, start), length);
			assert_int_equal(to[0], 0x55);
			assert_int_equal(to[length + 1], 0x55);
		}
	}
	channel_destroy(&channel);
}

/* Pieces of memory one behind the other in the ring, also over the wrap, up to the first bad one. */
static void test_gather_and_scatter(void **state)
{
	const size_t starts[] = { 0, RING_SIZE - 104 };
	char *page = island(), to[2][100];
	struct channel channel;
	size_t i;

	assert_int_equal(create(&channel), PF_OK);
	for (i = 0; i < 2; i++) {
		uint8_t *payload = channel.ring.base + starts[i];
		const struct iovec from[] = { { page + 7, 100 },
					      { page + 200, 100 },
					      { page + PAGE - 3, 100 } };
		const struct iovec there[] = { { to[1], 100 }, { to[0], 100 }, { page - 1, 8 } };

		pattern_fill(page, PAGE, 1);
		assert_int_equal(channel_gather(&channel, payload, from, 2, 200), 200);
		assert_memory_equal(payload, page + 7, 100);
		assert_memory_equal(payload + 100, page + 200, 100);
		assert_int_equal(channel_gather(&channel, payload, from, 3, 300), 203);
		assert_int_equal(channel_scatter(&channel, payload, there, 2, 200), 200);
		assert_memory_equal(to[1], page + 7, 100);
		assert_memory_equal(to[0], page + 200, 100);
		assert_int_equal(channel_scatter(&channel, payload, there, 3, 208), 200);
	}
	munmap(page - PAGE, 3 * PAGE);
	channel_destroy(&channel);
}

static void test_bad_memory(void **state)
{
	uint8_t *at[2];
	struct channel channel;
	char *page = island();
	size_t i;

	assert_int_equal(create(&channel), PF_OK);
	at[0] = channel.ring.base;
	at[1] = channel.ring.base + RING_SIZE - 104; /* over the wrap */
	pattern_fill(page, PAGE, 1);
	for (i = 0; i < 2; i++) {
		assert_int_equal(channel_fill(&channel, at[i], page + PAGE, 200), 0);
		assert_int_equal(channel_fill(&channel, at[i], page - 1, 200), 0);
		assert_int_equal(channel_fill(&channel, at[i], page + PAGE - 150, 200), 150);
		assert_int_equal(channel_fill(&channel, at[i], page + PAGE - 3, 200), 3);
		assert_int_equal(channel_fill(&channel, at[i], page, PAGE + 8), PAGE);
		assert_int_equal(pattern_differs(at[i], PAGE, 1), PAGE);
		assert_int_equal(channel_fill(&channel, at[i], NULL, 8), 0);
		assert_int_equal(channel_fill(&channel, at[i], (void *)(UINT64_MAX - 7), 64), 0);

		assert_int_equal(channel_place(&channel, at[i], page + PAGE, 200), 0);
		assert_int_equal(channel_place(&channel, at[i], page - 1, 200), 0);
		assert_int_equal(channel_place(&channel, at[i], page + PAGE - 150, 200), 150);
		assert_int_equal(channel_place(&channel, at[i], NULL, 8), 0);
		assert_int_equal(mprotect(page, PAGE, PROT_READ), 0);
		assert_int_equal(channel_place(&channel, at[i], page, 200), 0);
		assert_int_equal(channel_fill(&channel, at[i], page, 200), 200);
		assert_int_equal(mprotect(page, PAGE, PROT_NONE), 0);
		assert_int_equal(channel_fill(&channel, at[i], page, 200), 0);
		assert_int_equal(mprotect(page, PAGE, PROT_READ | PROT_WRITE), 0);
		pattern_fill(page, PAGE, 1);
	}
	munmap(page - PAGE, 3 * PAGE);
	channel_destroy(&channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_core_file),
		cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_hostile_files),
		cmocka_unit_test(test_read_only_file),
		cmocka_unit_test(test_hostile_inbox),
		cmocka_unit_test(test_fill_and_place),
		cmocka_unit_test(test_gather_and_scatter),
		cmocka_unit_test(test_bad_memory),
		cmocka_unit_test(test_page_sizes),
		cmocka_unit_test(test_no_descriptor_left),
		cmocka_unit_test(test_short_files),
	};

	return cmocka_run_group_tests_name("channel", tests, NULL, NULL);
}
