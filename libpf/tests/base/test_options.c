/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "base/options.h"

static const pf_option_info *find(const char *name)
{
	const pf_option_info *info;

	for (info = pf_option_table(); info->name; info++) {
		if (!strcmp(info->name, name))
			return info;
	}
	fail_msg("no option %s", name);
	return NULL;
}

/* Without variables and without a calibration file. */
static int clean(void **state)
{
	const pf_option_info *info;
	const pf_text_info *text;
	char name[64];

	for (info = pf_option_table(); info->name; info++) {
		option_variable(info->name, name, sizeof(name));
		unsetenv(name);
	}
	for (text = pf_text_table(); text->name; text++) {
		option_variable(text->name, name, sizeof(name));
		unsetenv(name);
	}
	setenv("XDG_CACHE_HOME", "/nonexistent", 1);
	return 0;
}

static void test_table(void **state)
{
	const pf_option_info *info, *other;
	const pf_text_info *text;
	size_t count = 0;

	for (info = pf_option_table(); info->name; info++, count++) {
		assert_true(info->offset % sizeof(uint64_t) == 0);
		assert_true(info->offset < sizeof(pf_options));
		assert_true(info->minimum <= info->maximum);
		assert_in_range(info->level, 1, 9);
		assert_true(strlen(info->help) > 10);
		for (other = pf_option_table(); other != info; other++) {
			assert_true(other->offset != info->offset);
			assert_string_not_equal(other->name, info->name);
		}
	}
	for (text = pf_text_table(); text->name; text++, count++) {
		assert_true(text->offset % sizeof(char *) == 0);
		assert_true(text->offset < sizeof(pf_options));
		assert_in_range(text->level, 1, 9);
		assert_true(strlen(text->help) > 10);
	}
	/* All fields but size, data and data_length, which only a program sets. */
	assert_int_equal(count + 3, sizeof(pf_options) / sizeof(uint64_t));
}

static void test_defaults(void **state)
{
	const pf_option_info *info;
	pf_options options;

	memset(&options, 0xff, sizeof(options));
	assert_int_equal(pf_options_init(&options, sizeof(options), NULL), PF_OK);
	for (info = pf_option_table(); info->name; info++)
		assert_true(option_valid(info, *option_field(&options, info)));
	assert_int_equal(options.single_copy, 1);
	assert_int_equal(options.threads, 0);
	assert_int_equal(options.wake, 0);
}

static void test_parse(void **state)
{
	static const struct {
		const char *text;
		uint64_t value;
	} good[] = {
		{ "0", 0 },
		{ "1", 1 },
		{ "4096", 4096 },
		{ "64k", 64 << 10 },
		{ "64K", 64 << 10 },
		{ "3m", 3 << 20 },
		{ "2G", 2ull << 30 },
		{ "18446744073709551615", UINT64_MAX },
		{ "17179869183G", 17179869183ull << 30 },
	};
	static const char *const bad[] = {
		"",
		" 1",
		"1 ",
		"-1",
		"+1",
		"K",
		"1KB",
		"1KK",
		"1T",
		"1.5K",
		"four",
		"1,0",
		"0b1",
		"1\n",
		"\t1",
		"1e6",
		"18446744073709551616",
		"17179869184G",
		"99999999999999999999999",
	};
	uint64_t value;
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (!number_parse(good[i].text, &value))
			fail_msg("'%s' is refused", good[i].text);
		assert_true(value == good[i].value);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (number_parse(bad[i], &value))
			fail_msg("'%s' is taken", bad[i]);
	}
	/* 0100 is one hundred: numbers are decimal. */
	assert_true(number_parse("0100", &value) && value == 100);
}

static void test_ranges(void **state)
{
	const pf_option_info *ring = find("ring_size"), *block = find("block_size");
	const pf_option_info *share = find("share_min"), *copy = find("single_copy");

	assert_true(option_valid(ring, 16384));
	assert_true(option_valid(ring, 1 << 30));
	assert_false(option_valid(ring, 8192));
	assert_false(option_valid(ring, 1ull << 31));
	assert_false(option_valid(ring, 49152));
	assert_false(option_valid(block, 4096 + 512));
	assert_true(option_valid(share, UINT64_MAX));
	assert_true(option_valid(share, 5000));
	assert_false(option_valid(copy, 2));
}

