/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys and tags of packets (doc/wire.md, "Keys and tags"). A tag is computed in place:
 * during the calculation, the 16 bytes of the tag hold the upper half of the packet
 * number, which the packet does not carry, and zeros.
 */
#ifndef PF_NET_AUTH_H
#define PF_NET_AUTH_H

#include "wire.h"

#define AUTH_HASH_KEY 16

/* Keys of one direction. */
struct auth_keys {
	uint8_t hash[AUTH_HASH_KEY];
	uint8_t payload[AUTH_HASH_KEY];
	uint8_t cipher[32];
};

/* One side of the opening, an input of the session key. */
struct auth_party {
	const uint8_t *id, *nonce;
};

/* Erase a key before its memory is freed. */
void auth_forget(void *key, size_t length);
void auth_hello_key(uint8_t hash[AUTH_HASH_KEY], const uint8_t key[NET_KEY_BYTES]);
void auth_welcome_key(uint8_t hash[AUTH_HASH_KEY], const uint8_t key[NET_KEY_BYTES],
		      const uint8_t nonce[WIRE_NONCE]);
void auth_session(struct auth_keys *opener, struct auth_keys *accepter,
		  const uint8_t key[NET_KEY_BYTES], const struct auth_party *open,
		  const struct auth_party *accept);

/* Write the tag over header and control section. */
void auth_tag(uint8_t *packet, size_t control, const uint8_t hash[AUTH_HASH_KEY], uint64_t number);
/* Is the tag right? The tag in the packet stays valid only if so. */
bool auth_check(uint8_t *packet, size_t control, const uint8_t hash[AUTH_HASH_KEY],
		uint64_t number);
uint64_t auth_digest(const struct auth_keys *keys, const void *payload, size_t length);
/*
 * Encrypt, in place, length bytes behind the header, and append WIRE_MAC bytes. Comes
 * before auth_tag, as auth_decrypt comes after auth_check.
 */
void auth_encrypt(const struct auth_keys *keys, uint8_t *packet, uint64_t number, size_t length);
/* Decrypt in place; length includes the MAC; false: forged. */
bool auth_decrypt(const struct auth_keys *keys, uint8_t *packet, uint64_t number, size_t length);

#endif
