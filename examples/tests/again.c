/* SPDX-License-Identifier: BSD-3-Clause */
/* To be preloaded: a pf_send that has room at every third call only. */
#include <dlfcn.h>
#include <libpf/pf.h>

typedef int (*send_fn)(pf_peer *peer, uint32_t tag, const void *header, size_t header_length,
		       const void *payload, size_t payload_length);

int pf_send(pf_peer *peer, uint32_t tag, const void *header, size_t header_length,
	    const void *payload, size_t payload_length)
{
	static unsigned calls;
	send_fn next = (send_fn)dlsym(RTLD_NEXT, "pf_send");

	if (calls++ % 3 != 2)
		return PF_ERR_AGAIN;
	return next(peer, tag, header, header_length, payload, payload_length);
}
