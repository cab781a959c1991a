/* SPDX-License-Identifier: BSD-3-Clause */
#include <libpf/pf.h>

const char *pf_strerror(int status)
{
	switch (status) {
	case PF_OK:
		return "success";
	case PF_PENDING:
		return "not complete yet";
	case PF_ERR_AGAIN:
		return "no room now: call pf_progress and try again";
	case PF_ERR_FAULT:
		return "address could not be resolved";
	case PF_ERR_PEER:
		return "the peer's process is gone";
	case PF_ERR_UNREACHABLE:
		return "no transport reaches this address, or it never answered";
	case PF_ERR_ARGUMENT:
		return "invalid argument";
	case PF_ERR_MEMORY:
		return "out of memory";
	case PF_ERR_TOO_LONG:
		return "message longer than pf_attributes.send_max, or buffer too small";
	case PF_ERR_REFUSED:
		return "refused by the peer: wrong protection domain or version";
	case PF_ERR_SYSTEM:
		return "a system call failed";
	case PF_ERR_TIMEOUT:
		return "no packet from the peer within peer_timeout, or time is up";
	case PF_ERR_PROTOCOL:
		return "malformed data from the peer";
	default:
		return "unknown status";
	}
}

unsigned pf_version(void)
{
	return PF_VERSION_MAJOR << 16 | PF_VERSION_MINOR;
}
