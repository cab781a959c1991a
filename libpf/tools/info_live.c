/* SPDX-License-Identifier: BSD-3-Clause */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "info.h"
#include "json.h"
#include "session.h"
#include "pattern.h"

#define LENGTH ((size_t)4 << 20) /* bytes moved each way */

/* Put and get the buffer, and verify the contents on the receiving side. */
static int live_move(struct session *session, uint8_t *buffer, size_t length)
{
	uint64_t remote, wrong;

	if (session_prepare(session, length, length, 1, 1, false, &remote))
		return -1;
	pattern_fill(buffer, length, 2);
	session->completed = 0;
	if (session_posted(session, "pf_put",
			   pf_put(session->peer, buffer, remote, length, 0, session_complete,
				  session)) ||
	    session_wait(session, &session->completed, 1) ||
	    session_check(session, length, length, 1, 2, &wrong))
		return -1;
	memset(buffer, 0, length);
	if (session_posted(session, "pf_get",
			   pf_get(session->peer, buffer, remote, length, session_complete,
				  session)) ||
	    session_wait(session, &session->completed, 2))
		return -1;
	if (!wrong && pattern_matches(buffer, length, 2))
		return 0;
	warnx("wrong contents after a %s of %zu bytes", wrong ? "put" : "get", length);
	return -1;
}

static int live_load(struct live *live, struct session *session)
{
	struct control path = { .kind = CONTROL_PATH };
	struct control shared = { .kind = CONTROL_STATISTIC, .seed = PF_STAT_SHARED_BYTES };

	if (session_ask(session, &path) || session_ask(session, &shared))
		return -1;
	live->length = LENGTH;
	snprintf(live->path, sizeof(live->path), "%s", pf_peer_path(session->peer));
	snprintf(live->partner_path, sizeof(live->partner_path), "%s", path.text);
	live->single_copy_bytes = pf_stat(session->context, PF_STAT_SINGLE_COPY_BYTES);
	live->shared_bytes = shared.length;
	live->stream_bytes = pf_stat(session->context, PF_STAT_STREAM_BYTES);
	return 0;
}

int info_load_live(struct info *info)
{
	struct session session;
	uint8_t *buffer;
	int status = -1;

	if (session_fork(&session, &info->origins.in_force, &info->cores))
		return -1;
	buffer = session_buffer(LENGTH);
	if (buffer) {
		if (!live_move(&session, buffer, LENGTH))
			status = live_load(&info->live, &session);
		munmap(buffer, LENGTH);
	}
	return session_close(&session) ? -1 : status;
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
