// SPDX-License-Identifier: GPL-2.0
/*
 * Two processes of exanest-engine with a link between them. The test plays the
 * two machines: it speaks the ivshmem protocol as QEMU does, and shares memory.
 * EXANEST_ENGINE: the program.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "../conformance/guest.h"

#define A 0x7f0012340000ull
#define B 0x7f0045670000ull
#define BYTES (1u << 20)
#define PATIENCE_S 60
#define VECTORS 4
#define DOORBELLS 4

/* A machine and its engine. */
struct machine {
	pid_t engine;
	int socket;
	uint8_t *registers;
	size_t registers_size;
	int doorbells[DOORBELLS], vectors[VECTORS];
	int64_t id;
};

static char folder[] = "/tmp/exanest-model.XXXXXX";
static unsigned int machines;           /* that were made */
static const char *link_options[8];     /* of the engines of the test */
static struct machine *last_machine[2]; /* by number of the node - 1 */

static const char *path(char *buffer, const char *name, unsigned int number)
{
	snprintf(buffer, 128, "%s/%s%u", folder, name, number);
	return buffer;
}

static void *allocate(size_t size)
{
	char name[128];
	FILE *file = fopen(path(name, "ram", machines), "w+");
	void *ram;

	assert_non_null(file);
	assert_int_equal(ftruncate(fileno(file), (off_t)size), 0);
	ram = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	assert_true(ram != MAP_FAILED);
	fclose(file);
	return ram;
}

static void release(void *ram, size_t size)
{
	munmap(ram, size);
}

/* Start the engine of machine number machines; its peer is the other of the pair. */
static pid_t start_engine(void)
{
	char socket[128], ram[128], link[160], peer[160], buffer[128];
	const char *arguments[20] = { getenv("EXANEST_ENGINE"),
				      "--socket",
				      socket,
				      "--memory",
				      ram,
				      "--link",
				      link,
				      "--peer",
				      peer };
	unsigned int i;
	pid_t child;

	if (!arguments[0])
		arguments[0] = "./exanest-engine";
	path(socket, "socket", machines);
	path(ram, "ram", machines);
	snprintf(link, sizeof(link), "unix:%s", path(buffer, "link", machines));
	snprintf(peer, sizeof(peer), "%u=unix:%s", 2 - machines % 2,
		 path(buffer, "link", machines ^ 1));
	for (i = 0; link_options[i]; i++)
		arguments[9 + i] = link_options[i];
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execv(arguments[0], (char **)arguments);
		_exit(127);
	}
	return child;
}

/* A message of the server; *fd: the descriptor that came with it, or -1. */
static int64_t receive_message(int socket, int *fd)
{
	int64_t number = 0;
	struct iovec part = { .iov_base = &number, .iov_len = sizeof(number) };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *header;

	assert_int_equal(recvmsg(socket, &message, MSG_WAITALL), sizeof(number));
	*fd = -1;
	header = CMSG_FIRSTHDR(&message);
	if (header)
		memcpy(fd, CMSG_DATA(header), sizeof(*fd));
	return number;
}

static int connect_to(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), tries;

	memcpy(address.sun_path, name, strlen(name));
	for (tries = 0; tries < 100 * PATIENCE_S; tries++) {
		if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
			return fd;
		usleep(10000);
	}
	fail_msg("cannot connect to %s: %s", name, strerror(errno));
	return -1;
}

