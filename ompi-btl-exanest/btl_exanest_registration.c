/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration. No transfer needs registration. btl_exanest_mode asks for registration to
 * compare with networks that need registered memory. In every mode ob1's attempt to
 * register a message is where the component chooses between a fetch and sends.
 */
#include "btl_exanest.h"

#include <string.h>
#include <unistd.h>

#include "btl_exanest_check.h"

struct mca_btl_base_registration_handle_t {
	pf_registration *registration; /* NULL: there is nothing to undo */
};

/* Handle of all buffers in the mode fault. */
static mca_btl_base_registration_handle_t unregistered;

static const char *mode_name(void)
{
	const pf_option_info *info = pf_option_table();

	while (info->offset != offsetof(pf_options, mode))
		info++;
	return info->names[mca_btl_exanest_component.options.mode];
}

/* Report a buffer that is not registered: measurements are then not of the mode asked for. */
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
		(int)getpid(), size, base, mode_name(), pf_strerror(status));
}

/*
 * Does ob1 offer the peer a message that the peer would fetch through the ring? A fetch
 * takes two system calls for each block there, a send none: ob1 is to send the message.
 * ob1 offers a message with MCA_BTL_REG_FLAG_REMOTE_READ alone, and sends all of the
 * message after a refusal. osc/rdma never uses that flag alone. The receiver cannot
 * refuse: after a get that fails, ob1 of 4.1 sends, too, but loses the memory of the
 * sender's mca_pml_ob1_rdma_frag_t.
 */
static bool memory_is_streamed(const mca_btl_base_endpoint_t *endpoint, uint32_t flags)
{
	return flags == MCA_BTL_REG_FLAG_REMOTE_READ && endpoint &&
	       !strncmp(pf_peer_path(endpoint->peer), PF_PATH_RING, strlen(PF_PATH_RING));
}

/*
 * A buffer that cannot be registered gets a handle, too: transfers work without
 * registration, and ob1 of 4.1 repeats a refused registration of a receive for ever.
 */
static mca_btl_base_registration_handle_t *memory_register(mca_btl_base_module_t *btl,
							   mca_btl_base_endpoint_t *endpoint,
							   void *base, size_t size, uint32_t flags)
{
	const int write = 0 !=
			  (flags & (MCA_BTL_REG_FLAG_LOCAL_WRITE | MCA_BTL_REG_FLAG_REMOTE_WRITE |
				    MCA_BTL_REG_FLAG_REMOTE_ATOMIC));
	mca_btl_base_registration_handle_t *handle;
	int status;

	if (memory_is_streamed(endpoint, flags))
		return NULL;
	if (mca_btl_exanest_component.options.mode == PF_MODE_FAULT)
		return &unregistered;
	handle = malloc(sizeof(*handle));
	if (OPAL_UNLIKELY(NULL == handle))
		return NULL;
	status = pf_register(mca_btl_exanest_component.context, base, size, write,
			     &handle->registration);
	if (OPAL_UNLIKELY(status < 0))
		registration_report(base, size, status);
	return handle;
}

static int memory_deregister(mca_btl_base_module_t *btl, mca_btl_base_registration_handle_t *handle)
{
	if (handle == &unregistered)
		return OPAL_SUCCESS;
	/* After pf_close there is no context, and no registration left to undo. */
	if (mca_btl_exanest_component.context)
		pf_deregister(mca_btl_exanest_component.context, handle->registration);
	free(handle);
	return OPAL_SUCCESS;
}

static void module_offer_registration(mca_btl_base_module_t *btl)
{
	btl->btl_register_mem = memory_register;
	btl->btl_deregister_mem = memory_deregister;
	/* Peers need an address and no key: the handle is not sent to peers. */
	btl->btl_registration_handle_size = 0;
}

void mca_btl_exanest_init_registration(void)
{
	mca_btl_base_module_t *host = &mca_btl_exanest_module.super;

	assert_that(!mca_btl_exanest_net_module.super.btl_register_mem);
	module_offer_registration(host);
	if (mca_btl_exanest_component.options.mode != PF_MODE_FAULT) {
		module_offer_registration(&mca_btl_exanest_net_module.super);
		return;
	}
	/* osc/rdma neither registers nor copies local buffers of puts and gets. */
	host->btl_put_local_registration_threshold = SIZE_MAX;
	host->btl_get_local_registration_threshold = SIZE_MAX;
}
