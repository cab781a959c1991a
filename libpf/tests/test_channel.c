/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels and inboxes: files handed over by a peer, which may be hostile; copies into the ring. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/channel.h"
#include "host/inbox.h"

#define RING_SIZE ((size_t)16384)
#define PAGE ((size_t)4096)

static int create(struct channel *channel)
{
	static _Atomic int64_t allowance;

	return channel_create(channel, RING_SIZE, &allowance);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* A file that a hostile peer may hand over. */
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

	assert_ok(create(&out));
	assert_true(fcntl(out.fd, F_GETFD) & FD_CLOEXEC);
	assert_ok(channel_map(&in, dup(out.fd)));
	assert_ptr_not_equal(in.memory, out.memory);
	assert_int_equal(in.ring.size, RING_SIZE);
	payload = ring_reserve(&out.ring, 5);
	memcpy(payload, "hello", 5);
	ring_commit(&out.ring, 5, 1, 2);
	assert_int_equal(ring_peek(&in.ring, &entry), 1);
	assert_int_equal(entry.length, 5);
	assert_memory_equal(entry.payload, "hello", 5);
	/* The ring is mapped twice in a row, at both ends. */
	in.ring.base[3] = 77;
	assert_int_equal(in.ring.base[RING_SIZE + 3], 77);
	assert_int_equal(out.ring.base[RING_SIZE + 3], 77);
	channel_destroy(&in);
	channel_destroy(&out);
	assert_false(is_open(in.fd));
	assert_false(is_open(out.fd));
}

/* The file cannot be truncated: that would raise SIGBUS at the other end. */
static void test_sealed(void **state)
{
	struct channel channel;

	assert_ok(create(&channel));
	assert_int_equal(ftruncate(channel.fd, 0), -1);
	assert_int_equal(ftruncate(channel.fd, 1 << 20), -1);
	channel_destroy(&channel);
}

static void refuse_channel(int fd, const char *what)
{
	struct channel channel = { .fd = -1 };

	if (channel_map(&channel, fd) == PF_OK)
		fail_msg("accepted: %s", what);
	if (is_open(fd))
		fail_msg("descriptor stays open: %s", what);
}

static void test_hostile_files(void **state)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	const off_t header = (off_t)sizeof(struct channel_memory), good = header + 16384;
	uint64_t head[2], wrong_magic[2], too_large[2], no_size[2];
	const struct {
		const char *what;
		off_t size;
		int seals;
		const uint64_t *head;
	} cases[] = {
		{ "unsealed", good, 0, head },
		{ "may shrink", good, F_SEAL_GROW, head },
		{ "empty", 0, seals, NULL },
		{ "sixteen bytes", 16, seals, head },
		{ "no ring", header, seals, head },
		{ "ring of one byte", header + 1, seals, head },
		{ "ring too small", header + 8192, seals, head },
		{ "ring no power of two", good + (off_t)PAGE, seals, head },
		{ "ring too large", header + ((off_t)2 << 30), seals, head },
		{ "no magic", good, seals, NULL },
		{ "wrong magic", good, seals, wrong_magic },
		{ "ring larger than the file", good, seals, too_large },
		{ "ring of no size", good, seals, no_size },
	};
	struct channel model;
	int ends[2];
	size_t i;

	assert_ok(create(&model));
	memcpy(head, model.memory, sizeof(head));
	channel_destroy(&model);

	memcpy(wrong_magic, head, sizeof(head));
	memcpy(too_large, head, sizeof(head));
	memcpy(no_size, head, sizeof(head));
	wrong_magic[0] ^= 1;
	too_large[1] = 2 * RING_SIZE;
	no_size[1] = 0;
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		refuse_channel(make_file(cases[i].size, cases[i].seals, cases[i].head,
					 cases[i].head ? sizeof(head) : 0),
			       cases[i].what);
	refuse_channel(open("/dev/zero", O_RDWR), "a device");
	refuse_channel(open("/", O_RDONLY | O_DIRECTORY), "a folder");
	assert_int_equal(pipe(ends), 0);
	close(ends[1]);
	refuse_channel(ends[0], "a pipe");

	/* The unchanged file is accepted. */
	struct channel channel;

	assert_ok(channel_map(&channel, make_file(good, seals, head, 16)));
	channel_destroy(&channel);
}