/* As hw/misc/ivshmem.c of QEMU: version, own number, memory, peers, own vectors. */
static void join(struct machine *machine, const char *name)
{
	int fd, i;

	machine->socket = connect_to(name);
	assert_int_equal(receive_message(machine->socket, &fd), 0);
	machine->id = receive_message(machine->socket, &fd);
	assert_true(machine->id > 0 && machine->id <= 65535 && fd < 0);
	assert_int_equal(receive_message(machine->socket, &fd), -1);
	assert_true(fd >= 0);
	machine->registers_size = (size_t)lseek(fd, 0, SEEK_END);
	assert_int_equal(machine->registers_size & (machine->registers_size - 1), 0);
	machine->registers = mmap(NULL, machine->registers_size, PROT_READ | PROT_WRITE, MAP_SHARED,
				  fd, 0);
	assert_true(machine->registers != MAP_FAILED);
	close(fd);
	for (i = 0; i < DOORBELLS; i++) {
		assert_int_equal(receive_message(machine->socket, &machine->doorbells[i]),
				 *(uint32_t *)(machine->registers + EXANEST_REG_DOORBELL_BASE) >>
					 16);
		assert_true(machine->doorbells[i] >= 0);
	}
	for (i = 0; i < VECTORS; i++) {
		assert_int_equal(receive_message(machine->socket, &machine->vectors[i]),
				 machine->id);
		assert_true(machine->vectors[i] >= 0);
	}
}

static void leave(struct machine *machine)
{
	int i;

	for (i = 0; i < DOORBELLS; i++)
		close(machine->doorbells[i]);
	for (i = 0; i < VECTORS; i++)
		close(machine->vectors[i]);
	close(machine->socket);
	munmap(machine->registers, machine->registers_size);
}

static void *create(void *ram, size_t size)
{
	struct machine *machine = calloc(1, sizeof(*machine));
	char socket[128];

	assert_non_null(machine);
	machine->engine = start_engine();
	join(machine, path(socket, "socket", machines));
	last_machine[machines % 2] = machine;
	machines++;
	return machine;
}

static void destroy(void *engine)
{
	struct machine *machine = engine;
	int status;

	leave(machine);
	kill(machine->engine, SIGTERM);
	assert_int_equal(waitpid(machine->engine, &status, 0), machine->engine);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	free(machine);
}

static uint32_t read32(void *engine, unsigned int offset)
{
	return __atomic_load_n((uint32_t *)(((struct machine *)engine)->registers + offset),
			       __ATOMIC_ACQUIRE);
}

static uint64_t read64(void *engine, unsigned int offset)
{
	return __atomic_load_n((uint64_t *)(((struct machine *)engine)->registers + offset),
			       __ATOMIC_ACQUIRE);
}

static void write32(void *engine, unsigned int offset, uint32_t value)
{
	__atomic_store_n((uint32_t *)(((struct machine *)engine)->registers + offset), value,
			 __ATOMIC_RELEASE);
}

static void write64(void *engine, unsigned int offset, uint64_t value)
{
	__atomic_store_n((uint64_t *)(((struct machine *)engine)->registers + offset), value,
			 __ATOMIC_RELEASE);
}

/* Until an interrupt of the vector came. */
static void wait_for_vector(struct machine *machine, unsigned int vector)
{
	struct pollfd poll_for = { .fd = machine->vectors[vector], .events = POLLIN };
	uint64_t count;

	if (poll(&poll_for, 1, PATIENCE_S * 1000) != 1)
		fail_msg("vector %u is not raised", vector);
	assert_int_equal(read(machine->vectors[vector], &count, sizeof(count)), sizeof(count));
}

/* CONTROL and COMMAND: until the engine has answered. */
static void doorbell(void *engine, unsigned int number, uint64_t now)
{
	struct machine *machine = engine;
	const uint64_t one = 1;

	assert_int_equal(write(machine->doorbells[number], &one, sizeof(one)), sizeof(one));
	if (number == EXANEST_DOORBELL_CONTROL)
		wait_for_vector(machine, EXANEST_VECTOR_STATUS);
	if (number == EXANEST_DOORBELL_COMMAND)
		wait_for_vector(machine, EXANEST_VECTOR_COMMAND);
}

static void receive(void *engine, const void *packet, size_t length, uint64_t now)
{
	fail_msg("the link is not the test's");
}

static size_t transmit(void *engine, void *packet, size_t size, uint64_t now)
{
	return 0;
}

