/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_T performance variables: each statistic of libpf, and the histogram of resolve
 * times as an array of counters.
 */
#include "btl_exanest.h"

#include "opal/mca/base/mca_base_pvar.h"

static int pvar_read(const mca_base_pvar_t *pvar, void *value, void *object)
{
	const pf_context *context = mca_btl_exanest_component.context;

	/* MPI_T reads variables before MPI_Init and after MPI_Finalize, too. */
	*(unsigned long long *)value =
		context ? pf_stat(context, (enum pf_stat)(uintptr_t)pvar->ctx) : 0;
	return OPAL_SUCCESS;
}

static int pvar_read_resolve_time(const mca_base_pvar_t *pvar, void *value, void *object)
{
	const pf_context *context = mca_btl_exanest_component.context;
	unsigned long long *buckets = value;
	unsigned i;

	for (i = 0; i < PF_RESOLVE_BUCKETS; i++)
		buckets[i] = context ? pf_stat_resolve_time(context, i) : 0;
	return OPAL_SUCCESS;
}

/* Tell a handle the number of values. */
static int pvar_count_resolve_time(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object,
				   int *count)
{
	if (event == MCA_BASE_PVAR_HANDLE_BIND)
		*count = PF_RESOLVE_BUCKETS;
	return OPAL_SUCCESS;
}

static int pvar_register(const char *name, const char *help, mca_base_get_value_fn_t get,
			 mca_base_notify_fn_t notify, void *which)
{
	return mca_base_component_pvar_register(
		&mca_btl_exanest_component.super.btl_version, name, help, OPAL_INFO_LVL_4,
		MCA_BASE_PVAR_CLASS_COUNTER, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
		MCA_BASE_VAR_BIND_NO_OBJECT,
		MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, get, NULL, notify,
		which);
}

int mca_btl_exanest_register_pvars(void)
{
	const pf_stat_info *table = pf_stat_table();
	uintptr_t stat;
	int rc;

	for (stat = 0; stat < PF_STAT_COUNT; stat++) {
		rc = pvar_register(table[stat].name, table[stat].help, pvar_read, NULL,
				   (void *)stat);
		if (rc < 0)
			return rc;
	}
	rc = pvar_register(
		"resolve_time",
		"Histogram of resolve times: page faults resolved in less than 2^(8 + index) ns "
		"and not less than half of that",
		pvar_read_resolve_time, pvar_count_resolve_time, NULL);
	return rc < 0 ? rc : OPAL_SUCCESS;
}
