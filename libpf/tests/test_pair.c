/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of a test that hangs. */
#include "pair.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Number 0 of the partner, in the report. */
#define VALUE 4711

static void serve_value(struct pair *me)
{
	*pair_value(me, 1, 0) = VALUE;
	pair_say(me, 3);
	pair_serve(me);
}

/* A test that hangs, when the time is over. */
static void hang(void)
{
	const struct pair_setup setup = { .here = pair_options(),
					  .there = pair_options(),
					  .partner = serve_value };
	struct pair *pair = pair_start(&setup);

	pair_say(pair, 2);
	pair_await(pair, 1, 3);
	raise(SIGALRM);
	_exit(0);
}

/* The program ends, and says which test hung and at which steps. */
static void test_hung(void **state)
{
	char text[1024] = "";
	size_t length = 0;
	int ends[2], status;
	ssize_t got;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		dup2(ends[1], STDOUT_FILENO);
		hang();
	}
	close(ends[1]);
	while ((got = read(ends[0], text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)got;
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	assert_non_null(strstr(text, "# hung: test_hung WAIT, for seconds: "));
	assert_non_null(strstr(text, "# side: 0\n#   step: 2\n"));
	assert_non_null(strstr(text, "# side: 1\n#   step: 3\n#   first value: 4711\n"));
	assert_int_equal(pair_mode(state), MODE_WAIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = { IN_MODE(test_hung, WAIT) };

	return pair_run_tests("pair", tests);
}
