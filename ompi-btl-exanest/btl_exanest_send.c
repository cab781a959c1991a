/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages. libpf copies a message into the peer's ring before pf_send returns: a
 * send is complete at once unless the ring is full. A frag without room waits at the
 * endpoint, and later frags wait behind; the user's buffer stays in use where the payload is
 * contiguous.
 */
#include "btl_exanest.h"

#include <unistd.h>

#include "opal/util/sys_limits.h"

#include "btl_exanest_check.h"
#include "btl_exanest_frag.h"

/* Pack for pf_send_pack. Packing of memory of the host cannot fail. */
static void convertor_pack(void *destination, size_t length, void *convertor)
{
	struct iovec iov = { .iov_base = destination, .iov_len = length };
	uint32_t iov_count = 1;

	(void)opal_convertor_pack(convertor, &iov, &iov_count, &length);
}

static int frag_send(const mca_btl_exanest_frag_t *frag)
{
	const mca_btl_base_segment_t *segments = frag->segments;
	pf_peer *peer = frag->endpoint->peer;

	assert_that(frag->base.des_segment_count == 1 || frag->base.des_segment_count == 2);
	if (frag->convertor)
		return pf_send_pack(peer, frag->tag, segments[0].seg_addr.pval, segments[0].seg_len,
				    frag->payload_size, convertor_pack, frag->convertor);
	/* Between hosts the frag is a payload: libpf may send a long payload without a copy. */
	if (frag->base.des_segment_count == 1 &&
	    frag->endpoint->module == &mca_btl_exanest_net_module)
		return pf_send(peer, frag->tag, NULL, 0, segments[0].seg_addr.pval,
			       segments[0].seg_len);
	if (frag->base.des_segment_count == 1)
		return pf_send(peer, frag->tag, segments[0].seg_addr.pval, segments[0].seg_len,
			       NULL, 0);
	return pf_send(peer, frag->tag, segments[0].seg_addr.pval, segments[0].seg_len,
		       segments[1].seg_addr.pval, segments[1].seg_len);
}

/* Pack the payload into the frag, which has the room. */
static void frag_pack(mca_btl_exanest_frag_t *frag)
{
	mca_btl_base_segment_t *segment = &frag->segments[0];

	convertor_pack((char *)segment->seg_addr.pval + segment->seg_len, frag->payload_size,
		       frag->convertor);
	segment->seg_len += frag->payload_size;
	frag->convertor = NULL;
}

/* Touch each page of a payload that is sent in place. */
static void frag_touch(const mca_btl_exanest_frag_t *frag)
{
	const mca_btl_base_segment_t *segment = &frag->segments[1];
	const volatile char *bytes = segment->seg_addr.pval;
	size_t at;

	if (frag->base.des_segment_count < 2 || !segment->seg_len)
		return;
	for (at = 0; at < segment->seg_len; at += opal_getpagesize())
		(void)bytes[at];
	(void)bytes[segment->seg_len - 1];
}

/* Under the component's lock: have progress send the pending frags. */
static void endpoint_set_waiting(mca_btl_base_endpoint_t *endpoint)
{
	assert_locked_component();
	assert_that(endpoint->queue != MCA_BTL_EXANEST_WAITING && !endpoint->retired);
	endpoint->queue = MCA_BTL_EXANEST_WAITING;
	opal_list_append(&mca_btl_exanest_component.waiting, &endpoint->super);
}

static int frag_send_or_append(mca_btl_base_endpoint_t *endpoint, mca_btl_exanest_frag_t *frag)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	int status = PF_ERR_AGAIN;

	assert_that(!endpoint->retired);
	/* Before the lock: memory of the user may take a while, or need progress. */
	if (frag->convertor)
		frag_pack(frag);
	else if (opal_using_threads())
		frag_touch(frag);
	OPAL_THREAD_LOCK(&component->lock);
	/*
	 * Try again under the lock, because mca_btl_exanest_room waits for the lock: see
	 * pf_callbacks(3).
	 */
	if (endpoint->queue == MCA_BTL_EXANEST_EMPTY) {
		status = frag_send(frag);
		if (status == PF_ERR_AGAIN)
			endpoint->queue = MCA_BTL_EXANEST_REFUSED;
		else if (status < 0)
			endpoint_set_waiting(endpoint);
	}
	if (status < 0) {
		/* The PML learns of the end only by a callback: see open-mpi/ompi#3845. */
		frag->base.des_flags |= MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
		opal_list_append(&endpoint->pending, &frag->base.super.super);
	}
	OPAL_THREAD_UNLOCK(&component->lock);
	return status;
}

/*
 * A send that fails for good is queued like a send without room: the next progress tries
 * again, and then reports the failure to the user and to the PML, after libpf's event of
 * the peer, because the event knows more of the failure.
 */
