/* SPDX-License-Identifier: BSD-3-Clause */
#include "counters.h"

#include <mpi.h>
#include <stdbool.h>

static const char *const names[COUNTERS] = { "btl_exanest_local_faults", "btl_exanest_net_nacks" };
static MPI_T_pvar_session session;
static MPI_T_pvar_handle handles[COUNTERS];
static bool found[COUNTERS];

/* A handle counts from its allocation on. */
void counters_begin(void)
{
	int i, index, count, granted;

	MPI_T_init_thread(MPI_THREAD_SINGLE, &granted);
	MPI_T_pvar_session_create(&session);
	for (i = 0; i < COUNTERS; i++)
		found[i] = !MPI_T_pvar_get_index(names[i], MPI_T_PVAR_CLASS_COUNTER, &index) &&
			   !MPI_T_pvar_handle_alloc(session, index, NULL, &handles[i], &count);
}

void counters_end(double counted[COUNTERS])
{
	unsigned long long value;
	int i;

	for (i = 0; i < COUNTERS; i++) {
		if (!found[i])
			continue;
		if (!MPI_T_pvar_read(session, handles[i], &value))
			counted[i] += (double)value;
		MPI_T_pvar_handle_free(session, &handles[i]);
	}
	MPI_T_pvar_session_free(&session);
	MPI_T_finalize();
}
