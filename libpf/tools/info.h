/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts for pf_info, and a function for each section of the output. */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include <stdbool.h>

#include "distance.h"
#include "origin.h"
#include <libpf/pf.h>
#include "topology.h"

/* Result of a put and a get between two processes, contents verified. */
struct live {
	char path[160];             /* pf_peer_path of this process */
	char partner_path[160];     /* pf_peer_path of the partner */
	size_t length;              /* bytes of the put and of the get */
	uint64_t single_copy_bytes; /* moved by this process */
	uint64_t shared_bytes;      /* moved by the partner */
	uint64_t stream_bytes;      /* moved through the ring */
};

struct info {
	pf_capability capabilities[16];
	int capability_count;
	struct origins origins;
	struct topology topology;      /* set only for the sections with live data */
	struct cores cores;            /* unset unless topology or live is shown */
	struct cores pairs[DISTANCES]; /* unset unless topology is shown */
	struct live live;              /* unset unless it is shown */
	bool details;                  /* show ranges, variables and help texts of the options */
};

/* Returns NULL if libpf does not report a capability of this name. */
const pf_capability *info_capability(const struct info *info, const char *name);
bool info_is_available(const struct info *info, const char *name);

/* Connect two processes and fill info->live. Returns 0, or -1 with a message on standard error. */
int info_load_live(struct info *info);

/* Print a row as text, or as a member of the open JSON object. */
void row_print(bool json, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Print the contents of a section as text or into the open JSON array or object. */
void info_print_capabilities(const struct info *info, bool json);
void info_print_permissions(const struct info *info, bool json);
void info_print_paths(const struct info *info, bool json);
void info_print_options(const struct info *info, bool json);
void info_print_calibration(const struct info *info, bool json);
void info_print_topology(const struct info *info, bool json);
/* Measures for some milliseconds. */
void info_print_pages(const struct info *info, bool json);
void info_print_live(const struct info *info, bool json);

#endif
