/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The secret by which the processes of a job join a protection domain of /dev/exanest.
 * Open MPI 4.1 gives a secret, and spawned jobs inherit the secret. Later versions give
 * none: the first process of the job on the host stores a secret in the session folder of
 * the job. If the engine reaches remote hosts, the secret is from the host of rank 0, and
 * rank 0 publishes the secret: as secret as the addresses that ranks publish. A spawned
 * job has a secret, and a domain, of its own.
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
/*
 * Seconds by which rank 0 may come later than another rank. Without a secret of rank 0
 * (late, or without exanest), ranks use packets.
 */
#define SECRET_SECONDS 10

/* Read a secret. Accept only a regular file that the user owns and no other user can access. */
static bool secret_read(const char *path, unsigned char secret[SECRET_BYTES])
{
	struct stat file;
	bool usable;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return false;
	usable = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
		 !(file.st_mode & (S_IRWXG | S_IRWXO)) &&
		 read(fd, secret, SECRET_BYTES) == SECRET_BYTES;
	close(fd);
	return usable;
}

/*
 * Store a new secret. Of processes that store secrets concurrently, the first link()
 * wins, and all read the linked file, complete before the link.
 */
static bool secret_store(const char *path)
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

static bool secret_of_host(unsigned char secret[SECRET_BYTES])
{
	const char *session = opal_process_info.job_session_dir;
	char path[OPAL_PATH_MAX];

	return NULL != session &&
	       (size_t)snprintf(path, sizeof(path), "%s/exanest.secret", session) < sizeof(path) &&
	       (secret_read(path, secret) || (secret_store(path) && secret_read(path, secret)));
}

/*
 * linked: the engine reaches remote hosts. Rank 0 waits for no rank, and publishes even
 * if the own engine is not linked.
 */
static bool secret_of_job(bool linked, unsigned char secret[SECRET_BYTES])
{
	static const char key[] = "btl.exanest.secret";
	const opal_process_name_t first = { .jobid = OPAL_PROC_MY_NAME.jobid, .vpid = 0 };

	if (linked && OPAL_PROC_MY_NAME.vpid != first.vpid &&
	    mca_btl_exanest_learn(&first, key, SECRET_SECONDS, secret, SECRET_BYTES))
		return true;
	if (!secret_of_host(secret))
		return false;
	if (OPAL_PROC_MY_NAME.vpid == first.vpid)
		mca_btl_exanest_publish(key, secret, SECRET_BYTES);
	return true;
}

void mca_btl_exanest_join_job(pf_context *context)
{
	const char *key = getenv(OPAL_MCA_PREFIX "orte_precondition_transports");
	unsigned char secret[SECRET_BYTES];
	pf_attributes attributes;

	if (key) {
		pf_join(context, key, strlen(key));
		return;
	}
	pf_query(context, &attributes, sizeof(attributes));
	if (secret_of_job(attributes.node != 0, secret))
		pf_join(context, secret, sizeof(secret));
	explicit_bzero(secret, sizeof(secret));
}
