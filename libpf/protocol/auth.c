/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth.h"

#include <sodium.h>

#include "base/check.h"

_Static_assert(AUTH_HASH_KEY == crypto_shorthash_siphashx24_KEYBYTES, "SipHash's key");
_Static_assert(WIRE_TAG == crypto_shorthash_siphashx24_BYTES, "SipHash's result");
_Static_assert(WIRE_MAC == crypto_aead_chacha20poly1305_ietf_ABYTES, "Poly1305's result");

static void auth_derive(void *to, size_t length, const uint8_t key[32], const char *what,
			const void *more, size_t more_length)
{
	crypto_generichash_state state;

	crypto_generichash_init(&state, key, 32, length);
	crypto_generichash_update(&state, (const uint8_t *)what, strlen(what));
	crypto_generichash_update(&state, more, more_length);
	crypto_generichash_final(&state, to, length);
}

void auth_forget(void *key, size_t length)
{
	sodium_memzero(key, length);
}

void auth_hello_key(uint8_t hash[AUTH_HASH_KEY], const uint8_t key[NET_KEY_BYTES])
{
	auth_derive(hash, AUTH_HASH_KEY, key, "pf hello", NULL, 0);
}

void auth_welcome_key(uint8_t hash[AUTH_HASH_KEY], const uint8_t key[NET_KEY_BYTES],
		      const uint8_t nonce[WIRE_NONCE])
{
	auth_derive(hash, AUTH_HASH_KEY, key, "pf welcome", nonce, WIRE_NONCE);
}

static uint8_t *put_party(uint8_t *to, const struct auth_party *party)
{
	memcpy(to, party->id, NET_ID_BYTES);
	memcpy(to + NET_ID_BYTES, party->nonce, WIRE_NONCE);
	return to + NET_ID_BYTES + WIRE_NONCE;
}

void auth_session(struct auth_keys *opener, struct auth_keys *accepter,
		  const uint8_t key[NET_KEY_BYTES], const struct auth_party *open,
		  const struct auth_party *accept)
{
	uint8_t parties[2 * (NET_ID_BYTES + WIRE_NONCE)], session[32];

	put_party(put_party(parties, open), accept);
	auth_derive(session, sizeof(session), key, "pf session", parties, sizeof(parties));
	auth_derive(opener, sizeof(*opener), session, "pf open", NULL, 0);
	auth_derive(accepter, sizeof(*accepter), session, "pf accept", NULL, 0);
	sodium_memzero(session, sizeof(session));
}

void auth_tag(uint8_t *packet, size_t control, const uint8_t hash[AUTH_HASH_KEY], uint64_t number)
{
	uint8_t tag[WIRE_TAG];

	assert_that(control <= WIRE_CONTROL_MOST);
	wire_put64(packet, number >> 32);
	wire_put64(packet + 8, 0);
	crypto_shorthash_siphashx24(tag, packet, WIRE_HEADER + control, hash);
	memcpy(packet, tag, WIRE_TAG);
}

bool auth_check(uint8_t *packet, size_t control, const uint8_t hash[AUTH_HASH_KEY], uint64_t number)
{
	uint8_t claimed[WIRE_TAG];

	memcpy(claimed, packet, WIRE_TAG);
	auth_tag(packet, control, hash, number);
	return crypto_verify_16(claimed, packet) == 0;
}

uint64_t auth_digest(const struct auth_keys *keys, const void *payload, size_t length)
{
	uint8_t digest[crypto_shorthash_siphash24_BYTES];

	crypto_shorthash_siphash24(digest, payload, length, keys->payload);
	return wire_get64(digest);
}

static void make_nonce(uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES],
		       const uint8_t *packet, uint64_t number)
{
	wire_put64(nonce, number);
	wire_put32(nonce + 8, packet[17]);
}

void auth_encrypt(const struct auth_keys *keys, uint8_t *packet, uint64_t number, size_t length)
{
	uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
	uint8_t *inside = packet + WIRE_HEADER;

	assert_that(length <= NET_PACKET_MOST - WIRE_HEADER - WIRE_MAC);
	make_nonce(nonce, packet, number);
	crypto_aead_chacha20poly1305_ietf_encrypt(inside, NULL, inside, length, packet + WIRE_TAG,
						  WIRE_HEADER - WIRE_TAG, NULL, nonce,
						  keys->cipher);
}

bool auth_decrypt(const struct auth_keys *keys, uint8_t *packet, uint64_t number, size_t length)
{
	uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
	uint8_t *inside = packet + WIRE_HEADER;

	if (length < WIRE_MAC)
		return false;
	make_nonce(nonce, packet, number);
	return crypto_aead_chacha20poly1305_ietf_decrypt(inside, NULL, NULL, inside, length,
							 packet + WIRE_TAG, WIRE_HEADER - WIRE_TAG,
							 nonce, keys->cipher) == 0;
}