int mca_btl_exanest_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			 mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag)
{
	mca_btl_exanest_frag_t *frag = (mca_btl_exanest_frag_t *)descriptor;

	mca_btl_exanest_note_post();
	frag->endpoint = endpoint;
	frag->tag = tag;
	if (OPAL_LIKELY(endpoint->queue == MCA_BTL_EXANEST_EMPTY && frag_send(frag) >= 0) ||
	    frag_send_or_append(endpoint, frag) >= 0) {
		mca_btl_exanest_frag_complete(frag, OPAL_SUCCESS);
		return 1;
	}
	return OPAL_SUCCESS;
}

int mca_btl_exanest_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			  opal_convertor_t *convertor, void *header, size_t header_size,
			  size_t payload_size, uint8_t order, uint32_t flags,
			  mca_btl_base_tag_t tag, mca_btl_base_descriptor_t **descriptor)
{
	void *payload = NULL;
	int status;

	mca_btl_exanest_note_post();
	/* ob1 packs the memory of a device into a descriptor; here the peer's lock would be held. */
	if (OPAL_UNLIKELY(endpoint->queue != MCA_BTL_EXANEST_EMPTY) ||
	    (payload_size && mca_btl_exanest_is_on_device(convertor))) {
		status = PF_ERR_AGAIN;
	} else if (payload_size && mca_btl_exanest_must_pack(convertor)) {
		status = pf_send_pack(endpoint->peer, tag, header, header_size, payload_size,
				      convertor_pack, convertor);
	} else {
		/* Without a payload the convertor may not even be initialized. */
		if (payload_size)
			opal_convertor_get_current_pointer(convertor, &payload);
		status = pf_send(endpoint->peer, tag, header, header_size, payload, payload_size);
	}
	if (OPAL_LIKELY(status >= 0))
		return OPAL_SUCCESS;
	/*
	 * Give the caller a descriptor for btl_send, whatever the reason: see
	 * mca_btl_exanest_send().
	 */
	if (descriptor)
		*descriptor = mca_btl_exanest_alloc(btl, endpoint, order,
						    header_size + payload_size, flags);
	return OPAL_ERR_RESOURCE_BUSY;
}

/*
 * Send the pending frags of an endpoint that the calling thread has taken off the waiting
 * list. While the queue is SENDING, no other thread puts the endpoint back on the list,
 * sends to the endpoint or retires the endpoint.
 */
static int endpoint_send_pending(mca_btl_base_endpoint_t *endpoint)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	mca_btl_exanest_frag_t *frag;
	int status = PF_OK, count = 0;

	assert_that(endpoint->queue == MCA_BTL_EXANEST_SENDING);
	OPAL_THREAD_LOCK(&component->lock);
	while (!endpoint->retired && !opal_list_is_empty(&endpoint->pending)) {
		frag = (mca_btl_exanest_frag_t *)opal_list_get_first(&endpoint->pending);
		status = frag_send(frag);
		if (status == PF_ERR_AGAIN)
			break;
		opal_list_remove_first(&endpoint->pending);
		OPAL_THREAD_UNLOCK(&component->lock);
		if (OPAL_UNLIKELY(status < 0))
			mca_btl_exanest_fail_peer(endpoint, status, NULL);
		mca_btl_exanest_frag_complete(frag, mca_btl_exanest_error(status));
		count++;
		OPAL_THREAD_LOCK(&component->lock);
	}
	if (status == PF_ERR_AGAIN) {
		endpoint->queue = MCA_BTL_EXANEST_REFUSED;
	} else {
		endpoint->queue = MCA_BTL_EXANEST_EMPTY;
		if (endpoint->retired)
			mca_btl_exanest_retire(endpoint);
	}
	OPAL_THREAD_UNLOCK(&component->lock);
	return count;
}

int mca_btl_exanest_send_pending(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	mca_btl_base_endpoint_t *endpoint;
	int count = 0;

	while (!opal_list_is_empty(&component->waiting)) {
		OPAL_THREAD_LOCK(&component->lock);
		endpoint = (mca_btl_base_endpoint_t *)opal_list_remove_first(&component->waiting);
		if (endpoint)
			endpoint->queue = MCA_BTL_EXANEST_SENDING;
		OPAL_THREAD_UNLOCK(&component->lock);
		if (!endpoint)
			break;
		count += endpoint_send_pending(endpoint);
	}
	return count;
}

static void endpoint_end_refusal(mca_btl_base_endpoint_t *endpoint)
{
	assert_locked_component();
	if (endpoint && endpoint->queue == MCA_BTL_EXANEST_REFUSED)
		endpoint_set_waiting(endpoint);
}

/*
 * Note room for messages. ob1 and osc/rdma repeat puts, gets and atomics without a note:
 * see operation_refuse().
 */
void mca_btl_exanest_room(pf_context *context, pf_peer *peer, void *arg)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	mca_btl_base_endpoint_t *endpoint;

	assert_progress(context);
	OPAL_THREAD_LOCK(&component->lock);
	endpoint = pf_peer_user(peer);
	endpoint_end_refusal(endpoint);
	if (endpoint)
		endpoint_end_refusal(endpoint->one_sided);
	OPAL_THREAD_UNLOCK(&component->lock);
}

