/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration, for comparison with networks that cannot do without: there is
 * none unless btl_exanest_mode asks for it, and no transfer needs it.
 */
#include "btl_exanest.h"

#include "opal/util/show_help.h"

struct mca_btl_base_registration_handle_t {
	pf_registration *registration; /* NULL: there is nothing to undo */
};

static const char *mode_name(void)
{
	const pf_option_info *info = pf_option_table();

	while (info->offset != offsetof(pf_options, mode))
		info++;
	return info->names[mca_btl_exanest_component.options.mode];
}

/* What was to be compared is not what runs then, so that it must not pass in silence. */
static void report_failure(void *base, size_t size, int status)
{
	char address[32];

	if (mca_btl_exanest_component.registration_reported)
		return;
	mca_btl_exanest_component.registration_reported = true;
	snprintf(address, sizeof(address), "%p", base);
	opal_show_help(MCA_BTL_EXANEST_HELP, "not registered", true, opal_process_info.nodename,
		       OPAL_NAME_PRINT(OPAL_PROC_MY_NAME), (int)getpid(), mode_name(), address,
		       size, pf_strerror(status));
}

/*
 * A buffer that cannot be registered gets its handle all the same: transfers
 * work without, and ob1 of 4.1 repeats for ever what a BTL refuses here.
 */
static mca_btl_base_registration_handle_t *register_mem(mca_btl_base_module_t *btl,
							mca_btl_base_endpoint_t *endpoint,
							void *base, size_t size, uint32_t flags)
{
	mca_btl_base_registration_handle_t *handle = malloc(sizeof(*handle));
	const int write = 0 !=
			  (flags & (MCA_BTL_REG_FLAG_LOCAL_WRITE | MCA_BTL_REG_FLAG_REMOTE_WRITE |
				    MCA_BTL_REG_FLAG_REMOTE_ATOMIC));
	int status;

	if (OPAL_UNLIKELY(NULL == handle))
		return NULL;
	status = pf_register(mca_btl_exanest_component.context, base, size, write,
			     &handle->registration);
	if (OPAL_UNLIKELY(status < 0))
		report_failure(base, size, status);
	return handle;
}

static int deregister_mem(mca_btl_base_module_t *btl, mca_btl_base_registration_handle_t *handle)
{
	/* Without a context, pf_close has undone all registrations. */
	if (mca_btl_exanest_component.context)
		pf_deregister(mca_btl_exanest_component.context, handle->registration);
	free(handle);
	return OPAL_SUCCESS;
}

void mca_btl_exanest_init_registration(mca_btl_base_module_t *btl)
{
	if (mca_btl_exanest_component.options.mode == PF_MODE_FAULT)
		return;
	btl->btl_register_mem = register_mem;
	btl->btl_deregister_mem = deregister_mem;
	/* Peers need an address and no key, so none of it travels. */
	btl->btl_registration_handle_size = 0;
}
