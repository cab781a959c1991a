/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pf_assail: packets that nobody should take, to a job that is running. It
 * listens to what two hosts send each other over IPv4 (on the ends of their
 * cables that a switch holds, see tests/hosts) and sends the receivers more of
 * it: replayed, cut short, with bits turned, and bytes of its own. Their UDP
 * checksums are right, or none, so that it is the protocol that has to refuse
 * them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES 64
#define FRAME_MOST 9014 /* bytes that a cable of MTU 9000 carries */
#define HEADERS (ETH_HLEN + 28)
/* A sample is replaced after so many packets made of it. */
#define WEAR 16
#define SILENCE_SECONDS 10

enum kind { REPLAYED, CUT, TURNED, INVENTED, KINDS };
static const char *const kind_names[KINDS] = { "replayed", "cut short", "with bits turned",
					       "invented" };

struct side {
	int socket;
	const char *name;
};

struct sample {
	uint8_t frame[FRAME_MOST];
	size_t length; /* 0: none yet */
	unsigned to;   /* the side that it was sent to */
};

static uint64_t random_state;

static uint64_t number(void)
{
	/* xorshift64* */
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * 0x2545f4914f6cdd1dull;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void quit(const char *what)
{
	fprintf(stderr, "pf_assail: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* Of all protocols: what a bridge forwards is shown to those sockets only. */
static void open_side(struct side *side, const char *interface)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };

	side->name = interface;
	address.sll_ifindex = (int)if_nametoindex(interface);
	if (!address.sll_ifindex)
		quit(interface);
	side->socket = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL));
	if (side->socket < 0 ||
	    bind(side->socket, (struct sockaddr *)&address, sizeof(address)) < 0)
		quit(interface);
}

static uint16_t ip_checksum(const uint8_t *header)
{
	uint32_t sum = 0;
	unsigned i;

	for (i = 0; i < 20; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void put16(uint8_t *p, uint16_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

/* Make the lengths and checksums those of a datagram of so many bytes. */
static void finish(uint8_t *frame, size_t payload)
{
	uint8_t *ip = frame + ETH_HLEN, *udp = ip + 20;

	put16(ip + 2, (uint16_t)(28 + payload));
	put16(ip + 10, 0);
	put16(ip + 10, ip_checksum(ip));
	put16(udp + 4, (uint16_t)(8 + payload));
	put16(udp + 6, 0);
}

/* What comes from one host is a sample of what the other one gets. False: nothing did. */
static bool listen_to(const struct side *side, unsigned to, struct sample *sample)
{
	static uint8_t frame[65536 + 256];
	struct sockaddr_ll from;
	socklen_t size = sizeof(from);
	ssize_t length = recvfrom(side->socket, frame, sizeof(frame), 0, (struct sockaddr *)&from,
				  &size);

	if (length < HEADERS + 32 || from.sll_pkttype == PACKET_OUTGOING ||
	    frame[12] != ETH_P_IP >> 8 || frame[13] != (ETH_P_IP & 0xff) ||
	    frame[ETH_HLEN] != 0x45 || frame[ETH_HLEN + 9] != IPPROTO_UDP)
		return false;
	/* Several in one piece: the first of them, cut short. */
	if (length > FRAME_MOST)
		length = FRAME_MOST;
	memcpy(sample->frame, frame, (size_t)length);
	sample->length = (size_t)length;
	sample->to = to;
	return true;
}

static enum kind make(const struct sample *sample, uint8_t *frame, size_t *length)
{
	enum kind kind = (enum kind)(number() % KINDS);
	size_t payload = sample->length - HEADERS, i;

	memcpy(frame, sample->frame, sample->length);
	switch (kind) {
	case CUT:
		payload = number() % payload;
		break;
	case TURNED:
		/* Anywhere, but most of all where the header is. */
		for (i = 0; i < 1 + number() % 3; i++) {
			size_t at = number() % 2 ? number() % payload : number() % 32;

			frame[HEADERS + at] ^= (uint8_t)(1u << number() % 8);
		}
		break;
	case INVENTED:
		/* The start of the fixed header remains now and then, so that some of it fits. */
		for (i = number() % 32; i < payload; i++)
			frame[HEADERS + i] = (uint8_t)number();
		break;
	default:
		break;
	}
	finish(frame, payload);
	*length = HEADERS + payload;
	return kind;
}

static void usage(void)
{
	puts("Usage: pf_assail [--packets N] [--rate N] [--seed N] INTERFACE INTERFACE\n\n"
	     "Sends what two hosts must refuse to both, while they talk to each other over UDP\n"
	     "and IPv4: replayed, truncated, damaged and invented packets. The interfaces are the\n"
	     "other ends of the hosts' links. Needs CAP_NET_RAW.\n\n"
	     "  --packets N  100000\n"
	     "  --rate N     packets a second, 0: as fast as it goes (0)\n"
	     "  --seed N     of what is random\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "packets", required_argument, NULL, 'p' },
						 { "rate", required_argument, NULL, 'r' },
						 { "seed", required_argument, NULL, 's' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	static struct sample samples[SAMPLES];
	uint64_t packets = 100000, rate = 0, sent = 0, seed = (uint64_t)time(NULL);
	uint64_t counts[KINDS] = { 0 };
	static uint8_t frame[FRAME_MOST];
	struct side sides[2];
	double began, heard;
	unsigned i, next = 0;
	size_t length;
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'p')
			packets = strtoull(optarg, NULL, 0);
		else if (c == 'r')
			rate = strtoull(optarg, NULL, 0);
		else if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else
			return usage(), c == 'h' ? 0 : 2;
	}
	if (argc - optind != 2)
		return usage(), 2;
	random_state = seed * 0x9e3779b97f4a7c15ull + 1;
	for (i = 0; i < 2; i++)
		open_side(&sides[i], argv[optind + (int)i]);
	printf("# seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	began = heard = now();
	while (sent < packets) {
		struct sample *sample;
		enum kind kind;

		if (sent % WEAR == 0 || !samples[0].length) {
			for (i = 0; i < 2; i++) {
				if (!listen_to(&sides[i], 1 - i, &samples[next]))
					continue;
				next = (next + 1) % SAMPLES;
				heard = now();
			}
			if (now() - heard > SILENCE_SECONDS) {
				fprintf(stderr, "pf_assail: nothing is heard on %s and %s\n",
					sides[0].name, sides[1].name);
				return 1;
			}
		}
		sample = &samples[number() % SAMPLES];
		if (!sample->length || (rate && (double)sent / (double)rate > now() - began)) {
			usleep(50);
			continue;
		}
		kind = make(sample, frame, &length);
		if (send(sides[sample->to].socket, frame, length, 0) < 0) {
			/* The link's queue is full, or shorter packets are the rule by now. */
			if (errno != ENOBUFS && errno != EAGAIN && errno != EMSGSIZE)
				quit("send");
			usleep(50);
			continue;
		}
		counts[kind]++;
		sent++;
	}
	printf("sent %llu packets in %.1f s:", (unsigned long long)sent, now() - began);
	for (i = 0; i < KINDS; i++)
		printf(" %llu %s%s", (unsigned long long)counts[i], kind_names[i],
		       i + 1 < KINDS ? "," : "\n");
	return 0;
}