/*
 * Return the module to deliver a message with. A sender not yet named by Open MPI, for
 * example a process of the own host at the start, gets the module between hosts: ob1
 * fetches announced data through the module.
 */
static mca_btl_base_module_t *endpoint_module(const mca_btl_base_endpoint_t *endpoint)
{
	return OPAL_LIKELY(NULL != endpoint) ? &endpoint->module->super :
					       &mca_btl_exanest_net_module.super;
}

static void segments_deliver(pf_peer *from, uint32_t tag, mca_btl_base_segment_t *segments,
			     size_t count)
{
	mca_btl_base_endpoint_t *endpoint = pf_peer_user(from);

#if MCA_BTL_EXANEST_AM_RDMA
	if (OPAL_UNLIKELY(!endpoint && mca_btl_exanest_is_answered(tag)))
		endpoint = mca_btl_exanest_find_sender(from);
#endif
	if (OPAL_LIKELY(tag < MCA_BTL_TAG_MAX && mca_btl_base_active_message_trigger[tag].cbfunc)) {
		mca_btl_exanest_deliver(endpoint_module(endpoint), endpoint, tag, segments, count);
		return;
	}
	if (!mca_btl_exanest_is_first(&mca_btl_exanest_component.reported.stray))
		return;
	mca_btl_exanest_report(
		MCA_BTL_EXANEST_PROCESS, "stray message",
		"%s on %s (pid %d) dropped a message with tag %u, for which no part of "
		"Open MPI is registered\n"
		"\n"
		"All processes of a job need the same version of Open MPI. Only the first such\n"
		"message of a process is reported.",
		mca_btl_exanest_name(OPAL_PROC_MY_NAME).text, opal_process_info.nodename,
		(int)getpid(), (unsigned)tag);
}

void mca_btl_exanest_receive(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			     size_t length, void *arg)
{
	mca_btl_base_segment_t segment = { .seg_addr.pval = data, .seg_len = length };
	uint64_t copy[8];

	assert_progress(context);
	/* Behind the message, in the ring or in the packet, is the next message. */
	if (OPAL_UNLIKELY(mca_btl_exanest_is_written_behind(tag) &&
			  length <= sizeof(copy) - sizeof(copy[0]))) {
		memcpy(copy, data, length);
		segment.seg_addr.pval = copy;
	}
	segments_deliver(from, tag, &segment, 1);
}

/* Wait for memory: sleep for 1 ms before the next try, and report after 10 s, once. */
static void message_wait_memory(unsigned *tries)
{
	static bool said;

	usleep(1000);
	if (++*tries < 10000 || said)
		return;
	said = true;
	opal_output(0,
		    "btl:exanest: no memory for a message for 10 s: waiting for it; see the memory "
		    "limits of the job (ulimit -v, the memory controller of its cgroup)");
}

/* Deliver a message in pieces to a receiver that expects a single segment: all but the PML. */
static void pieces_deliver(pf_peer *from, uint32_t tag, const struct iovec *pieces, unsigned count)
{
	mca_btl_base_segment_t segment = { .seg_len = 0 };
	unsigned i, tries = 0;
	char *at;

	for (i = 0; i < count; i++)
		segment.seg_len += pieces[i].iov_len;
	/* No sender repeats the message: lack of memory is waited out. */
	/* NOLINTNEXTLINE(clang-analyzer-*): the first piece alone has PF_PIECE_FIRST bytes */
	while (NULL == (segment.seg_addr.pval = malloc(segment.seg_len)))
		message_wait_memory(&tries);
	at = segment.seg_addr.pval;
	for (i = 0; i < count; i++) {
		memcpy(at, pieces[i].iov_base, pieces[i].iov_len);
		at += pieces[i].iov_len;
	}
	segments_deliver(from, tag, &segment, 1);
	free(segment.seg_addr.pval);
}

void mca_btl_exanest_receive_pieces(pf_context *context, pf_peer *from, uint32_t tag,
				    const struct iovec *pieces, unsigned count, void *arg)
{
	mca_btl_base_segment_t segments[PF_PIECES_MOST];
	unsigned i;

	assert_progress(context);
	assert_that(count > 0 && count <= PF_PIECES_MOST);
	/* MCA_BTL_AM_FRAMEWORK_MASK does not tell the PML's tags from the tags of osc/rdma. */
	if (OPAL_UNLIKELY(MCA_BTL_TAG_PML != (tag & 0xf0))) {
		pieces_deliver(from, tag, pieces, count);
		return;
	}
	for (i = 0; i < count; i++) {
		segments[i].seg_addr.pval = pieces[i].iov_base;
		segments[i].seg_len = pieces[i].iov_len;
	}
	segments_deliver(from, tag, segments, count);
}
