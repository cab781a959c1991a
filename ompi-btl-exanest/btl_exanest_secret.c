/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The secret by which the processes of a job join one protection domain of /dev/exanest. Open MPI 4.1
 * gives them one, which spawned jobs inherit. Later versions do not: there the first process of the
 * job on this host stores one in the job's session folder; or, if an engine reaches other hosts, the
 * first process of the job publishes one, as secret as the addresses that it publishes.
 */
#include "btl_exanest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_BYTES 32
#define MODEX_KEY "btl.exanest.secret"

/* Accept only a regular file that this user owns and no other user can access. */
static bool read_secret(const char *path, unsigned char secret[SECRET_BYTES])
{
	struct stat file;
	bool usable;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return false;
	usable = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
		 !(file.st_mode & (S_IRWXG | S_IRWXO)) &&
		 read(fd, secret, SECRET_BYTES) == SECRET_BYTES;
	close(fd);
	return usable;
}

/*
 * Processes that store one at the same time: the first link() wins, and all read its file, which
 * was complete before it had this name.
 */
static bool store_secret(const char *path)
{
	unsigned char secret[SECRET_BYTES];
	char own[OPAL_PATH_MAX];
	bool stored;
	int fd;

	if ((size_t)snprintf(own, sizeof(own), "%s.XXXXXX", path) >= sizeof(own))
		return false;
	fd = mkostemp(own, O_CLOEXEC);
	if (fd < 0)
		return false;
	stored = getrandom(secret, sizeof(secret), 0) == sizeof(secret) &&
		 write(fd, secret, sizeof(secret)) == sizeof(secret) &&
		 (link(own, path) == 0 || errno == EEXIST);
	explicit_bzero(secret, sizeof(secret));
	unlink(own);
	close(fd);
	return stored;
}

/* The first process waits for no other, and each of the others for it. */
static void join_across_hosts(pf_context *context)
{
	const opal_process_name_t first = { .jobid = OPAL_PROC_MY_NAME.jobid, .vpid = 0 };
	unsigned char secret[SECRET_BYTES];
	uint8_t *published = NULL;
	size_t length = 0;
	int rc;

	if (OPAL_PROC_MY_NAME.vpid != first.vpid) {
		OPAL_MODEX_RECV_STRING(rc, MODEX_KEY, &first, &published, &length);
		if (OPAL_SUCCESS == rc && published && length == SECRET_BYTES)
			pf_join(context, published, length);
		if (published)
			explicit_bzero(published, length);
		free(published);
		return;
	}
	if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
		return;
	OPAL_MODEX_SEND_STRING(rc, MCA_BTL_EXANEST_MODEX_SCOPE, MODEX_KEY, secret, sizeof(secret));
	if (OPAL_SUCCESS == rc) {
		mca_btl_exanest_modex_commit();
		pf_join(context, secret, sizeof(secret));
	}
	explicit_bzero(secret, sizeof(secret));
}

void mca_btl_exanest_join_job(pf_context *context)
{
	const char *key = getenv(OPAL_MCA_PREFIX "orte_precondition_transports");
	const char *session = opal_process_info.job_session_dir;
	unsigned char secret[SECRET_BYTES];
	pf_attributes attributes;
	char path[OPAL_PATH_MAX];

	if (key) {
		pf_join(context, key, strlen(key));
		return;
	}
	pf_query(context, &attributes, sizeof(attributes));
	if (attributes.node) {
		join_across_hosts(context);
		return;
	}
	if (NULL == session ||
	    (size_t)snprintf(path, sizeof(path), "%s/exanest.secret", session) >= sizeof(path))
		return;
	if (read_secret(path, secret) || (store_secret(path) && read_secret(path, secret)))
		pf_join(context, secret, sizeof(secret));
	explicit_bzero(secret, sizeof(secret));
}
