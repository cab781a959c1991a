/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration. No transfer needs registration, and only builds for comparison can register
 * (btl_exanest_comparison.h). ob1's attempt to register a message is where the component
 * chooses between a fetch and sends.
 */
#include "btl_exanest.h"

#include <string.h>

#include "btl_exanest_check.h"
#include "btl_exanest_comparison.h"

/* Handle of all buffers without registration. */
static mca_btl_base_registration_handle_t unregistered;

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

static mca_btl_base_registration_handle_t *memory_register(mca_btl_base_module_t *btl,
							   mca_btl_base_endpoint_t *endpoint,
							   void *base, size_t size, uint32_t flags)
{
	const bool write = 0 !=
			   (flags & (MCA_BTL_REG_FLAG_LOCAL_WRITE | MCA_BTL_REG_FLAG_REMOTE_WRITE |
				     MCA_BTL_REG_FLAG_REMOTE_ATOMIC));

	if (memory_is_streamed(endpoint, flags))
		return NULL;
	return mca_btl_exanest_compares() ? mca_btl_exanest_handle_new(base, size, write) :
					    &unregistered;
}

static int memory_deregister(mca_btl_base_module_t *btl, mca_btl_base_registration_handle_t *handle)
{
	if (handle != &unregistered)
		mca_btl_exanest_handle_free(handle);
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
	mca_btl_exanest_comparison_init();
	if (mca_btl_exanest_compares()) {
		module_offer_registration(&mca_btl_exanest_net_module.super);
		return;
	}
	/* osc/rdma neither registers nor copies local buffers of puts and gets. */
	host->btl_put_local_registration_threshold = SIZE_MAX;
	host->btl_get_local_registration_threshold = SIZE_MAX;
}
