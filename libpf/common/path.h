/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes of the path of a peer, which the log of the context tells. */
#ifndef PF_PATH_H
#define PF_PATH_H

#include "context.h"

/* path: as of peer_set_path. A line of the log, unless the peer has the path already. */
static inline void path_set(pf_peer *peer, const char *path)
{
	if (peer_path(peer) == path)
		return;
	peer_set_path(peer, path);
	log_add(&peer->context->log, peer, PF_LOG_INFO, "%s", path);
}

#endif