/* A choice accepts names and numbers, and every value of it has a name. */
static void test_names(void **state)
{
	static const char *const bad[] = {
		"", "hug", "Huge", "huge ", "4", "-1", "touch,huge", "1K"
	};
	const pf_option_info *network = find("network"), *policy = find("policy");
	const pf_option_info *info;
	char number[32], allowed[128], cut[8];
	uint64_t value, parsed;
	size_t i;

	for (info = pf_option_table(); info->name; info++) {
		assert_null(option_value_name(info, info->maximum + 1));
		for (value = info->minimum; info->names && value <= info->maximum; value++) {
			const char *name = option_value_name(info, value);

			assert_non_null(name);
			assert_true(option_parse(info, name, &parsed) && parsed == value);
			snprintf(number, sizeof(number), "%llu", (unsigned long long)value);
			assert_true(option_parse(info, number, &parsed) && parsed == value);
		}
		if (info->names)
			assert_null(info->names[info->maximum - info->minimum + 1]);
		else
			assert_null(option_value_name(info, info->minimum));
	}
	assert_true(option_parse(network, "always", &parsed) && parsed == PF_NETWORK_ALWAYS);
	assert_true(option_parse(policy, "huge", &parsed) && parsed == PF_POLICY_HUGE);
	/* Each option has names of its own; an invalid one changes nothing. */
	assert_false(option_parse(policy, "always", &parsed));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (option_parse(policy, bad[i], &parsed))
			fail_msg("'%s' is taken", bad[i]);
	}
	assert_int_equal(parsed, PF_POLICY_HUGE);
	option_allowed(policy, allowed, sizeof(allowed));
	assert_string_equal(allowed, "touch, ahead, huge or adaptive");
	option_allowed(find("threads"), allowed, sizeof(allowed));
	assert_string_equal(allowed, "from 0 to 1");
	option_allowed(find("ring_size"), allowed, sizeof(allowed));
	assert_string_equal(allowed, "a power of two from 16384 to 1073741824");
	option_allowed(policy, cut, sizeof(cut));
	assert_string_equal(cut, "touch, ");
}

static void test_environment(void **state)
{
	pf_options before, options;

	assert_int_equal(pf_options_init(&before, sizeof(before), NULL), PF_OK);
	setenv("LIBPF_RING_SIZE", "1M", 1);
	setenv("LIBPF_SHARE_MIN", "5000", 1);
	setenv("LIBPF_THREADS", "1", 1);
	setenv("LIBPF_NETWORK", "always", 1);
	setenv("LIBPF_POLICY", "1", 1);
	assert_int_equal(pf_options_init(&options, sizeof(options), NULL), PF_OK);
	assert_int_equal(options.network, PF_NETWORK_ALWAYS);
	assert_int_equal(options.policy, PF_POLICY_AHEAD);
	assert_int_equal(options.ring_size, 1 << 20);
	assert_int_equal(options.share_min, 5000);
	assert_int_equal(options.threads, 1);
	assert_int_equal(options.eager_limit, before.eager_limit);
	assert_int_equal(options.run_max, before.run_max);
}

/* No variable counts, right or wrong, but LIBPF_CALIBRATE. */
static void test_default(void **state)
{
	const pf_option_info *info;
	const pf_text_info *text;
	pf_options before, options;
	char name[64];

	assert_int_equal(pf_options_init(&before, sizeof(before), NULL), PF_OK);
	for (text = pf_text_table(); text->name; text++) {
		option_variable(text->name, name, sizeof(name));
		setenv(name, "lo", 1);
	}
	for (info = pf_option_table(); info->name; info++) {
		option_variable(info->name, name, sizeof(name));
		setenv(name, "16384", 1);
	}
	memset(&options, 0xff, sizeof(options));
	assert_int_equal(pf_options_default(&options, sizeof(options)), PF_OK);
	assert_memory_equal(&options, &before, sizeof(options));
	setenv("LIBPF_CALIBRATE", "0", 1);
	assert_int_equal(pf_options_default(&options, sizeof(options)), PF_OK);
	assert_int_equal(options.calibrate, 0);
	options.calibrate = 1;
	assert_memory_equal(&options, &before, sizeof(options));
	assert_int_equal(pf_options_default(&options, sizeof(size_t) - 1), PF_ERR_ARGUMENT);
	assert_int_equal(pf_options_default(&options, offsetof(pf_options, network)), PF_OK);
	assert_int_equal(options.size, offsetof(pf_options, network));
}

