/* SPDX-License-Identifier: BSD-3-Clause */
/* To be preloaded: a process stops after its first pf_flush, until SIGCONT. */
#include <dlfcn.h>
#include <libpf/pf.h>
#include <signal.h>

typedef int (*flush_fn)(pf_context *context, pf_peer *peer, int64_t timeout);

int pf_flush(pf_context *context, pf_peer *peer, int64_t timeout)
{
	static int stopped;
	int status = ((flush_fn)dlsym(RTLD_NEXT, "pf_flush"))(context, peer, timeout);

	if (!stopped++)
		raise(SIGSTOP);
	return status;
}
