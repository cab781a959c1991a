/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/calibration.h"
#include "base/options.h"

static char folder[64];

static int make_folder(void **state)
{
	char path[96];

	snprintf(folder, sizeof(folder), "%s/libpf-test.XXXXXX",
		 getenv("TMPDIR") && strlen(getenv("TMPDIR")) < 40 ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(folder))
		return -1;
	setenv("XDG_CACHE_HOME", folder, 1);
	snprintf(path, sizeof(path), "%s/libpf", folder);
	return mkdir(path, 0700);
}

static int remove_folder(void **state)
{
	char path[96];

	calibration_user_path(path, sizeof(path));
	unlink(path);
	snprintf(path, sizeof(path), "%s/libpf", folder);
	rmdir(path);
	return rmdir(folder);
}

static int no_variables(void **state)
{
	unsetenv("LIBPF_SHARE_MIN");
	unsetenv("LIBPF_EAGER_LIMIT");
	unsetenv("LIBPF_CALIBRATE");
	return 0;
}

/* machine NULL: this machine. */
static void write_path(const char *path, const char *title, const char *machine, const char *rest)
{
	char here[320];
	FILE *file;

	pf_calibration_machine(here, sizeof(here));
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%s\nmachine = %s\n%s", title, machine ? machine : here, rest);
	assert_int_equal(fclose(file), 0);
}

static void write_file(const char *title, const char *machine, const char *rest)
{
	char path[96];

	calibration_user_path(path, sizeof(path));
	write_path(path, title, machine, rest);
}

static void test_path(void **state)
{
	char path[128], expected[128];
	int length;

	length = pf_calibration_path(path, sizeof(path));
	snprintf(expected, sizeof(expected), "%s/libpf/calibration", folder);
	assert_string_equal(path, expected);
	assert_int_equal(length, strlen(expected));
	assert_int_equal(pf_calibration_path(path, 5), strlen(expected));

	/* A relative cache folder is invalid by the XDG specification: ignored. */
	setenv("XDG_CACHE_HOME", "relative", 1);
	setenv("HOME", "/home/user", 1);
	pf_calibration_path(path, sizeof(path));
	assert_string_equal(path, "/home/user/.cache/libpf/calibration");
	setenv("XDG_CACHE_HOME", folder, 1);
}

/* The user's file comes first, unless it was made on another machine. */
static void test_system(void **state)
{
	const char *usual = calibration_system;
	pf_options options;
	char own[96], path[96], all[96];

	assert_int_equal(pf_options_init(&options, sizeof(options), NULL), PF_OK);
	calibration_user_path(own, sizeof(own));
	snprintf(all, sizeof(all), "%s/all", folder);
	calibration_system = all;
	pf_calibration_path(path, sizeof(path));
	assert_string_equal(path, own);

	write_file(CALIBRATION_TITLE, NULL, "share_min = 96K\n");
	assert_int_equal(rename(own, all), 0);
	pf_calibration_path(path, sizeof(path));
	assert_string_equal(path, all);
	assert_int_equal(pf_calibration_path(path, 5), strlen(all));
	assert_int_equal(options_read_calibration(&options, NULL), PF_OK);
	assert_int_equal(options.share_min, 96 << 10);

	write_file(CALIBRATION_TITLE, "another machine", "share_min = 80K\n");
	assert_int_equal(options_read_calibration(&options, NULL), PF_OK);
	assert_int_equal(options.share_min, 96 << 10);
	write_file(CALIBRATION_TITLE, NULL, "share_min = 80K\n");
	assert_int_equal(options_read_calibration(&options, NULL), PF_OK);
	assert_int_equal(options.share_min, 80 << 10);

	/* Neither is of this machine: what is wrong with the user's is reported. */
	write_path(all, CALIBRATION_TITLE, "another machine", "");
	write_file(CALIBRATION_TITLE, "another machine", "");
	pf_calibration_path(path, sizeof(path));
	assert_string_equal(path, own);
	assert_int_equal(options_read_calibration(&options, NULL), PF_ERR_REFUSED);
	unlink(own);
	unlink(all);
	calibration_system = usual;
}