static void test_culprit(void **state)
{
	static const struct {
		const char *variable, *text, *name;
	} wrong[] = {
		{ "LIBPF_EAGER_LIMIT", "4 KiB", "eager_limit" },
		{ "LIBPF_EAGER_LIMIT", "", "eager_limit" },
		{ "LIBPF_RING_SIZE", "100000", "ring_size" },
		{ "LIBPF_PEER_TIMEOUT", "0", "peer_timeout" },
		{ "LIBPF_CALIBRATE", "yes", "calibrate" },
		{ "LIBPF_NETWORK", "lock", "network" },
		{ "LIBPF_POLICY", "4", "policy" },
	};
	const pf_option_info *culprit;
	pf_options before, options;
	size_t i;

	assert_int_equal(pf_options_init(&before, sizeof(before), NULL), PF_OK);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setenv(wrong[i].variable, wrong[i].text, 1);
		culprit = NULL;
		assert_int_equal(pf_options_init(&options, sizeof(options), &culprit),
				 PF_ERR_ARGUMENT);
		assert_non_null(culprit);
		assert_string_equal(culprit->name, wrong[i].name);
		assert_memory_equal(&options, &before, sizeof(options));
		assert_int_equal(pf_options_init(&options, sizeof(options), NULL), PF_ERR_ARGUMENT);
		unsetenv(wrong[i].variable);
	}
	/* The other variables count all the same. */
	setenv("LIBPF_RING_SIZE", "7", 1);
	setenv("LIBPF_RUN_MAX", "8192", 1);
	assert_int_equal(pf_options_init(&options, sizeof(options), &culprit), PF_ERR_ARGUMENT);
	assert_int_equal(options.run_max, 8192);
	assert_int_equal(options.ring_size, before.ring_size);
}

/* pf_open refuses an invalid option wherever it comes from, and pf_options_error names it. */
static void test_open_checks(void **state)
{
	static const struct {
		const char *variable, *value, *text;
	} wrong[] = {
		{ "LIBPF_AUTH", "encrpyt",
		  "LIBPF_AUTH=encrpyt is invalid: must be header, full or encrypt" },
		{ "LIBPF_RING_SIZE", "100000",
		  "LIBPF_RING_SIZE=100000 is invalid: must be a power of two from 16384 to 1073741824" },
		{ "LIBPF_IF_INCLUDE", "lo,10.0.0.0/99",
		  "LIBPF_IF_INCLUDE=lo,10.0.0.0/99 is invalid: must be names, addresses or networks "
		  "(10.0.0.0/8) separated by commas" },
	};
	pf_context *context = NULL;
	pf_options options;
	char text[256];
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setenv(wrong[i].variable, wrong[i].value, 1);
		assert_int_equal(pf_open(NULL, NULL, &context), PF_ERR_ARGUMENT);
		assert_null(context);
		assert_int_equal(pf_options_error(NULL, text, sizeof(text)), strlen(wrong[i].text));
		assert_string_equal(text, wrong[i].text);
		unsetenv(wrong[i].variable);
	}
	assert_int_equal(pf_options_error(NULL, text, sizeof(text)), 0);
	assert_string_equal(text, "");
	assert_int_equal(pf_options_init(&options, sizeof(options), NULL), PF_OK);
	options.threads = 2;
	assert_int_equal(pf_open(&options, NULL, &context), PF_ERR_ARGUMENT);
	pf_options_error(&options, text, sizeof(text));
	assert_string_equal(text, "threads=2 is invalid: must be from 0 to 1");
	options.threads = 0;
	options.if_exclude = "eth0/8";
	assert_int_equal(pf_open(&options, NULL, &context), PF_ERR_ARGUMENT);
	assert_true(pf_options_error(&options, text, 18) > 18);
	assert_string_equal(text, "if_exclude=eth0/8");
	pf_close(NULL);
}

