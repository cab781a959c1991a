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

/* Nothing from outside: no variables, no calibration file. */
static int clean(void **state)
{
	static const char *const names[] = {
		"PF_RING_SIZE",  "PF_RING_MEMORY", "PF_EAGER_LIMIT",  "PF_SHARE_MIN",
		"PF_RUN_MAX",    "PF_BLOCK_SIZE",  "PF_SINGLE_COPY",  "PF_FAULT_RETRIES",
		"PF_IDLE_POLLS", "PF_IDLE_SLEEP",  "PF_THREADS",      "PF_CALIBRATE",
		"PF_MODE",       "PF_POLICY",      "PF_RESIDENCY",    "PF_COLLAPSE",
		"PF_NETWORK",    "PF_AUTH",        "PF_NET_FAULT",    "PF_BACKUP_RING",
		"PF_IF_INCLUDE", "PF_IF_EXCLUDE",  "PF_PEER_TIMEOUT",
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
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
	assert_int_equal(count, sizeof(pf_options) / sizeof(uint64_t));
}

static void test_defaults(void **state)
{
	const pf_option_info *info;
	pf_options options;

	memset(&options, 0xff, sizeof(options));
	assert_int_equal(pf_options_init(&options, NULL), PF_OK);
	for (info = pf_option_table(); info->name; info++)
		assert_true(option_valid(info, *option_field(&options, info)));
	assert_int_equal(options.single_copy, 1);
	assert_int_equal(options.threads, 0);
	assert_int_equal(options.idle_polls, 0);
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
	/* Nobody who writes 0100 for one hundred means sixty-four. */
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

/* Names and numbers name the same values, and every value has a name. */
static void test_names(void **state)
{
	static const char *const bad[] = { "", "pin-", "Pin", "pin ", "4", "-1", "fault,pin", "1K" };
	const pf_option_info *mode = find("mode"), *policy = find("policy");
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
	assert_true(option_parse(mode, "pin-cache", &parsed) && parsed == PF_MODE_PIN_CACHE);
	assert_true(option_parse(policy, "huge", &parsed) && parsed == PF_POLICY_HUGE);
	/* The names of one option are not those of another; what is refused changes nothing. */
	assert_false(option_parse(policy, "pin", &parsed));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (option_parse(mode, bad[i], &parsed))
			fail_msg("'%s' is taken", bad[i]);
	}
	assert_int_equal(parsed, PF_POLICY_HUGE);
	option_allowed(mode, allowed, sizeof(allowed));
	assert_string_equal(allowed, "fault, prefault, pin or pin-cache");
	option_allowed(find("threads"), allowed, sizeof(allowed));
	assert_string_equal(allowed, "from 0 to 1");
	option_allowed(mode, cut, sizeof(cut));
	assert_string_equal(cut, "fault, ");
}

static void test_environment(void **state)
{
	pf_options before, options;

	assert_int_equal(pf_options_init(&before, NULL), PF_OK);
	setenv("PF_RING_SIZE", "1M", 1);
	setenv("PF_SHARE_MIN", "5000", 1);
	setenv("PF_THREADS", "1", 1);
	setenv("PF_MODE", "prefault", 1);
	setenv("PF_POLICY", "1", 1);
	assert_int_equal(pf_options_init(&options, NULL), PF_OK);
	assert_int_equal(options.mode, PF_MODE_PREFAULT);
	assert_int_equal(options.policy, PF_POLICY_AHEAD);
	assert_int_equal(options.ring_size, 1 << 20);
	assert_int_equal(options.share_min, 5000);
	assert_int_equal(options.threads, 1);
	assert_int_equal(options.eager_limit, before.eager_limit);
	assert_int_equal(options.run_max, before.run_max);
}

static void test_culprit(void **state)
{
	static const struct {
		const char *variable, *text, *name;
	} wrong[] = {
		{ "PF_EAGER_LIMIT", "4 KiB", "eager_limit" },
		{ "PF_EAGER_LIMIT", "", "eager_limit" },
		{ "PF_RING_SIZE", "100000", "ring_size" },
		{ "PF_IDLE_SLEEP", "0", "idle_sleep" },
		{ "PF_CALIBRATE", "yes", "calibrate" },
		{ "PF_MODE", "lock", "mode" },
		{ "PF_POLICY", "4", "policy" },
	};
	const pf_option_info *culprit;
	pf_options before, options;
	size_t i;

	assert_int_equal(pf_options_init(&before, NULL), PF_OK);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setenv(wrong[i].variable, wrong[i].text, 1);
		culprit = NULL;
		assert_int_equal(pf_options_init(&options, &culprit), PF_ERR_ARGUMENT);
		assert_non_null(culprit);
		assert_string_equal(culprit->name, wrong[i].name);
		assert_memory_equal(&options, &before, sizeof(options));
		assert_int_equal(pf_options_init(&options, NULL), PF_ERR_ARGUMENT);
		unsetenv(wrong[i].variable);
	}
	/* One wrong variable does not keep the others from being read. */
	setenv("PF_RING_SIZE", "7", 1);
	setenv("PF_RUN_MAX", "8192", 1);
	assert_int_equal(pf_options_init(&options, &culprit), PF_ERR_ARGUMENT);
	assert_int_equal(options.run_max, 8192);
	assert_int_equal(options.ring_size, before.ring_size);
}

static void test_open_checks(void **state)
{
	pf_context *context = NULL;
	pf_options options;

	assert_int_equal(pf_options_init(&options, NULL), PF_OK);
	options.ring_size = 12345;
	assert_int_equal(pf_open(&options, &context), PF_ERR_ARGUMENT);
	assert_null(context);
	/* An environment in error is not one that pf_open may fail for: it has defaults. */
	setenv("PF_RING_SIZE", "12345", 1);
	assert_int_equal(pf_open(NULL, &context), PF_OK);
	pf_close(context);
	pf_close(NULL);
}

static void test_strerror(void **state)
{
	int status, other;

	for (status = PF_DONE; status >= PF_ERR_SYSTEM; status--) {
		assert_true(strlen(pf_strerror(status)) > 4);
		for (other = PF_DONE; other > status; other--)
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
	assert_int_equal(pf_open(NULL, &context), PF_OK);
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
		cmocka_unit_test_setup(test_culprit, clean),
		cmocka_unit_test_setup(test_open_checks, clean),
		cmocka_unit_test_setup(test_strerror, clean),
		cmocka_unit_test_setup(test_statistics, clean),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
