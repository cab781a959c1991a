/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors. Most live for a single call of btl_send; the free lists grow with
 * descriptors that wait for room in a ring.
 */
#include "btl_exanest.h"

#include "opal/util/sys_limits.h"

#include "btl_exanest_check.h"
#include "btl_exanest_frag.h"

static void frag_construct(mca_btl_exanest_frag_t *frag)
{
	frag->base.des_segments = frag->segments;
}

OBJ_CLASS_INSTANCE(mca_btl_exanest_frag_t, mca_btl_base_descriptor_t, frag_construct, NULL);

static int frag_init(opal_free_list_item_t *item, void *list)
{
	((mca_btl_exanest_frag_t *)item)->list = list;
	return OPAL_SUCCESS;
}

/* A small frag is followed by its buffer. */
static int frag_init_control(opal_free_list_item_t *item, void *list)
{
	item->ptr = (mca_btl_exanest_frag_t *)item + 1;
	return frag_init(item, list);
}

static int list_init(opal_free_list_t *list, size_t inline_size, size_t buffer_size,
		     opal_free_list_item_init_fn_t init)
{
	const mca_btl_exanest_component_t *component = &mca_btl_exanest_component;

	/*
	 * Buffers are whole pages: opal_free_list_grow_st fills the rest of the last page
	 * with buffers that are not counted, and a list beyond its limit never stops
	 * growing.
	 */
	return opal_free_list_init(list, sizeof(mca_btl_exanest_frag_t) + inline_size,
				   opal_cache_line_size, OBJ_CLASS(mca_btl_exanest_frag_t),
				   buffer_size, opal_getpagesize(), component->free_list_num,
				   component->free_list_max, component->free_list_inc, NULL, 0,
				   NULL, init, list);
}

static size_t size_larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

int mca_btl_exanest_init_frags(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	const mca_btl_base_module_t *here = &mca_btl_exanest_module.super;
	const mca_btl_base_module_t *net = &mca_btl_exanest_net_module.super;
	size_t buffer_size =
		size_larger(size_larger(here->btl_max_send_size, here->btl_eager_limit),
			    size_larger(net->btl_max_send_size, net->btl_eager_limit));
	int rc;

	assert_that(here->btl_eager_limit && net->btl_eager_limit);
	/*
	 * Messages sent in place may use up a list while a peer reads nothing. Control
	 * messages to other peers, like the end of a get, still find a descriptor: ob1 4.1 repeats
	 * a control message only after another message of the same module.
	 */
	rc = list_init(&component->control_frags, MCA_BTL_EXANEST_CONTROL_SIZE, 0,
		       frag_init_control);
	if (OPAL_SUCCESS == rc)
		rc = list_init(&component->header_frags, MCA_BTL_EXANEST_CONTROL_SIZE, 0,
			       frag_init_control);
	if (OPAL_SUCCESS == rc)
		rc = list_init(&component->packed_frags, 0, buffer_size, frag_init);
	return rc;
}

/* Return a descriptor of one segment, or NULL. */
static mca_btl_base_descriptor_t *frag_get(opal_free_list_t *list, size_t size, uint8_t order,
					   uint32_t flags)
{
	mca_btl_exanest_frag_t *frag = (mca_btl_exanest_frag_t *)opal_free_list_get(list);

	if (OPAL_UNLIKELY(NULL == frag))
		return NULL;
	frag->segments[0].seg_addr.pval = frag->base.super.ptr;
	frag->segments[0].seg_len = size;
	frag->base.des_segment_count = 1;
	frag->base.des_flags = flags;
	frag->base.order = order;
	frag->convertor = NULL;
	return &frag->base;
}

mca_btl_base_descriptor_t *mca_btl_exanest_alloc(mca_btl_base_module_t *btl,
						 mca_btl_base_endpoint_t *endpoint, uint8_t order,
						 size_t size, uint32_t flags)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;

	if (size <= MCA_BTL_EXANEST_CONTROL_SIZE)
		return frag_get(&component->control_frags, size, order, flags);
	if (OPAL_UNLIKELY(size > component->packed_frags.fl_payload_buffer_size))
		return NULL;
	return frag_get(&component->packed_frags, size, order, flags);
}

int mca_btl_exanest_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor)
{
	mca_btl_exanest_frag_return((mca_btl_exanest_frag_t *)descriptor);
	return OPAL_SUCCESS;
}

/* Does the convertor pack all of a message of the host now, of so many bytes? */
static bool packs_all(const opal_convertor_t *convertor, size_t size)
{
	size_t packed;

	opal_convertor_get_packed_size(convertor, &packed);
	return packed == size && !convertor->bConverted && !mca_btl_exanest_is_on_device(convertor);
}

/*
 * A contiguous payload is not moved: the request of the user waits with the frag. With sends
 * that complete at once, by a copy into the frag, windows of 64 messages of 16 to 64 KiB in both
 * directions had a third of the bandwidth (benchmarks/mpi/bibw).
 */
mca_btl_base_descriptor_t *mca_btl_exanest_prepare_src(mca_btl_base_module_t *btl,
						       mca_btl_base_endpoint_t *endpoint,
						       opal_convertor_t *convertor, uint8_t order,
						       size_t reserve, size_t *size, uint32_t flags)
{
	const size_t limit = mca_btl_exanest_component.packed_frags.fl_payload_buffer_size;
	const bool pack = mca_btl_exanest_must_pack(convertor);
	mca_btl_base_descriptor_t *descriptor;
	mca_btl_exanest_frag_t *frag;
	uint32_t iov_count = 1;
	struct iovec iov;

	assert_that(reserve <= MCA_BTL_EXANEST_CONTROL_SIZE);
	if (OPAL_UNLIKELY(reserve + *size > limit))
		*size = limit - reserve;
	descriptor = pack ? mca_btl_exanest_alloc(btl, endpoint, order, reserve + *size, flags) :
			    frag_get(&mca_btl_exanest_component.header_frags, reserve, order,
				     flags);
	if (OPAL_UNLIKELY(NULL == descriptor))
		return NULL;
	if (!pack) {
		opal_convertor_get_current_pointer(convertor,
						   &descriptor->des_segments[1].seg_addr.pval);
		descriptor->des_segments[1].seg_len = *size;
		descriptor->des_segment_count = 2;
		return descriptor;
	}
	/* The callback of a frag that is sent in any case counts the bytes of the segments. */
	if (!(flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) && packs_all(convertor, *size)) {
		frag = (mca_btl_exanest_frag_t *)descriptor;
		frag->convertor = convertor;
		frag->payload_size = *size;
		frag->segments[0].seg_len = reserve;
		return descriptor;
	}
	iov.iov_base =
		(IOVBASE_TYPE *)((char *)descriptor->des_segments[0].seg_addr.pval + reserve);
	iov.iov_len = *size;
	if (OPAL_UNLIKELY(opal_convertor_pack(convertor, &iov, &iov_count, size) < 0)) {
		mca_btl_exanest_free(btl, descriptor);
		return NULL;
	}
	descriptor->des_segments[0].seg_len = reserve + *size;
	return descriptor;
}
