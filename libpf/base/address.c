/* SPDX-License-Identifier: BSD-3-Clause */
#include "address.h"

#include <fcntl.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ADDRESS_MAGIC 0x61646670 /* "pfda" */
#define ADDRESS_VERSION 5
/*
 * To be raised with CONNECTION_MAGIC, CHANNEL_MAGIC, the layout of the inbox, or a new kind of message
 * (host/).
 */
#define HOST_VERSION 4

/* Identity of the host and of the network namespace: the kernel tells both nowhere else. */
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define NETWORK_NAMESPACE "/proc/thread-self/ns/net"

const char *address_unreadable(void)
{
	return access(BOOT_ID, R_OK)           ? BOOT_ID :
	       access(NETWORK_NAMESPACE, F_OK) ? NETWORK_NAMESPACE :
						 NULL;
}

static bool read_boot_id(uint8_t host[16])
{
	char text[64] = "";
	size_t length;
	ssize_t bytes;
	int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	return bytes > 0 && !sodium_hex2bin(host, 16, text, (size_t)bytes, "-\n", &length, NULL) &&
	       length == 16;
}

int address_create(struct address *address)
{
	struct stat namespace;

	memset(address, 0, sizeof(*address));
	address->magic = ADDRESS_MAGIC;
	address->version = ADDRESS_VERSION;
	address->length = sizeof(*address);
	address->host_version = HOST_VERSION;
	if (!read_boot_id(address->host) || stat(NETWORK_NAMESPACE, &namespace) < 0)
		return PF_ERR_SYSTEM;
	address->network_namespace = namespace.st_ino;
	address->location = location_here();
	randombytes_buf(address->id, sizeof(address->id));
	randombytes_buf(address->key, sizeof(address->key));
	return PF_OK;
}

int address_set_data(struct address *address, const void *data, uint64_t length)
{
	if (length > PF_DATA_MOST || (length && !data))
		return PF_ERR_ARGUMENT;
	address->data_length = (uint8_t)length;
	address->length = (uint16_t)address_length(address);
	return PF_OK;
}

size_t address_write(void *bytes, const struct address *address, const uint8_t *data)
{
	memcpy(bytes, address, sizeof(*address));
	memcpy((uint8_t *)bytes + sizeof(*address), data, address->data_length);
	return address_length(address);
}

int address_parse(struct address *address, uint8_t data[PF_DATA_MOST], const void *bytes,
		  size_t length)
{
	if (!bytes || length < sizeof(*address))
		return PF_ERR_ARGUMENT;
	memmove(address, bytes, sizeof(*address));
	if (address->magic != ADDRESS_MAGIC || address->version < ADDRESS_VERSION ||
	    address->data_length > PF_DATA_MOST || length < address_length(address) ||
	    (address->version == ADDRESS_VERSION && length != address_length(address)) ||
	    address->length != length || address->endpoints_count > ADDRESS_ENDPOINTS_MAX)
		return PF_ERR_ARGUMENT;
	memmove(data, (const uint8_t *)bytes + sizeof(*address), address->data_length);
	address->version = ADDRESS_VERSION;
	address->length = (uint16_t)address_length(address);
	return PF_OK;
}

bool address_same(const struct address *a, const struct address *b)
{
	return !memcmp(a->id, b->id, sizeof(a->id));
}

const char *address_unreachable(const struct address *a, const struct address *b)
{
	if (memcmp(a->host, b->host, sizeof(a->host)))
		return "on another host";
	if (a->network_namespace != b->network_namespace)
		return "on this host, but in another network namespace";
	return NULL;
}

socklen_t address_socket(const struct address *address, struct sockaddr_un *name)
{
	char hex[2 * ADDRESS_ID_BYTES + 1];
	int length;

	/*
	 * A leading NUL makes the name abstract: there is no file, and the name ends with the
	 * socket.
	 */
	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	sodium_bin2hex(hex, sizeof(hex), address->id, sizeof(address->id));
	length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "libpf-%s", hex);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}