static void test_read_only_file(void **state)
{
	struct channel model;
	char path[64];
	int fd;

	assert_ok(create(&model));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", model.fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	refuse_channel(fd, "read only");
	channel_destroy(&model);
}

static void test_hostile_inbox(void **state)
{
	static const struct {
		off_t size;
		int seals;
	} files[] = {
		{ PAGE, 0 },
		{ PAGE, F_SEAL_GROW },
		{ 0, F_SEAL_SHRINK },
		{ PAGE - 1, F_SEAL_SHRINK },
		{ 2 * PAGE, F_SEAL_SHRINK },
	};
	struct inbox inbox;
	size_t i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		fd = make_file(files[i].size, files[i].seals, NULL, 0);
		assert_int_not_equal(inbox_map(&inbox, fd), PF_OK);
		assert_false(is_open(fd));
	}
	fd = make_file(PAGE, F_SEAL_SHRINK, NULL, 0);
	assert_ok(inbox_map(&inbox, fd));
	assert_false(is_open(fd));
	/* The other side chooses the slot number: none accesses memory outside the page. */
	inbox_ring(inbox.memory, 0);
	inbox_ring(inbox.memory, INBOX_SLOTS - 1);
	inbox_ring(inbox.memory, INBOX_SLOTS);
	inbox_ring(inbox.memory, INBOX_NO_SLOT);
	inbox_destroy(&inbox);
}

/* A page between two that are mapped without permissions, so that no other mapping uses them. */
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

	assert_ok(create(&channel));
	for (start = RING_SIZE - 8192; start < RING_SIZE; start += 8) {
		uint8_t *payload = channel.ring.base + start;

		for (i = 0; i < ARRAY_SIZE(lengths); i++) {
			size_t length = lengths[i];

			pattern_fill(from, length, start);
			memset(to, 0x55, sizeof(to));
			payload[length] = 0x77;
			assert_int_equal(channel_fill(&channel, payload, from, length), length);
			assert_pattern(payload, length, start);
			assert_int_equal(payload[length], 0x77);
			assert_int_equal(channel_place(&channel, payload, to + 1, length), length);
			assert_pattern(to + 1, length, start);
			assert_int_equal(to[0], 0x55);
			assert_int_equal(to[length + 1], 0x55);
		}
	}
	channel_destroy(&channel);
}

static void test_bad_memory(void **state)
{
	uint8_t *at[2];
	struct channel channel;
	char *page = island();
	size_t i;

	assert_ok(create(&channel));
	at[0] = channel.ring.base;
	at[1] = channel.ring.base + RING_SIZE - 104; /* over the wrap */
	pattern_fill(page, PAGE, 1);
	for (i = 0; i < 2; i++) {
		assert_int_equal(channel_fill(&channel, at[i], page + PAGE, 200), 0);
		assert_int_equal(channel_fill(&channel, at[i], page - 1, 200), 0);
		assert_int_equal(channel_fill(&channel, at[i], page + PAGE - 150, 200), 150);
		assert_int_equal(channel_fill(&channel, at[i], page + PAGE - 3, 200), 3);
		assert_int_equal(channel_fill(&channel, at[i], page, PAGE + 8), PAGE);
		assert_pattern(at[i], PAGE, 1);
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
		cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_hostile_files), cmocka_unit_test(test_read_only_file),
		cmocka_unit_test(test_hostile_inbox), cmocka_unit_test(test_fill_and_place),
		cmocka_unit_test(test_bad_memory),
	};

	return cmocka_run_group_tests_name("channel", tests, NULL, NULL);
}