static void test_read(void **state)
{
	pf_options before, options;

	assert_int_equal(pf_options_init(&before, sizeof(before), NULL), PF_OK);
	options = before;
	assert_int_equal(options_read_calibration(&options, NULL), PF_ERR_SYSTEM);

	write_file(CALIBRATION_TITLE, NULL,
		   "# measured\n\nshare_min = 96K\neager_limit = 2048\nnot_yet_invented = 5\n");
	assert_int_equal(options_read_calibration(&options, NULL), PF_OK);
	assert_int_equal(options.share_min, 96 << 10);
	assert_int_equal(options.eager_limit, 2048);
	options.share_min = before.share_min;
	options.eager_limit = before.eager_limit;
	assert_memory_equal(&options, &before, sizeof(options));
}

static enum option_origin origin_of(const enum option_origin *origins, const char *name)
{
	const pf_option_info *info = pf_option_table();

	while (strcmp(info->name, name) != 0)
		info++;
	return origins[info - pf_option_table()];
}

static void test_precedence(void **state)
{
	enum option_origin origins[OPTIONS_MAX];
	pf_options options, defaults;

	setenv("LIBPF_CALIBRATE", "0", 1);
	write_file(CALIBRATION_TITLE, NULL, "share_min = 96K\neager_limit = 2048\n");
	assert_int_equal(options_load(&defaults, origins, NULL), PF_OK);
	assert_int_not_equal(defaults.share_min, 96 << 10);
	assert_int_not_equal(defaults.eager_limit, 2048);
	assert_int_equal(origin_of(origins, "calibrate"), OPTION_ENVIRONMENT);
	assert_int_equal(origin_of(origins, "share_min"), OPTION_DEFAULT);

	unsetenv("LIBPF_CALIBRATE");
	setenv("LIBPF_SHARE_MIN", "7000", 1);
	assert_int_equal(options_load(&options, origins, NULL), PF_OK);
	assert_int_equal(options.share_min, 7000);
	assert_int_equal(options.eager_limit, 2048);
	assert_int_equal(options.ring_size, defaults.ring_size);
	assert_int_equal(origin_of(origins, "share_min"), OPTION_ENVIRONMENT);
	assert_int_equal(origin_of(origins, "eager_limit"), OPTION_CALIBRATION);
	assert_int_equal(origin_of(origins, "ring_size"), OPTION_DEFAULT);
	assert_int_equal(pf_options_default(&options, sizeof(options)), PF_OK);
	assert_int_equal(options.share_min, 96 << 10);

	/* An invalid variable leaves its option, and where that comes from, as it was. */
	setenv("LIBPF_SHARE_MIN", "seven", 1);
	assert_int_equal(options_load(&options, origins, NULL), PF_ERR_ARGUMENT);
	assert_int_equal(options.share_min, 96 << 10);
	assert_int_equal(origin_of(origins, "share_min"), OPTION_CALIBRATION);
}

/* Machines that differ in their processors have different names. */
static void test_processor(void **state)
{
	static const struct {
		const char *cpuinfo, *name;
	} processors[] = {
		{ "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
		  "model name\t: Intel(R) Xeon(R)\nstepping\t: 8\n\nprocessor\t: 1\n"
		  "vendor_id\t: Other\n",
		  "GenuineIntel 6 143 Intel(R) Xeon(R)" },
		{ "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd evtstrm aes\n"
		  "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\n"
		  "CPU part\t: 0xd0c\nCPU revision\t: 1\n\n",
		  "0x41 0x3 0xd0c 1" },
		{ "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\n"
		  "CPU part\t: 0xd40\nCPU revision\t: 1\n",
		  "0x41 0x1 0xd40 1" },
		{ "processor\t: 0\nhart\t\t: 0\n", "unknown processor" },
	};
	char name[64], cut[8];
	FILE *cpuinfo;
	size_t i;

	for (i = 0; i < sizeof(processors) / sizeof(processors[0]); i++) {
		cpuinfo = fmemopen((void *)(uintptr_t)processors[i].cpuinfo,
				   strlen(processors[i].cpuinfo), "r");
		calibration_processor(cpuinfo, name, sizeof(name));
		assert_string_equal(name, processors[i].name);
		rewind(cpuinfo);
		calibration_processor(cpuinfo, cut, sizeof(cut));
		assert_memory_equal(cut, name, sizeof(cut) - 1);
		fclose(cpuinfo);
	}
}

