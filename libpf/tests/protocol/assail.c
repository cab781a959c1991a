/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pf_assail: send packets that must be refused to a running job. It listens to what two hosts send
 * each other over IPv4, on the bridge's ends of their links (see tests/hosts), and sends the
 * receivers variations of it: replayed, truncated, with flipped bits, and random. They have a
 * valid UDP checksum or none, so that the protocol itself has to refuse them.
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
#define FRAME_MOST 9014 /* bytes of a frame with MTU 9000 */
#define HEADERS (ETH_HLEN + 28)
#define SAMPLES_USE 20000 /* packets made of the same samples */
#define SILENCE_SECONDS 10
#define LISTEN_SECONDS 0.05

enum kind { REPLAYED, TRUNCATED, FLIPPED, RANDOM, KINDS };
static const char *const kind_names[KINDS] = { "replayed", "truncated", "with flipped bits",
					       "random" };

struct side {
	const char *interface;
	int socket; /* for sending only */
};

struct sample {
	uint8_t frame[FRAME_MOST];
	size_t length;
	unsigned to; /* the side that received it */
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

/* protocol: of the frames to receive, 0 for none. */
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

/* Set lengths and checksums for a datagram with this payload, bytes. */
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
	/* Several packets in one frame: truncate it. */
	if (length > FRAME_MOST)
		length = FRAME_MOST;
	memcpy(sample->frame, frame, (size_t)length);
	sample->length = (size_t)length;
	sample->to = to;
	return true;
}

/*
 * Record samples of what each host sends, and return their number. Only for a moment: to record
 * all the time would slow down the job more than the packets sent to it.
 */
static unsigned take_samples(const struct side *sides, struct sample *samples)
{
	/* A bridge shows forwarded frames only to sockets for all protocols. */
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
	case TRUNCATED:
		payload = number() % payload;
		break;
	case FLIPPED:
		/* Half of them in the header. */
		for (i = 0; i < 1 + number() % 3; i++) {
			size_t at = number() % 2 ? number() % payload : number() % 32;

			frame[HEADERS + at] ^= (uint8_t)(1u << number() % 8);
		}
		break;
	case RANDOM:
		/* The start of the fixed header may remain, so that some packets are plausible. */
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
	     "Sends packets that must be refused to two hosts that communicate over UDP and IPv4:\n"
	     "replayed, truncated, with flipped bits, and random. The interfaces are the other\n"
	     "ends of the hosts' links. Needs CAP_NET_RAW.\n\n"
	     "  --packets N  number of packets (default 100000)\n"
	     "  --rate N     packets a second, 0: as fast as possible (default 0)\n"
	     "  --seed N     seed of the random numbers (default: the time)\n"
	     "  --miss       send to addresses that no host has, to measure the cost of sending\n");
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
				wanted = sent + SAMPLES_USE;
				heard = now();
			} else if (now() - heard > SILENCE_SECONDS) {
				fprintf(stderr, "pf_assail: no packets on %s and %s for 10 s\n",
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
			/* The queue is full, or the MTU has been reduced. */
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
