/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MCA_BTL_EXANEST_FRAG_H
#define MCA_BTL_EXANEST_FRAG_H

#include "btl_exanest.h"

/* Holds every header of the PML, and what it sends without a payload. */
#define MCA_BTL_EXANEST_CONTROL_SIZE 256

/* After the limits of the module are known. */
int mca_btl_exanest_init_frags(void);

static inline void mca_btl_exanest_frag_return(mca_btl_exanest_frag_t *frag)
{
	opal_free_list_return(frag->list, &frag->base.super);
}

/* The callback may free the frag if it is not ours to free. */
static inline void mca_btl_exanest_frag_complete(mca_btl_exanest_frag_t *frag, int rc)
{
	const uint32_t flags = frag->base.des_flags;

	if ((flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) && frag->base.des_cbfunc)
		frag->base.des_cbfunc(&frag->endpoint->module->super, frag->endpoint, &frag->base,
				      rc);
	if (flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP)
		mca_btl_exanest_frag_return(frag);
}

#endif