static void test_ignored(void **state)
{
	static const char *const malformed[] = {
		"share_min\n",
		"share_min = \n",
		"share_min=96K\n",
		"share_min = 96K more\n",
		"share_min = fast\n",
		"share_min = 1\n",      /* out of range */
		"ring_size = 100000\n", /* no power of two */
		"share_min = 96K\neager_limit = -1\n",
		"share_min = 96K\n\x01\x02\x03\n",
		"share_min = 00000000000000000000000000000000000000096K\n",
		"a_name_that_is_longer_than_any_option = 96K\n",
	};
	char huge[2048];
	pf_options defaults, options;
	size_t i;

	setenv("LIBPF_CALIBRATE", "0", 1);
	assert_int_equal(pf_options_init(&defaults, sizeof(defaults), NULL), PF_OK);
	unsetenv("LIBPF_CALIBRATE");
	defaults.calibrate = 1;

	write_file(CALIBRATION_TITLE, "a Cray-1, 1 cores, Linux 0.01", "share_min = 96K\n");
	options = defaults;
	assert_int_equal(options_read_calibration(&options, NULL), PF_ERR_REFUSED);
	assert_memory_equal(&options, &defaults, sizeof(options));
	assert_int_equal(pf_options_init(&options, sizeof(options), NULL), PF_OK);
	assert_memory_equal(&options, &defaults, sizeof(options));

	write_file("# libpf calibration 1", NULL, "share_min = 96K\n");
	assert_int_equal(options_read_calibration(&options, NULL), PF_ERR_ARGUMENT);
	write_file("", NULL, "share_min = 96K\n");
	assert_int_equal(options_read_calibration(&options, NULL), PF_ERR_ARGUMENT);

	for (i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		write_file(CALIBRATION_TITLE, NULL, malformed[i]);
		if (options_read_calibration(&options, NULL) != PF_ERR_ARGUMENT)
			fail_msg("taken: %s", malformed[i]);
		/* All or nothing: the good lines before the bad one do not count. */
		assert_memory_equal(&options, &defaults, sizeof(options));
		assert_int_equal(pf_options_init(&options, sizeof(options), NULL), PF_OK);
		assert_memory_equal(&options, &defaults, sizeof(options));
	}

	memset(huge, 'x', sizeof(huge) - 1);
	huge[sizeof(huge) - 1] = 0;
	write_file(CALIBRATION_TITLE, huge, "share_min = 96K\n");
	assert_int_equal(options_read_calibration(&options, NULL), PF_ERR_REFUSED);
	write_file(CALIBRATION_TITLE, NULL, huge);
	assert_int_equal(options_read_calibration(&options, NULL), PF_ERR_ARGUMENT);
	assert_memory_equal(&options, &defaults, sizeof(options));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_path, no_variables),
		cmocka_unit_test_setup(test_system, no_variables),
		cmocka_unit_test_setup(test_read, no_variables),
		cmocka_unit_test_setup(test_precedence, no_variables),
		cmocka_unit_test_setup(test_processor, no_variables),
		cmocka_unit_test_setup(test_ignored, no_variables),
	};

	return cmocka_run_group_tests_name("calibration", tests, make_folder, remove_folder);
}
