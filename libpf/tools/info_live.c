/* SPDX-License-Identifier: BSD-3-Clause */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "info.h"
#include "json.h"
#include "pair.h"
#include "pattern.h"

#define LENGTH ((size_t)4 << 20) /* bytes moved each way */

/* Put and get the buffer, and verify the contents on the receiving side. */
static int live_move(struct pair *pair, uint8_t *buffer, size_t length)
{
	uint64_t remote, wrong;

	if (pair_prepare(pair, length, length, 1, 1, false, &remote))
		return -1;
	pattern_fill(buffer, length, 2);
	pair->completed = 0;
	if (pair_posted(pair, "pf_put",
			pf_put(pair->peer, buffer, remote, length, pair_complete, pair)) ||
	    pair_wait(pair, &pair->completed, 1) || pair_check(pair, length, length, 1, 2, &wrong))
		return -1;
	memset(buffer, 0, length);
	if (pair_posted(pair, "pf_get",
			pf_get(pair->peer, buffer, remote, length, pair_complete, pair)) ||
	    pair_wait(pair, &pair->completed, 2))
		return -1;
	if (!wrong && pattern_matches(buffer, length, 2))
		return 0;
	warnx("wrong contents after a %s of %zu bytes", wrong ? "put" : "get", length);
	return -1;
}

static int live_load(struct live *live, struct pair *pair)
{
	struct control path = { .kind = CONTROL_PATH };
	struct control shared = { .kind = CONTROL_STATISTIC, .seed = PF_STAT_SHARED_BYTES };

	if (pair_ask(pair, &path) || pair_ask(pair, &shared))
		return -1;
	live->length = LENGTH;
	snprintf(live->path, sizeof(live->path), "%s", pf_peer_path(pair->peer));
	snprintf(live->partner_path, sizeof(live->partner_path), "%s", path.text);
	live->single_copy_bytes = pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES);
	live->shared_bytes = shared.length;
	live->stream_bytes = pf_stat(pair->context, PF_STAT_STREAM_BYTES);
	return 0;
}

int info_load_live(struct info *info)
{
	struct pair pair;
	uint8_t *buffer;
	int status = -1;

	if (pair_fork(&pair, &info->origins.in_force, &info->cores))
		return -1;
	buffer = pair_buffer(LENGTH);
	if (buffer) {
		if (!live_move(&pair, buffer, LENGTH))
			status = live_load(&info->live, &pair);
		munmap(buffer, LENGTH);
	}
	return pair_close(&pair) ? -1 : status;
}

static void live_print_json(const struct live *live)
{
	json_string("path", live->path);
	json_string("path_back", live->partner_path);
	json_number("bytes_each_way", live->length);
	json_number("single_copy_bytes", live->single_copy_bytes);
	json_number("shared_bytes", live->shared_bytes);
	json_number("stream_bytes", live->stream_bytes);
}

static void live_print_text(const struct live *live)
{
	printf("  %-18s %s\n", "path", live->path);
	printf("  %-18s %s\n", "path back", live->partner_path);
	printf("  %-18s a put and a get of %zu bytes, contents verified\n", "moved", live->length);
	printf("  %-18s %" PRIu64 " bytes by this process, %" PRIu64 " by the other, %" PRIu64
	       " through the ring\n",
	       "", live->single_copy_bytes, live->shared_bytes, live->stream_bytes);
}

void info_print_live(const struct info *info, bool json)
{
	row_print(json, "cores", "%s", info->cores.text);
	if (json)
		live_print_json(&info->live);
	else
		live_print_text(&info->live);
}
