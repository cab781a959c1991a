/* SPDX-License-Identifier: BSD-3-Clause */
/* The MCA component: selection by a job, opening of libpf, progress. */
#include "smsc_exanest.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "opal/mca/btl/base/base.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/runtime/opal_progress.h"

/* Above cma's 37, and below xpmem's 42. */
#define PRIORITY 40

static int smsc_register(void);
static int smsc_close(void);
static int smsc_query(void);
static mca_smsc_module_t *smsc_enable(void);

mca_smsc_exanest_component_t mca_smsc_exanest_component = {
	.super = {
		.smsc_version = {
			MCA_SMSC_DEFAULT_VERSION("exanest"),
			.mca_close_component = smsc_close,
			.mca_register_component_params = smsc_register,
		},
		.priority = PRIORITY,
		.query = smsc_query,
		.enable = smsc_enable,
	},
};

/* Entry by which static builds of Open MPI 6.0 find a component. */
#ifdef MCA_BASE_COMPONENT_INIT
MCA_BASE_COMPONENT_INIT(opal, smsc, exanest)
#endif

static int smsc_register(void)
{
	mca_smsc_exanest_component_t *component = &mca_smsc_exanest_component;

	(void)mca_base_var_group_component_register(
		&component->super.smsc_version,
		"Single copy by both processes, with page faults (libpf)");
	mca_smsc_base_register_default_params(&component->super, PRIORITY);
	return OPAL_SUCCESS;
}

static int smsc_progress(void)
{
	const int count = pf_progress(mca_smsc_exanest_component.context);

	if (OPAL_UNLIKELY(count))
		mca_smsc_exanest_note_copy();
	return count;
}

static int smsc_close(void)
{
	mca_smsc_exanest_component_t *component = &mca_smsc_exanest_component;

	(void)opal_progress_unregister(smsc_progress);
	pf_close(component->context);
	component->context = NULL;
	return OPAL_SUCCESS;
}

/*
 * Return whether the parameter smsc names the component, or a priority from 0 on is set. Open MPI
 * would also enable an installed component: in 5.0 where cma cannot work, in 6.0 beside cma.
 */
static bool smsc_is_selected(void)
{
	const char *selection = opal_smsc_base_framework.framework_selection;
	const int index = mca_base_var_find("opal", "smsc", "exanest", "priority");
	mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;

	if (mca_smsc_exanest_component.super.priority < 0)
		return false;
	if (selection && selection[0] && selection[0] != '^')
		return true;
	if (index >= 0)
		(void)mca_base_var_get_value(index, NULL, &source, NULL);
	return source != MCA_BASE_VAR_SOURCE_DEFAULT;
}

/* Is the parameter, of a framework or of a component of the framework, registered and true? */
static bool parameter_is_true(const char *project, const char *framework, const char *component,
			      const char *name)
{
	const int index = mca_base_var_find(project, framework, component, name);
	const bool *value = NULL;

	return index >= 0 && OPAL_SUCCESS == mca_base_var_get_value(index, &value, NULL, NULL) &&
	       value && *value;
}

static bool btl_is_open(const char *name)
{
	mca_base_component_list_item_t *item;

	OPAL_LIST_FOREACH(item, &opal_btl_base_framework.framework_components,
			  mca_base_component_list_item_t) {
		if (!strcmp(item->cli_component->mca_component_name, name))
			return true;
	}
	return false;
}

/*
 * Does BTL exanest carry the messages of this host? Then btl/sm has none to copy, and a second context
 * would cost a service thread. As in the BTL: a list of names that let exanest in names exanest. The
 * framework btl is open before components of smsc are selected.
 */
static bool smsc_is_idle(void)
{
	const char *selection = opal_btl_base_framework.framework_selection;

	return btl_is_open("exanest") && ((selection && selection[0] && selection[0] != '^') ||
					  parameter_is_true("opal", "btl", "exanest", "auto"));
}

static int smsc_publish(void)
{
	mca_smsc_exanest_component_t *component = &mca_smsc_exanest_component;
	mca_smsc_exanest_modex_t modex = {
		.pid = getpid(),
		.cookie_address = (uint64_t)(uintptr_t)&component->cookie,
	};
	size_t length = sizeof(modex.address);
	int rc;

	if (getrandom(&component->cookie, sizeof(component->cookie), 0) !=
	    sizeof(component->cookie))
		return OPAL_ERROR;
	modex.cookie = component->cookie;
	if (pf_address(component->context, modex.address, &length) != PF_OK)
		return OPAL_ERROR;
	OPAL_MODEX_SEND(rc, PMIX_LOCAL, &component->super.smsc_version, &modex,
			offsetof(mca_smsc_exanest_modex_t, address) + length);
	return rc;
}

static int smsc_open_context(pf_context **context)
{
	const pf_callbacks callbacks = { .size = sizeof(callbacks) };
	pf_options options;

	(void)pf_options_default(&options, sizeof(options));
	options.network = PF_NETWORK_OFF;
	options.transport = PF_TRANSPORT_HOST;
	options.ptracer = PF_PTRACER_LAUNCHER;
	/* A later session may bring threads while a copy waits. */
	options.threads = 1;
	/* Where processes share a processor, as on oversubscribed nodes, none waits for another's half. */
	options.wake = parameter_is_true("ompi", "mpi", NULL, "yield_when_idle");
	return pf_open(&options, &callbacks, context);
}

static int smsc_query(void)
{
	mca_smsc_exanest_component_t *component = &mca_smsc_exanest_component;
	int status;

	if (!smsc_is_selected())
		return OPAL_ERR_NOT_AVAILABLE;
	if (smsc_is_idle()) {
		opal_output_verbose(MCA_BASE_VERBOSE_INFO,
				    opal_smsc_base_framework.framework_output,
				    "smsc:exanest: BTL exanest carries the messages of this host");
		return OPAL_ERR_NOT_AVAILABLE;
	}
	status = smsc_open_context(&component->context);
	if (status != PF_OK) {
		opal_output(0, "smsc:exanest: process %d has no single copy by exanest: %s%s%s",
			    (int)getpid(), pf_strerror(status), status == PF_ERR_SYSTEM ? ": " : "",
			    status == PF_ERR_SYSTEM ? strerror(errno) : "");
		component->context = NULL;
		return OPAL_ERR_NOT_AVAILABLE;
	}
	return smsc_publish();
}

static mca_smsc_module_t *smsc_enable(void)
{
	atomic_store_explicit(&mca_smsc_exanest_component.frequent, false, memory_order_relaxed);
	(void)opal_progress_register_lp(smsc_progress);
	return &mca_smsc_exanest_module;
}

void mca_smsc_exanest_note_copy(void)
{
	mca_smsc_exanest_component_t *component = &mca_smsc_exanest_component;

	if (OPAL_LIKELY(atomic_load_explicit(&component->frequent, memory_order_relaxed)) ||
	    atomic_exchange_explicit(&component->frequent, true, memory_order_relaxed))
		return;
	(void)opal_progress_register(smsc_progress);
}