static uint64_t advance(void *engine, uint64_t now)
{
	return UINT64_MAX;
}

static uint32_t interrupts(void *engine)
{
	return 0;
}

static const struct adapter adapter = {
	.name = "program",
	.allocate = allocate,
	.release = release,
	.create = create,
	.destroy = destroy,
	.read32 = read32,
	.read64 = read64,
	.write32 = write32,
	.write64 = write64,
	.doorbell = doorbell,
	.receive = receive,
	.transmit = transmit,
	.advance = advance,
	.interrupts = interrupts,
};

struct pair {
	struct guest guest[2];
	struct tables tables[2];
};

static void open_pair(struct pair *pair)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		guest_open(&pair->guest[i], &adapter, i + 1);
		guest_write64(&pair->guest[i], EXANEST_REG_INCARNATION, (uint64_t)time(NULL));
		guest_write32(&pair->guest[i], EXANEST_REG_LINK_RETRIES, 255);
		guest_enable(&pair->guest[i]);
		guest_attach(&pair->guest[i], &pair->tables[i], 5, 1 + i, 12, 48);
		assert_int_equal(guest_command(&pair->guest[i], EXANEST_COMMAND_PEER_SET, 0, 2 - i,
					       0),
				 EXANEST_COMMAND_OK);
	}
}

static void close_pair(struct pair *pair)
{
	guest_close(&pair->guest[0]);
	guest_close(&pair->guest[1]);
}

static void map_absent(struct guest *guest, const struct tables *tables, uint64_t address,
		       uint64_t end)
{
	for (address &= ~4095ull; address < end; address += 4096)
		if (!(*guest_entry(guest, tables, address, 0) & EXANEST_PTE_VALID))
			guest_map(guest, tables, address, 4096, true);
}

/* Resolve faults of both until a completion of the first comes. */
static struct exanest_engine_completion finish(struct pair *pair, unsigned int *faults)
{
	struct exanest_engine_completion completion;
	struct exanest_engine_fault fault;
	struct pollfd poll_for[3] = {
		{ .fd = last_machine[0]->vectors[EXANEST_VECTOR_COMPLETION], .events = POLLIN },
		{ .fd = last_machine[0]->vectors[EXANEST_VECTOR_FAULT], .events = POLLIN },
		{ .fd = last_machine[1]->vectors[EXANEST_VECTOR_FAULT], .events = POLLIN },
	};
	uint64_t count;
	unsigned int i;

	for (;;) {
		for (i = 0; i < 2; i++) {
			while (guest_fault(&pair->guest[i], &fault)) {
				++*faults;
				map_absent(&pair->guest[i], &pair->tables[i], fault.block,
					   fault.address + fault.length);
				guest_command(&pair->guest[i], EXANEST_COMMAND_RESUME, 0,
					      fault.fault, 0);
			}
		}
		if (guest_completion(&pair->guest[0], &completion))
			return completion;
		if (poll(poll_for, 3, PATIENCE_S * 1000) < 1)
			fail_msg("neither a completion nor a fault comes");
		for (i = 0; i < 3; i++)
			if (poll_for[i].revents)
				assert_int_equal(read(poll_for[i].fd, &count, sizeof(count)),
						 sizeof(count));
	}
}

