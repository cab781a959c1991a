/* SPDX-License-Identifier: BSD-3-Clause */
#include "address_file.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <libpf/pf.h>

#define TITLE "# libpf address 1\n"
#define SECRET_MAX 4096 /* bytes */
#define FILE_MAX (sizeof(TITLE) + 2 * PF_ADDRESS_MAX + 1)
#define WAIT_SECONDS 5

static int write_all(int file, const char *text, size_t length)
{
	while (length) {
		ssize_t bytes = write(file, text, length);

		if (bytes < 0 && errno != EINTR)
			return -1;
		if (bytes > 0) {
			text += bytes;
			length -= (size_t)bytes;
		}
	}
	return 0;
}

/* Write two digits a byte and a newline. */
static void address_encode(char *text, const uint8_t *address, size_t length)
{
	static const char digits[] = "0123456789abcdef";
	size_t i;

	for (i = 0; i < length; i++) {
		*text++ = digits[address[i] >> 4];
		*text++ = digits[address[i] & 15];
	}
	*text++ = '\n';
	*text = 0;
}

int address_file_create(const char *name, const void *address, size_t length)
{
	char text[FILE_MAX] = TITLE;
	char *temporary = NULL;
	int file, status = -1;

	address_encode(text + strlen(TITLE), address, length);
	if (asprintf(&temporary, "%s.XXXXXX", name) < 0) {
		warn("%s", name);
		return -1;
	}
	file = mkostemp(temporary, O_CLOEXEC); /* mode 0600 */
	if (file < 0) {
		warn("%s", temporary);
		goto out;
	}
	if (write_all(file, text, strlen(text)))
		warn("%s", temporary);
	else if (!link(temporary, name))
		status = 0;
	else if (errno == EEXIST)
		warnx("%s exists: choose another file, or remove it if no process listens with it",
		      name);
	else
		warn("%s", name);
	close(file);
	unlink(temporary);
out:
	free(temporary);
	return status;
}

static int open_when_it_exists(const char *name)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	int tries = 0, file;

	while ((file = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0) {
		if (errno != ENOENT || ++tries > WAIT_SECONDS * 50)
			break;
		nanosleep(&pause, NULL);
	}
	return file;
}

static int address_decode(const char *text, uint8_t *address, size_t *length)
{
	size_t digits = strspn(text, "0123456789abcdef"), i;

	if (!digits || digits % 2 || digits / 2 > *length || strcmp(text + digits, "\n"))
		return -1;
	for (i = 0; i < digits / 2; i++) {
		char pair[3] = { text[2 * i], text[2 * i + 1], 0 };

		address[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	*length = digits / 2;
	return 0;
}

/* Return whether the file is regular and only its user has access; print why not. */
static bool is_private(const char *name, int file)
{
	struct stat info;

	if (fstat(file, &info) < 0 || !S_ISREG(info.st_mode)) {
		warnx("%s: not a regular file", name);
		return false;
	}
	if (info.st_mode & (S_IRWXG | S_IRWXO)) {
		warnx("%s: refused, because other users have access to it (mode %03o): it gives "
		      "access to the owner's memory and must have mode 600",
		      name, info.st_mode & 0777);
		return false;
	}
	return true;
}

int secret_file_join(const char *name, pf_context *context)
{
	char secret[SECRET_MAX];
	int file, status = -1;
	ssize_t bytes;

	if (!name)
		return 0;
	file = open(name, O_RDONLY | O_CLOEXEC);
	if (file < 0) {
		warn("%s", name);
		return -1;
	}
	if (is_private(name, file)) {
		bytes = read(file, secret, sizeof(secret));
		if (bytes > 0) {
			pf_join(context, secret, (size_t)bytes);
			status = 0;
		} else {
			warnx("%s: holds no secret", name);
		}
	}
	explicit_bzero(secret, sizeof(secret));
	close(file);
	return status;
}

int address_file_read(const char *name, void *address, size_t *length)
{
	char text[FILE_MAX + 1] = "";
	int file = open_when_it_exists(name), status = -1;
	ssize_t bytes;

	if (file < 0) {
		if (errno == ENOENT)
			warnx("%s does not exist: start the other process with --listen %s", name,
			      name);
		else
			warn("%s", name);
		return -1;
	}
	if (!is_private(name, file))
		goto out;
	bytes = read(file, text, sizeof(text) - 1);
	if (bytes < 0)
		warn("%s", name);
	else if (strncmp(text, TITLE, strlen(TITLE)) ||
		 address_decode(text + strlen(TITLE), address, length))
		warnx("%s: not an address file of pf_perf --listen", name);
	else
		status = 0;
out:
	close(file);
	return status;
}
