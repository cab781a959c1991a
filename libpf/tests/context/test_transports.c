/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice between transports, and calls of transports without some of the functions. */
#include "unit.h"

#include "context/transports.h"

/* A transport of the test: the answers, and the number of calls. */
struct fake {
	enum transport_reach reach;
	const char *why;
	bool may_sleep, has_news;
	int polls;
};

static enum transport_reach fake_reach(const void *state, const struct address *address,
				       const char **why)
{
	const struct fake *fake = state;

	assert_non_null(address);
	*why = fake->why;
	return fake->reach;
}

static int fake_poll(void *state)
{
	return ++((struct fake *)state)->polls;
}

static bool fake_may_sleep(void *state)
{
	return ((struct fake *)state)->may_sleep;
}

static bool fake_has_news(void *state)
{
	return ((struct fake *)state)->has_news;
}

static const struct transport plain = { .reach = fake_reach };
static const struct transport full = { .reach = fake_reach,
				       .poll = fake_poll,
				       .may_sleep = fake_may_sleep,
				       .has_news = fake_has_news };

static struct fake fakes[3];

/* plain, full, plain. */
static pf_context *context_make(void)
{
	pf_context *context = test_alloc(transports_contents_size());
	unsigned i;

	memset(fakes, 0, sizeof(fakes));
	for (i = 0; i < ARRAY_SIZE(fakes); i++) {
		context->transports[i].transport = i == 1 ? &full : &plain;
		context->transports[i].state = &fakes[i];
	}
	return context;
}

static void test_choice(void **state)
{
	static const struct {
		enum transport_reach reach[3];
		int chosen; /* -1: none */
	} cases[] = {
		{ { TRANSPORT_REACHED, TRANSPORT_REACHED, TRANSPORT_REACHED }, 0 },
		{ { TRANSPORT_UNREACHED, TRANSPORT_REACHED, TRANSPORT_UNREACHED }, 1 },
		{ { TRANSPORT_REACHED, TRANSPORT_REACHED_ALONE, TRANSPORT_UNREACHED }, 1 },
		{ { TRANSPORT_REACHED, TRANSPORT_EXCLUDED, TRANSPORT_REACHED }, -1 },
		{ { TRANSPORT_UNREACHED, TRANSPORT_UNREACHED, TRANSPORT_UNREACHED }, -1 },
	};
	static const char *const reasons[] = { "first", "second", "third" };
	const struct address address = { 0 };
	const struct transport *chosen;
	pf_context *context = context_make();
	const char *why;
	unsigned i, j;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		for (j = 0; j < ARRAY_SIZE(fakes); j++) {
			fakes[j].reach = cases[i].reach[j];
			fakes[j].why = reasons[j];
		}
		chosen = transports_choose(context, &address, &why);
		assert_ptr_equal(chosen, cases[i].chosen < 0 ?
						 NULL :
						 context->transports[cases[i].chosen].transport);
		if (cases[i].chosen >= 0)
			assert_string_equal(why, reasons[cases[i].chosen]);
	}
	/* Without any, the last one says why. */
	assert_string_equal(why, "third");
	/* A transport without a reason does not hide the reason of another. */
	fakes[2].why = "";
	assert_null(transports_choose(context, &address, &why));
	assert_string_equal(why, "second");
	/* The reason of a transport that the context does not have. */
	context->transports[2].state = NULL;
	context->transports[2].why = "off";
	assert_null(transports_choose(context, &address, &why));
	assert_string_equal(why, "off");
	free(context);
}

/* A peer that called is answered by a transport that is not excluded, or by that for other hosts. */
static void test_back(void **state)
{
	const struct address address = { 0 };
	pf_context *context = context_make();
	unsigned i;

	fakes[0].reach = TRANSPORT_REACHED;
	fakes[1].reach = TRANSPORT_EXCLUDED;
	for (i = 0; i < ARRAY_SIZE(fakes); i++)
		fakes[i].why = "";
	assert_ptr_equal(transports_back(context, &address), &plain);
	fakes[0].reach = TRANSPORT_UNREACHED;
	assert_ptr_equal(transports_back(context, &address), &transport_net);
	free(context);
}

static void test_missing_functions(void **state)
{
	pf_context *context = context_make();

	assert_false(transports_may_sleep(context));
	fakes[1].may_sleep = true;
	assert_true(transports_may_sleep(context));
	assert_false(transports_have_news(context));
	fakes[1].has_news = true;
	assert_true(transports_have_news(context));
	assert_true(transports_all_ring(context));
	assert_true(transports_allow_waiter(context));
	transports_set_sleeping(context, true);
	transports_prepare_sleep(context);
	assert_int_equal(transports_poll_others(context), 1);
	/* The poll of the first transport is inline elsewhere. */
	context->transports[0].transport = &full;
	context->transports[1].state = NULL;
	assert_int_equal(transports_poll_others(context), 0);
	assert_int_equal(fakes[0].polls, 0);
	free(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_back),
		cmocka_unit_test(test_missing_functions),
	};

	return cmocka_run_group_tests_name("transports", tests, NULL, NULL);
}
