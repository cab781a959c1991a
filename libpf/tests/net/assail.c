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
/* Samples are taken anew after so many packets made of them. */
#define WEAR 20000
#define SILENCE_SECONDS 10
#define LISTEN_SECONDS 0.05

enum kind { REPLAYED, CUT, TURNED, INVENTED, KINDS };
static const char *const kind_names[KINDS] = { "replayed", "cut short", "with bits turned",
					       "invented" };

struct side {
	const char *interface;
	int socket; /* for sending only */
};

struct sample {
	uint8_t frame[FRAME_MOST];
	size_t length;
	unsigned to; /* the side that it was sent to */
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

/* protocol: what it is to hear, 0 for nothing. */
static int open_socket(const char *interface, uint16_t protocol)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(protocol) };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	address.sll_ifindex = (int)if_nametoindex(interface);
	if (!address.sll_ifindex || fd < 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		quit(interface);
	return fd;
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

static bool hear(int fd, unsigned to, struct sample *sample)
{
	static uint8_t frame[65536 + 256];
	struct sockaddr_ll from;
	socklen_t size = sizeof(from);
	ssize_t length = recvfrom(fd, frame, sizeof(frame), 0, (struct sockaddr *)&from, &size);

	if (length < HEADERS + 32 || from.sll_pkttype == PACKET_OUTGOING || frame[12] != 0x08 ||
	    frame[13] != 0x00 || frame[ETH_HLEN] != 0x45 || frame[ETH_HLEN + 9] != IPPROTO_UDP)
		return false;
	/* Several in one piece: the first of them, cut short. */
	if (length > FRAME_MOST)
		length = FRAME_MOST;
	memcpy(sample->frame, frame, (size_t)length);
	sample->length = (size_t)length;
	sample->to = to;
	return true;
}

/*
 * What comes from one host is a sample of what the other one gets. Heard for a
 * moment only, and not all the time, which would cost the job more than what it
 * is sent. Returns how many there are.
 */
static unsigned take_samples(const struct side *sides, struct sample *samples)
{
	/* Of all protocols: to others a bridge shows nothing of what it forwards. */
	int sockets[2] = { open_socket(sides[0].interface, ETH_P_ALL),
			   open_socket(sides[1].interface, ETH_P_ALL) };
	double end = now() + LISTEN_SECONDS;
	unsigned taken[2] = { 0 }, count = 0, i;

	while (now() < end && count < SAMPLES) {
		for (i = 0; i < 2; i++) {
			if (taken[i] == SAMPLES / 2 || !hear(sockets[i], 1 - i, &samples[count]))
				continue;
			taken[i]++;
			count++;
		}
	}
	close(sockets[0]);
	close(sockets[1]);
	return count;
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
		for (i = number() % 32; i + 8 <= payload; i += 8) {
			uint64_t bytes = number();

			memcpy(frame + HEADERS + i, &bytes, sizeof(bytes));
		}
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
	puts("Usage: pf_assail [--packets N] [--rate N] [--seed N] [--miss] INTERFACE INTERFACE\n\n"
	     "Sends what two hosts must refuse to both, while they talk to each other over UDP\n"
	     "and IPv4: replayed, truncated, damaged and invented packets. The interfaces are the\n"
	     "other ends of the hosts' links. Needs CAP_NET_RAW.\n\n"
	     "  --packets N  100000\n"
	     "  --rate N     packets a second, 0: as fast as it goes (0)\n"
	     "  --seed N     of what is random\n"
	     "  --miss       to addresses that no host has: what sending alone costs\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "packets", required_argument, NULL, 'p' },
						 { "rate", required_argument, NULL, 'r' },
						 { "seed", required_argument, NULL, 's' },
						 { "miss", no_argument, NULL, 'm' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	static struct sample samples[SAMPLES];
	uint64_t packets = 100000, rate = 0, sent = 0, wanted = 0, seed = (uint64_t)time(NULL);
	uint64_t counts[KINDS] = { 0 };
	static uint8_t frame[FRAME_MOST];
	struct side sides[2];
	double began, heard;
	unsigned i, count = 0;
	bool miss = false;
	size_t length;
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'p')
			packets = strtoull(optarg, NULL, 0);
		else if (c == 'r')
			rate = strtoull(optarg, NULL, 0);
		else if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (c == 'm')
			miss = true;
		else
			return usage(), c == 'h' ? 0 : 2;
	}
	if (argc - optind != 2)
		return usage(), 2;
	random_state = seed * 0x9e3779b97f4a7c15ull + 1;
	for (i = 0; i < 2; i++) {
		sides[i].interface = argv[optind + (int)i];
		sides[i].socket = open_socket(sides[i].interface, 0);
	}
	printf("# seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	began = heard = now();
	while (sent < packets) {
		struct sample *sample;
		enum kind kind;

		if (sent == wanted) {
			count = take_samples(sides, samples);
			if (count) {
				wanted = sent + WEAR;
				heard = now();
			} else if (now() - heard > SILENCE_SECONDS) {
				fprintf(stderr, "pf_assail: nothing is heard on %s and %s\n",
					sides[0].interface, sides[1].interface);
				return 1;
			} else {
				continue;
			}
		}
		if (rate && (double)sent / (double)rate > now() - began) {
			usleep(50);
			continue;
		}
		sample = &samples[number() % count];
		kind = make(sample, frame, &length);
		if (miss)
			frame[ETH_ALEN - 1] ^= 0x55;
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