/* A program that was built with an older or a newer pf.h. */
static void test_sizes(void **state)
{
	struct {
		pf_options options;
		uint64_t later[2];
	} newer;
	const size_t older = offsetof(pf_options, network);
	pf_attributes attributes[2];
	pf_context *context = NULL;
	pf_options options, all;
	char text[256];

	memset(&options, 0xff, sizeof(options));
	setenv("LIBPF_PEER_TIMEOUT", "77", 1);
	assert_int_equal(pf_options_init(&options, sizeof(size_t) - 1, NULL), PF_ERR_ARGUMENT);
	assert_true(options.size == SIZE_MAX);
	assert_int_equal(pf_options_init(&options, older, NULL), PF_OK);
	assert_int_equal(options.size, older);
	assert_true(options.network == UINT64_MAX);
	options.threads = 1;
	assert_int_equal(options_complete(&options, &all), PF_OK);
	assert_int_equal(all.threads, 1);
	assert_int_equal(all.network, PF_NETWORK_REMOTE);
	assert_int_equal(all.peer_timeout, 77);
	assert_int_equal(pf_open(&options, NULL, &context), PF_OK);
	assert_int_equal(pf_options_error(&options, text, sizeof(text)), 0);

	memset(attributes, 0xff, sizeof(attributes));
	pf_query(context, attributes, sizeof(size_t));
	assert_true(attributes[0].send_max > 0 && attributes[0].send_max != SIZE_MAX);
	assert_true(attributes[0].eager_limit == SIZE_MAX);
	pf_query(context, attributes, sizeof(attributes));
	assert_int_equal(attributes[1].send_max, 0);
	pf_close(context);

	memset(&newer, 0xff, sizeof(newer));
	assert_int_equal(pf_options_init(&newer.options, sizeof(newer), NULL), PF_OK);
	assert_int_equal(newer.later[1], 0);
	assert_int_equal(pf_open(&newer.options, NULL, &context), PF_OK);
	pf_close(context);
	newer.later[1] = 1;
	assert_int_equal(pf_open(&newer.options, NULL, &context), PF_ERR_ARGUMENT);
	assert_true(pf_options_error(&newer.options, text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "later version"));
	/* Never initialised. */
	newer.options.size = SIZE_MAX;
	assert_int_equal(pf_open(&newer.options, NULL, &context), PF_ERR_ARGUMENT);
	newer.options.size = 0;
	assert_int_equal(pf_open(&newer.options, NULL, &context), PF_ERR_ARGUMENT);
	assert_int_equal(pf_version(), PF_VERSION_MAJOR << 16 | PF_VERSION_MINOR);
}

static void collect_unknown(const char *name, const char *nearest, void *arg)
{
	char *text = arg;

	sprintf(text + strlen(text), "%s %s\n", name, nearest ? nearest : "-");
}

static void test_unknown(void **state)
{
	static const char *const names[] = { "LIBPF_RNG_SIZE",   "LIBPF_TRANPORT",
					     "LIBPF_if_include", "LIBPF_PRINTER",
					     "LIBPF_",           "PF_RING_SIZ",
					     "LIBPF_RING_SIZE",  "LIBPF_TEST_X" };
	char text[256] = "";
	size_t i;

	assert_int_equal(options_unknown(collect_unknown, text), 0);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		setenv(names[i], "1", 1);
	assert_int_equal(options_unknown(collect_unknown, text), 5);
	assert_non_null(strstr(text, "LIBPF_RNG_SIZE LIBPF_RING_SIZE\n"));
	assert_non_null(strstr(text, "LIBPF_TRANPORT LIBPF_TRANSPORT\n"));
	assert_non_null(strstr(text, "LIBPF_if_include LIBPF_IF_INCLUDE\n"));
	assert_non_null(strstr(text, "LIBPF_PRINTER -\n"));
	assert_non_null(strstr(text, "LIBPF_ -\n"));
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}

static void test_strerror(void **state)
{
	int status, other;

	for (status = PF_PENDING; status >= PF_ERR_SYSTEM; status--) {
		assert_true(strlen(pf_strerror(status)) > 4);
		for (other = PF_PENDING; other > status; other--)
			assert_string_not_equal(pf_strerror(status), pf_strerror(other));
	}
	assert_non_null(pf_strerror(77));
	assert_non_null(pf_strerror(-77));
}

static void test_statistics(void **state)
{
	const pf_stat_info *table = pf_stat_table();
	pf_context *context;
	int i, j;

	for (i = 0; i < PF_STAT_COUNT; i++) {
		assert_non_null(table[i].name);
		assert_non_null(table[i].help);
		for (j = 0; j < i; j++)
			assert_string_not_equal(table[i].name, table[j].name);
	}
	assert_int_equal(pf_open(NULL, NULL, &context), PF_OK);
	for (i = 0; i < PF_STAT_COUNT; i++)
		assert_int_equal(pf_stat(context, i), 0);
	assert_int_equal(pf_stat(context, PF_STAT_COUNT), 0);
	pf_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_table, clean),
		cmocka_unit_test_setup(test_defaults, clean),
		cmocka_unit_test_setup(test_parse, clean),
		cmocka_unit_test_setup(test_ranges, clean),
		cmocka_unit_test_setup(test_names, clean),
		cmocka_unit_test_setup(test_environment, clean),
		cmocka_unit_test_setup(test_default, clean),
		cmocka_unit_test_setup(test_culprit, clean),
		cmocka_unit_test_setup(test_open_checks, clean),
		cmocka_unit_test_setup(test_sizes, clean),
		cmocka_unit_test_setup(test_unknown, clean),
		cmocka_unit_test_setup(test_strerror, clean),
		cmocka_unit_test_setup(test_statistics, clean),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
