/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_T performance variables: every statistic of libpf.
 */
#include "btl_exanest.h"

#include "opal/mca/base/mca_base_pvar.h"

static int get_value(const mca_base_pvar_t *pvar, void *value, void *object)
{
	const pf_context *context = mca_btl_exanest_module.context;

	/* Also readable before MPI_Init and after MPI_Finalize. */
	*(unsigned long long *)value =
		context ? pf_stat(context, (enum pf_stat)(uintptr_t)pvar->ctx) : 0;
	return OPAL_SUCCESS;
}

int mca_btl_exanest_register_pvars(void)
{
	const pf_stat_info *table = pf_stat_table();
	uintptr_t stat;
	int rc;

	for (stat = 0; stat < PF_STAT_COUNT; stat++) {
		rc = mca_base_component_pvar_register(
			&mca_btl_exanest_component.super.btl_version, table[stat].name,
			table[stat].help, OPAL_INFO_LVL_4, MCA_BASE_PVAR_CLASS_COUNTER,
			MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
			MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, get_value,
			NULL, NULL, (void *)stat);
		if (rc < 0)
			return rc;
	}
	return OPAL_SUCCESS;
}
