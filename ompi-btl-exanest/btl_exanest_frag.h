/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MCA_BTL_EXANEST_FRAG_H
#define MCA_BTL_EXANEST_FRAG_H

#include "btl_exanest.h"

/* Bytes for each header of the PML, and for a message of the PML without a payload. */
#define MCA_BTL_EXANEST_CONTROL_SIZE 256

/* Make the lists of frags. The limits of both modules have to be known. */
int mca_btl_exanest_init_frags(void);

static inline void mca_btl_exanest_frag_return(mca_btl_exanest_frag_t *frag)
{
	opal_free_list_return(frag->list, &frag->base.super);
}

/* Complete a send. The callback may free a frag not owned by the BTL. */
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
