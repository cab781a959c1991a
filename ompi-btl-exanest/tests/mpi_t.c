/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi_t.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_NAME 128
#define MOST_COUNTERS 64

struct counter {
	char name[LONGEST_NAME];
	MPI_T_pvar_handle handle;
	MPI_Datatype type;
	int count;
};

static MPI_T_pvar_session session;
static struct counter counters[MOST_COUNTERS];
static int watched;

const char *mpi_t_btl(void)
{
	static char name[32];
	const char *list = getenv("EXANEST_TEST_BTL");

	if (!list || !*list)
		list = "exanest";
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(list, ","), list);
	return name;
}

static void prefix_of(char *prefix, size_t size)
{
	snprintf(prefix, size, "btl_%s_", mpi_t_btl());
}

/* One integer of this type; 0 if it is not one integer. */
static uint64_t widen(const void *bytes, MPI_Datatype type, int count)
{
	uint64_t wide = 0;
	uint32_t narrow = 0;
	int length;

	if (count != 1)
		return 0;
	MPI_Type_size(type, &length);
	if (type == MPI_CHAR || type == MPI_DOUBLE)
		return 0;
	if (length == 8) {
		memcpy(&wide, bytes, 8);
		return wide;
	}
	if (length != 4)
		return 0;
	memcpy(&narrow, bytes, 4);
	return narrow;
}

static uint64_t read_parameter(int index, MPI_Datatype type)
{
	MPI_T_cvar_handle handle;
	uint64_t value = 0;
	char *bytes;
	int count;

	if (type == MPI_CHAR || MPI_T_cvar_handle_alloc(index, NULL, &handle, &count))
		return 0;
	bytes = calloc((size_t)count, 16);
	if (bytes && MPI_T_cvar_read(handle, bytes) == MPI_SUCCESS)
		value = widen(bytes, type, count);
	free(bytes);
	MPI_T_cvar_handle_free(&handle);
	return value;
}

static int compare_sizes(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return x < y ? -1 : x > y;
}

/* The name of a parameter of the BTL under test, without its prefix; false: it is none. */
static bool parameter(int index, char *name, MPI_Datatype *type)
{
	int length = LONGEST_NAME, none = 0, verbosity, bind, scope;
	char prefix[64], full[LONGEST_NAME];
	MPI_T_enum values;

	prefix_of(prefix, sizeof(prefix));
	if (MPI_T_cvar_get_info(index, full, &length, &verbosity, type, &values, NULL, &none, &bind,
				&scope) ||
	    strncmp(full, prefix, strlen(prefix)) != 0)
		return false;
	snprintf(name, LONGEST_NAME, "%s", full + strlen(prefix));
	return true;
}

size_t mpi_t_parameter(const char *wanted)
{
	int i, total, granted;
	char name[LONGEST_NAME];
	MPI_Datatype type;
	uint64_t value = 0;

	if (MPI_T_init_thread(MPI_THREAD_SINGLE, &granted) || MPI_T_cvar_get_num(&total))
		return 0;
	for (i = 0; i < total && !value; i++) {
		if (parameter(i, name, &type) && strcmp(name, wanted) == 0)
			value = read_parameter(i, type);
	}
	MPI_T_finalize();
	return (size_t)value;
}

int mpi_t_thresholds(size_t *list, int limit, size_t most)
{
	int i, k, total, count = 0, granted;
	char name[LONGEST_NAME];
	MPI_Datatype type;
	uint64_t value;

	if (MPI_T_init_thread(MPI_THREAD_SINGLE, &granted) || MPI_T_cvar_get_num(&total))
		return 0;
	for (i = 0; i < total && count < limit; i++) {
		if (!parameter(i, name, &type))
			continue;
		value = read_parameter(i, type);
		if (value < 32 || value > most)
			continue;
		for (k = 0; k < count && list[k] != value; k++)
			;
		if (k == count)
			list[count++] = (size_t)value;
	}
	MPI_T_finalize();
	qsort(list, (size_t)count, sizeof(*list), compare_sizes);
	return count;
}

int mpi_t_watch(void)
{
	int i, total, granted, length, verbosity, class, bind, constant, continuous, atomic;
	char prefix[64], name[LONGEST_NAME];
	MPI_Datatype type;
	MPI_T_enum values;
	int none;

	prefix_of(prefix, sizeof(prefix));
	if (MPI_T_init_thread(MPI_THREAD_SINGLE, &granted))
		return 0;
	if (MPI_T_pvar_session_create(&session) || MPI_T_pvar_get_num(&total))
		total = 0;
	watched = 0;
	for (i = 0; i < total && watched < MOST_COUNTERS; i++) {
		struct counter *counter = &counters[watched];

		length = sizeof(name);
		none = 0;
		if (MPI_T_pvar_get_info(i, name, &length, &verbosity, &class, &type, &values, NULL,
					&none, &bind, &constant, &continuous, &atomic))
			continue;
		if (strncmp(name, prefix, strlen(prefix)) != 0)
			continue;
		if (MPI_T_pvar_handle_alloc(session, i, NULL, &counter->handle, &counter->count))
			continue;
		if (!continuous)
			MPI_T_pvar_start(session, counter->handle);
		snprintf(counter->name, sizeof(counter->name), "%s", name + strlen(prefix));
		counter->type = type;
		watched++;
	}
	return watched;
}

static const struct counter *find_counter(const char *name)
{
	int i;

	for (i = 0; i < watched; i++) {
		if (!strcmp(counters[i].name, name))
			return &counters[i];
	}
	return NULL;
}

long long mpi_t_counted(const char *name)
{
	const struct counter *counter = find_counter(name);
	unsigned char bytes[64];

	if (!counter || counter->count != 1 || MPI_T_pvar_read(session, counter->handle, bytes))
		return -1;
	return (long long)widen(bytes, counter->type, 1);
}

int mpi_t_counted_each(const char *name, uint64_t *values, int most)
{
	const struct counter *counter = find_counter(name);
	unsigned char *bytes;
	int i, length, status;

	if (!counter)
		return -1;
	MPI_Type_size(counter->type, &length);
	bytes = calloc((size_t)counter->count, (size_t)length);
	if (!bytes)
		return -1;
	status = MPI_T_pvar_read(session, counter->handle, bytes);
	for (i = 0; !status && i < counter->count && i < most; i++)
		values[i] = widen(bytes + (size_t)i * (size_t)length, counter->type, 1);
	free(bytes);
	return status ? -1 : counter->count;
}

void mpi_t_unwatch(void)
{
	while (watched)
		MPI_T_pvar_handle_free(session, &counters[--watched].handle);
	MPI_T_pvar_session_free(&session);
	MPI_T_finalize();
}
