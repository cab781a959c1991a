/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/calibration.h"
#include "base/location.h"
#include "base/options.h"

static char folder[64];

static int make_folder(void **state)
{
	snprintf(folder, sizeof(folder), "%s/libpf-test.XXXXXX",
		 getenv("TMPDIR") && strlen(getenv("TMPDIR")) < 40 ? getenv("TMPDIR") : "/tmp");
	location_sysfs = folder;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *file, int kind, struct FTW *position)
{
	return remove(path);
}

static int remove_folder(void **state)
{
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* One line in a file of the folder, and the folders above it. */
static __attribute__((format(printf, 2, 3))) void write_line(const char *line, const char *format,
							     ...)
{
	char path[256];
	va_list arguments;
	size_t length = (size_t)snprintf(path, sizeof(path), "%s/", folder), i;
	FILE *file;

	va_start(arguments, format);
	vsnprintf(path + length, sizeof(path) - length, format, arguments);
	va_end(arguments);
	for (i = length; path[i]; i++) {
		if (path[i] != '/')
			continue;
		path[i] = 0;
		assert_true(!mkdir(path, 0700) || errno == EEXIST);
		path[i] = '/';
	}
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%s\n", line);
	assert_int_equal(fclose(file), 0);
}

#define CPU "devices/system/cpu/cpu"
#define NODE "devices/system/node/"

/*
 * Two nodes, 0 and 4. Node 0 has processors 0-3 and 8-11; 8 is the other thread of the core of 0,
 * and so on; 0, 1 and their threads share a cache, as do 2 and 3. Node 4 has 4-7 and 12-15 likewise.
 */
static void make_machine(void)
{
	static const char *const caches[] = { "0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15" };
	char core[16];
	unsigned i;

	write_line("0,4", NODE "has_cpu");
	write_line("0-3,8-11", NODE "node0/cpulist");
	write_line("4-7,12-15", NODE "node4/cpulist");
	/* Memory without processors. */
	write_line("", NODE "node5/cpulist");
	for (i = 0; i < 16; i++) {
		snprintf(core, sizeof(core), "%u,%u", i % 8, i % 8 + 8);
		write_line(core, CPU "%u/topology/thread_siblings_list", i);
		write_line(core, CPU "%u/cache/index0/shared_cpu_list", i);
		write_line(core, CPU "%u/cache/index1/shared_cpu_list", i);
		write_line(core, CPU "%u/cache/index2/shared_cpu_list", i);
		write_line(caches[i % 8 / 2], CPU "%u/cache/index3/shared_cpu_list", i);
	}
}

/* Processors as bits. */
static struct location bound(unsigned processors)
{
	cpu_set_t set;
	unsigned i;

	CPU_ZERO(&set);
	for (i = 0; i < 32; i++) {
		if (processors >> i & 1)
			CPU_SET(i, &set);
	}
	return location_of(&set, sizeof(set));
}

#define assert_location(processors, core_, cache_, node_)                                          \
	do {                                                                                       \
		struct location found_ = bound(processors);                                        \
		assert_int_equal(found_.core, core_);                                              \
		assert_int_equal(found_.cache, cache_);                                            \
		assert_int_equal(found_.node, node_);                                              \
	} while (0)

static void test_locations(void **state)
{
	make_machine();
	assert_location(1 << 0, 1, 1, 1);
	assert_location(1 << 8, 1, 1, 1);
	assert_location(1 << 0 | 1 << 8, 1, 1, 1);
	assert_location(1 << 11, 4, 3, 1);
	/* Two cores that share a cache, two that do not, two nodes. */
	assert_location(1 << 0 | 1 << 1, 0, 1, 1);
	assert_location(1 << 0 | 1 << 2, 0, 0, 1);
	assert_location(1 << 0 | 1 << 4, 0, 0, 0);
	assert_location(0xf0f0, 0, 0, 5);
	assert_location(1 << 15, 8, 7, 5);
	assert_location(0xffff, 0, 0, 0);
	/* A processor that sysfs does not have. */
	assert_location(1 << 20, 0, 0, 0);
}

static enum distance between(unsigned a, unsigned b)
{
	struct location here = bound(a), there = bound(b);

	assert_int_equal(location_distance(&here, &there), location_distance(&there, &here));
	return location_distance(&here, &there);
}

static void test_distances(void **state)
{
	const struct location unknown = { 0 };
	struct location known;

	make_machine();
	known = bound(1);
	assert_int_equal(between(1 << 0, 1 << 8), DISTANCE_SAME_CORE);
	assert_int_equal(between(1 << 0, 1 << 1), DISTANCE_SHARED_CACHE);
	assert_int_equal(between(1 << 0, 1 << 9), DISTANCE_SHARED_CACHE);
	assert_int_equal(between(1 << 0, 1 << 2), DISTANCE_SAME_NODE);
	assert_int_equal(between(1 << 0, 1 << 4), DISTANCE_OTHER_NODE);
	/* Bound to a node each: what they have in common is the node, or nothing. */
	assert_int_equal(between(0x0f0f, 0x0f0f), DISTANCE_SAME_NODE);
	assert_int_equal(between(0x0f0f, 0xf0f0), DISTANCE_OTHER_NODE);
	assert_int_equal(between(0x0f0f, 1 << 2), DISTANCE_SAME_NODE);
	/* One may run anywhere. */
	assert_int_equal(between(0xffff, 1 << 2), DISTANCE_UNKNOWN);
	assert_int_equal(between(0xffff, 0xffff), DISTANCE_UNKNOWN);
	assert_int_equal(location_distance(&known, &unknown), DISTANCE_UNKNOWN);
	assert_int_equal(location_distance(&unknown, &unknown), DISTANCE_UNKNOWN);
}

static void test_names(void **state)
{
	enum distance distance;

	assert_null(distance_name(DISTANCE_UNKNOWN));
	for (distance = DISTANCE_UNKNOWN + 1; distance < DISTANCES; distance++)
		assert_int_equal(distance_parse(distance_name(distance)), distance);
	assert_int_equal(distance_parse("other"), DISTANCE_UNKNOWN);
	assert_int_equal(distance_parse(""), DISTANCE_UNKNOWN);
}

/* As in a virtual machine without caches, in a container without sysfs, and with contents that no kernel writes. */
static void test_incomplete(void **state)
{
	assert_location(1, 0, 0, 0);
	write_line("0", NODE "has_cpu");
	write_line("0-1", NODE "node0/cpulist");
	assert_location(1, 0, 0, 1);
	assert_int_equal(between(1, 2), DISTANCE_SAME_NODE);
	write_line("0-4000000000", NODE "node0/cpulist");
	assert_location(1, 0, 0, 1);
	write_line("3-1", NODE "node0/cpulist");
	assert_location(1, 0, 0, 0);
	write_line("-1", NODE "node0/cpulist");
	assert_location(1, 0, 0, 0);
	write_line("70000", NODE "has_cpu");
	assert_location(1, 0, 0, 0);
}

static void test_interfaces(void **state)
{
	struct location near, unknown = { 0 };

	make_machine();
	near = bound(1);
	write_line("0", "class/net/eth0/device/numa_node");
	write_line("4", "class/net/ib1/device/numa_node");
	write_line("-1", "class/net/eth2/device/numa_node");
	assert_false(location_is_far(&near, "eth0"));
	assert_true(location_is_far(&near, "ib1"));
	assert_false(location_is_far(&near, "eth2"));
	assert_false(location_is_far(&near, "bond0"));
	assert_false(location_is_far(&unknown, "ib1"));
}

/* The calibration file has values of share_min for some distances. */
static void test_share_min(void **state)
{
	uint64_t share_min[DISTANCES];
	char path[128], machine[320];
	pf_options options;
	FILE *file;

	unsetenv("LIBPF_SHARE_MIN");
	unsetenv("LIBPF_CALIBRATE");
	setenv("XDG_CACHE_HOME", folder, 1);
	pf_calibration_machine(machine, sizeof(machine));
	calibration_user_path(path, sizeof(path));
	write_line("", "libpf/calibration");
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file,
		CALIBRATION_TITLE "\nmachine = %s\nshare_min = 96K\nshare_min.other_node = 32K\n"
				  "share_min.same_core = 1\nshare_min.moon = 5\n",
		machine);
	assert_int_equal(fclose(file), 0);

	assert_int_equal(pf_options_init(&options, sizeof(options), NULL), PF_OK);
	assert_int_equal(options.share_min, 96 << 10);
	options_read_share_min(&options, share_min);
	assert_int_equal(share_min[DISTANCE_UNKNOWN], 96 << 10);
	assert_int_equal(share_min[DISTANCE_SHARED_CACHE], 96 << 10);
	assert_int_equal(share_min[DISTANCE_OTHER_NODE], 32 << 10);
	/* Out of range. */
	assert_int_equal(share_min[DISTANCE_SAME_CORE], 96 << 10);

	/* What was set otherwise is for all distances. */
	options.share_min = 128 << 10;
	options_read_share_min(&options, share_min);
	assert_int_equal(share_min[DISTANCE_OTHER_NODE], 128 << 10);
	options.share_min = 96 << 10;
	options.calibrate = 0;
	options_read_share_min(&options, share_min);
	assert_int_equal(share_min[DISTANCE_OTHER_NODE], 96 << 10);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
	const struct CMUnitTest tests[] = {
		IN_FOLDER(test_locations),    IN_FOLDER(test_distances),
		cmocka_unit_test(test_names), IN_FOLDER(test_incomplete),
		IN_FOLDER(test_interfaces),   IN_FOLDER(test_share_min),
	};

	return cmocka_run_group_tests_name("location", tests, NULL, NULL);
}
