/* SPDX-License-Identifier: BSD-3-Clause */
/* Options: the table, values and names, the environment; status texts and the table of statistics. */
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

/* No variables and no calibration file. */
static int clean(void **state)
{
	extern char **environ;
	char name[64];
	int i = 0;

	while (environ[i]) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(environ[i], "="), environ[i]);
		if (!strncmp(name, "PF_", 3))
			unsetenv(name);
		else
			i++;
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
	assert_int_equal(count, sizeof(pf_options) / sizeof(uint64_t));
}

static void test_defaults(void **state)
{
	const pf_option_info *info;
	pf_options options;

	memset(&options, 0xff, sizeof(options));
	assert_ok(pf_options_init(&options, NULL));
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

	for (i = 0; i < ARRAY_SIZE(good); i++) {
		if (!number_parse(good[i].text, &value))
			fail_msg("'%s' is not accepted", good[i].text);
		assert_true(value == good[i].value);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		if (number_parse(bad[i], &value))
			fail_msg("'%s' is accepted", bad[i]);
	}
	/* A leading zero does not mean octal. */
	assert_true(number_parse("0100", &value) && value == 100);
}

static void test_ranges(void **state)
{
	static const struct {
		const char *name;
		uint64_t value;
		bool valid;
	} cases[] = {
		{ "ring_size", 16384, true },      { "ring_size", 1 << 30, true },
		{ "ring_size", 8192, false },      { "ring_size", 1ull << 31, false },
		{ "ring_size", 49152, false },     { "block_size", 4096 + 512, false },
		{ "share_min", UINT64_MAX, true }, { "share_min", 5000, true },
		{ "single_copy", 2, false },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(option_valid(find(cases[i].name), cases[i].value), cases[i].valid);
}

/* Every value of an option with names has a name, and can be given by name or number. */
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
	/* An option does not accept the names of another one; a refused text changes nothing. */
	assert_false(option_parse(policy, "pin", &parsed));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		if (option_parse(mode, bad[i], &parsed))
			fail_msg("'%s' is accepted", bad[i]);
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

	assert_ok(pf_options_init(&before, NULL));
	setenv("PF_RING_SIZE", "1M", 1);
	setenv("PF_SHARE_MIN", "5000", 1);
	setenv("PF_THREADS", "1", 1);
	setenv("PF_MODE", "prefault", 1);
	setenv("PF_POLICY", "1", 1);
	assert_ok(pf_options_init(&options, NULL));
	assert_int_equal(options.mode, PF_MODE_PREFAULT);
	assert_int_equal(options.policy, PF_POLICY_AHEAD);
	assert_int_equal(options.ring_size, 1 << 20);
	assert_int_equal(options.share_min, 5000);
	assert_int_equal(options.threads, 1);
	assert_int_equal(options.eager_limit, before.eager_limit);
	assert_int_equal(options.run_max, before.run_max);
}

/* A wrong variable is named, and does not affect others. */
static void test_wrong_variable(void **state)
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

	assert_ok(pf_options_init(&before, NULL));
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		setenv(wrong[i].variable, wrong[i].text, 1);
		culprit = NULL;
		assert_status(pf_options_init(&options, &culprit), PF_ERR_ARGUMENT);
		assert_non_null(culprit);
		assert_string_equal(culprit->name, wrong[i].name);
		assert_memory_equal(&options, &before, sizeof(options));
		assert_status(pf_options_init(&options, NULL), PF_ERR_ARGUMENT);
		unsetenv(wrong[i].variable);
	}
	setenv("PF_RING_SIZE", "7", 1);
	setenv("PF_RUN_MAX", "8192", 1);
	assert_status(pf_options_init(&options, &culprit), PF_ERR_ARGUMENT);
	assert_int_equal(options.run_max, 8192);
	assert_int_equal(options.ring_size, before.ring_size);
}

static void test_open_checks(void **state)
{
	pf_context *context = NULL;
	pf_options options;

	assert_ok(pf_options_init(&options, NULL));
	options.ring_size = 12345;
	assert_status(pf_open(&options, &context), PF_ERR_ARGUMENT);
	assert_null(context);
	/* Without options pf_open uses defaults for wrong variables. */
	setenv("PF_RING_SIZE", "12345", 1);
	assert_ok(pf_open(NULL, &context));
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
	assert_ok(pf_open(NULL, &context));
	for (i = 0; i < PF_STAT_COUNT; i++)
		assert_int_equal(pf_stat(context, i), 0);
	assert_int_equal(pf_stat(context, PF_STAT_COUNT), 0);
	pf_close(context);
}

#define CLEAN(test) cmocka_unit_test_setup(test, clean)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLEAN(test_table),          CLEAN(test_defaults),    CLEAN(test_parse),
		CLEAN(test_ranges),         CLEAN(test_names),       CLEAN(test_environment),
		CLEAN(test_wrong_variable), CLEAN(test_open_checks), CLEAN(test_strerror),
		CLEAN(test_statistics),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
