/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for memory: the process says once that it waits, after 10 s of one wait. */
#include <fcntl.h>
#include <unistd.h>

#include "base/allocate.h"
#include "unit.h"

static unsigned failures;        /* so many calls find no memory */
static unsigned long long slept; /* microseconds */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __wrap_usleep(useconds_t time);

void *__wrap_calloc(size_t count, size_t size)
{
	if (failures) {
		failures--;
		return NULL;
	}
	return __real_calloc(count, size);
}

int __wrap_usleep(useconds_t time)
{
	slept += time;
	return 0;
}

/* Wait for memory, which the last of these tries finds. Return the bytes that were said. */
static ssize_t said_after(unsigned tries, char *text, size_t room)
{
	int saved = dup(STDERR_FILENO), ends[2];
	ssize_t length;
	void *memory;

	assert_ok(pipe2(ends, O_NONBLOCK));
	dup2(ends[1], STDERR_FILENO);
	slept = 0;
	failures = tries - 1;
	memory = allocate_or_wait(100);
	dup2(saved, STDERR_FILENO);
	length = read(ends[0], text, room - 1);
	close(saved);
	close(ends[0]);
	close(ends[1]);
	assert_non_null(memory);
	free(memory);
	assert_int_equal(slept, (tries - 1) * 1000ull);
	if (length > 0)
		text[length] = 0;
	return length > 0 ? length : 0;
}

static void test_says_once(void **state)
{
	char text[1024];

	assert_int_equal(said_after(1, text, sizeof(text)), 0);
	/* Short waits are silent, however many. */
	assert_int_equal(said_after(10000, text, sizeof(text)), 0);
	assert_int_equal(said_after(10000, text, sizeof(text)), 0);
	assert_true(said_after(30000, text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "no memory for 10 s"));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	assert_int_equal(said_after(30000, text, sizeof(text)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_says_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