static void exchange(void)
{
	struct exanest_engine_completion completion;
	struct exanest_engine_submission submission;
	unsigned int i, faults = 0;
	struct pair pair;

	open_pair(&pair);
	guest_map(&pair.guest[0], &pair.tables[0], A, BYTES, true);
	for (i = 0; i < BYTES; i++)
		*(uint8_t *)guest_at(&pair.guest[0], &pair.tables[0],
				     A + i) = (uint8_t)(i * 31 + (i >> 8));
	submission = guest_transfer(EXANEST_ENGINE_PUT, 1, &pair.tables[0], A, 2, &pair.tables[1],
				    B, BYTES);
	guest_submit(&pair.guest[0], &submission);
	completion = finish(&pair, &faults);
	assert_int_equal(completion.status, EXANEST_STATUS_OK);
	/* One for each block at the destination, none at the source. */
	assert_int_equal(faults, BYTES / 16384);
	for (i = 0; i < BYTES; i++)
		if (*(uint8_t *)guest_at(&pair.guest[1], &pair.tables[1], B + i) !=
		    (uint8_t)(i * 31 + (i >> 8)))
			fail_msg("byte %u differs", i);
	/* Back, into pages that were taken away. */
	guest_unmap(&pair.guest[0], &pair.tables[0], A, BYTES);
	faults = 0;
	submission = guest_transfer(EXANEST_ENGINE_GET, 2, &pair.tables[0], A, 2, &pair.tables[1],
				    B, BYTES);
	guest_submit(&pair.guest[0], &submission);
	completion = finish(&pair, &faults);
	assert_int_equal(completion.status, EXANEST_STATUS_OK);
	assert_int_equal(faults, BYTES / 16384);
	for (i = 0; i < BYTES; i++)
		if (*(uint8_t *)guest_at(&pair.guest[0], &pair.tables[0], A + i) !=
		    (uint8_t)(i * 31 + (i >> 8)))
			fail_msg("byte %u differs on the way back", i);
	for (i = 0; i < 100; i++) {
		submission = guest_transfer(EXANEST_ENGINE_ATOMIC, 3, &pair.tables[0], 0, 2,
					    &pair.tables[1], B + BYTES, 8);
		submission.operand = 3;
		guest_submit(&pair.guest[0], &submission);
		completion = finish(&pair, &faults);
		assert_int_equal(completion.status, EXANEST_STATUS_OK);
		assert_int_equal(completion.value, 3 * i);
	}
	assert_int_equal(*(uint64_t *)guest_at(&pair.guest[1], &pair.tables[1], B + BYTES), 300);
	close_pair(&pair);
}

static void test_exchange(void **state)
{
	link_options[0] = NULL;
	exchange();
}

static void test_bad_link(void **state)
{
	static const char *const options[] = { "--loss",   "5",   "--delay", "100",
					       "--jitter", "300", NULL };

	memcpy(link_options, options, sizeof(options));
	exchange();
	link_options[0] = NULL;
}

/* A machine that goes away, and comes back, finds an engine after power-on. */
static void test_again(void **state)
{
	struct machine *machine;
	struct pair pair;
	char socket[128];
	unsigned int tries;

	open_pair(&pair);
	machine = pair.guest[0].engine;
	leave(machine);
	for (tries = 0; tries < PATIENCE_S * 100; tries++) {
		join(machine, path(socket, "socket", machines - 2));
		if (!read32(machine, EXANEST_REG_STATUS))
			break;
		leave(machine);
		usleep(10000);
	}
	assert_int_equal(read32(machine, EXANEST_REG_MAGIC), EXANEST_MAGIC);
	assert_int_equal(read32(machine, EXANEST_REG_STATUS), EXANEST_ENGINE_DISABLED);
	assert_int_equal(read32(machine, EXANEST_REG_NODE), 0);
	close_pair(&pair);
}

/* Another that connects meanwhile is turned away. */
static void test_one_machine(void **state)
{
	struct pair pair;
	char socket[128], byte;
	int fd;

	open_pair(&pair);
	fd = connect_to(path(socket, "socket", machines - 2));
	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
	assert_int_equal(guest_command(&pair.guest[0], EXANEST_COMMAND_NOP, 0, 0, 0),
			 EXANEST_COMMAND_OK);
	close_pair(&pair);
}

static int make_folder(void **state)
{
	return !mkdtemp(folder);
}

static int remove_folder(void **state)
{
	char name[128];

	while (machines--)
		unlink(path(name, "ram", machines));
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exchange),
		cmocka_unit_test(test_bad_link),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_one_machine),
	};

	return cmocka_run_group_tests_name("program", tests, make_folder, remove_folder);
}
