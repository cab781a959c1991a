/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_exanest_comparison.h"

#include "btl_exanest.h"

#ifdef MCA_BTL_EXANEST_COMPARISON

#include <stdlib.h>
#include <unistd.h>

#include "comparison/registration.h"

static const mca_base_var_enum_value_t modes[] = {
	{ REGISTRATION_FAULT, "fault" },
	{ REGISTRATION_PREFAULT, "prefault" },
	{ REGISTRATION_PIN, "pin" },
	{ REGISTRATION_PIN_CACHE, "pin-cache" },
	{ 0, NULL },
};

static int comparison_mode;                /* enum registration_mode */
static struct registrations registrations; /* valid between init and finalize */
static bool registrations_valid;

int mca_btl_exanest_comparison_register(void)
{
	mca_base_var_enum_t *names;
	int rc = mca_base_var_enum_create("mode", modes, &names);

	if (OPAL_SUCCESS != rc)
		return rc;
	comparison_mode = REGISTRATION_FAULT;
	rc = mca_base_component_var_register(
		&mca_btl_exanest_component.super.btl_version, "mode",
		"What is done to a buffer before a transfer, for comparison with other networks: "
		"fault (nothing), prefault (touch its pages), pin (lock it in memory for the "
		"transfer), pin-cache (lock it and keep it locked)",
		MCA_BASE_VAR_TYPE_INT, names, 0, (mca_base_var_flag_t)0, OPAL_INFO_LVL_9,
		MCA_BASE_VAR_SCOPE_LOCAL, &comparison_mode);
	OBJ_RELEASE(names);
	/* A wrong value: Open MPI has told the user, and the parameter has the default. */
	return rc == OPAL_ERR_VALUE_OUT_OF_BOUNDS ? OPAL_SUCCESS : rc;
}

bool mca_btl_exanest_compares(void)
{
	return comparison_mode != REGISTRATION_FAULT;
}

void mca_btl_exanest_comparison_init(void)
{
	registrations_init(&registrations, (enum registration_mode)comparison_mode);
	registrations_valid = true;
}

void mca_btl_exanest_comparison_finalize(void)
{
	if (registrations_valid)
		registrations_destroy(&registrations);
	registrations_valid = false;
}

/* Report a buffer without registration: measurements are not of the mode that the user wants. */
static void registration_report(const void *base, size_t size, int status)
{
	if (!mca_btl_exanest_is_first(&mca_btl_exanest_component.reported.registration))
		return;
	mca_btl_exanest_report(
		MCA_BTL_EXANEST_PROCESS, "not registered",
		"%s on %s (pid %d) could not register %zu bytes at %p in mode %s: %s\n"
		"\n"
		"Transfers work without registration, so the job goes on, but what it measures is not\n"
		"what btl_exanest_mode asks for. If memory is the reason, look at the limit of locked\n"
		"memory (ulimit -l). If it is an address that cannot be resolved, the memory may not\n"
		"be written to: leave btl_exanest_mode at \"fault\".\n"
		"Only the first such failure of a process is reported.",
		mca_btl_exanest_name(OPAL_PROC_MY_NAME).text, opal_process_info.nodename,
		(int)getpid(), size, base, modes[comparison_mode].string, pf_strerror(status));
}

/*
 * A buffer that cannot be registered gets a handle, too: transfers work without
 * registration, and ob1 of 4.1 repeats a refused registration of a receive for ever.
 */
mca_btl_base_registration_handle_t *mca_btl_exanest_handle_new(void *base, size_t size, bool write)
{
	mca_btl_base_registration_handle_t *handle = malloc(sizeof(*handle));
	int status;

	if (OPAL_UNLIKELY(NULL == handle))
		return NULL;
	status = registration_add(&registrations, base, size, write, &handle->registration);
	if (OPAL_UNLIKELY(status < 0))
		registration_report(base, size, status);
	return handle;
}

void mca_btl_exanest_handle_free(mca_btl_base_registration_handle_t *handle)
{
	/* After finalize no registration is left to undo. */
	if (registrations_valid)
		registration_remove(&registrations, handle->registration);
	free(handle);
}

#else

int mca_btl_exanest_comparison_register(void)
{
	return OPAL_SUCCESS;
}

void mca_btl_exanest_comparison_init(void)
{
}

void mca_btl_exanest_comparison_finalize(void)
{
}

bool mca_btl_exanest_compares(void)
{
	return false;
}

mca_btl_base_registration_handle_t *mca_btl_exanest_handle_new(void *base, size_t size, bool write)
{
	return NULL;
}

void mca_btl_exanest_handle_free(mca_btl_base_registration_handle_t *handle)
{
}

#endif
