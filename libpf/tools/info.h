/* SPDX-License-Identifier: BSD-3-Clause */
/* What pf_info knows, gathered once and printed as text or as JSON. */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include <stdbool.h>

#include "origin.h"
#include "pf.h"
#include "topology.h"

enum section {
	SECTION_CAPABILITIES = 1,
	SECTION_PERMISSIONS = 2,
	SECTION_PATHS = 4,
	SECTION_OPTIONS = 8,
	SECTION_CALIBRATION = 16,
	SECTION_TOPOLOGY = 32,
	SECTION_LIVE = 64,
};

/* What decides whether one process may copy from another, and what it is here. */
struct permission {
	const char *name;
	char detail[160];
};

struct path {
	const char *what;
	char how[200];
};

struct live {
	char path[160];             /* from here to the partner, by pf_peer_path */
	char partner_path[160];     /* and back */
	size_t length;              /* of the put and of the get, contents verified */
	uint64_t single_copy_bytes; /* moved by this process, */
	uint64_t shared_bytes;      /* by the partner for it, */
	uint64_t stream_bytes;      /* and through the ring */
};

struct info {
	pf_capability capabilities[16];
	int capability_count;
	struct permission permissions[8];
	int permission_count;
	struct path paths[12];
	int path_count;
	struct origins origins;
	char calibration_path[4096];
	char machine[512];
	const char *calibration;      /* "in force", ... */
	char calibration_detail[256]; /* what to do about it, or "" */
	struct topology topology;
	struct cores cores;
	struct live live;
};

/* sections: a sum of enum section. Returns 0, or -1 after a message on standard error. */
int info_gather(struct info *info, unsigned sections);

/* details: with ranges, variables and help of the options. */
void info_print_text(const struct info *info, unsigned sections, bool details);
void info_print_json(const struct info *info, unsigned sections);

#endif
