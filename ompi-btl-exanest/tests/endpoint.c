/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls the BTL interface as bml/r2 and ob1 do, without MPI communication, so
 * that the endpoints are this program's own. Rank 0 gives endpoints up while
 * messages are pending at them and another thread sends those to rank 1; and it
 * sends to rank 2 and accesses its memory with no file descriptor left to connect with. Needs 3
 * ranks with --mca btl exanest,self --bind-to none.
 */
#include "../btl_exanest.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define TAG MCA_BTL_TAG_USR
#define LENGTH 4096
#define SECONDS 3
/* As many as keep the ring full. */
#define MESSAGES 80

static mca_btl_exanest_component_t *component;
static mca_btl_base_module_t *module;  /* for processes of this host */
static mca_btl_base_module_t *between; /* and the one between hosts */
static atomic_bool stop;
static int numbers, failures;

static void result(bool passed, const char *name)
{
	printf("%sok %d - %s\n", passed ? "" : "not ", ++numbers, name);
	failures += !passed;
}

#define ENOUGH 100

/* The first bytes of a message. */
struct content {
	char kind;      /* 'm', or 'e' for the last one */
	uint64_t count; /* of those before it, in the last one */
};

static uint64_t messages; /* sent, or received */

/* Rank 1. */
#if BTL_VERSION >= 330
/* Of AM-RDMA, and not used by it. */
#define ANSWERED_TAG (MCA_BTL_TAG_BTL_BASE + 15)

static void receive_answered(mca_btl_base_module_t *btl,
			     const mca_btl_base_receive_descriptor_t *message)
{
	const mca_btl_base_endpoint_t *sender = message->endpoint;

	result(sender && sender->proc->proc_name.vpid == 0,
	       "a message that is answered has the endpoint of a sender that was not named");
}

static void receive(mca_btl_base_module_t *btl, const mca_btl_base_receive_descriptor_t *message)
{
	const mca_btl_base_segment_t *segment = message->des_segments;
#else
static void receive(mca_btl_base_module_t *btl, mca_btl_base_tag_t tag,
		    mca_btl_base_descriptor_t *message, void *arg)
{
	const mca_btl_base_segment_t *segment = message->des_segments;
#endif
	const struct content *content = segment->seg_addr.pval;

	if (content->kind == 'm') {
		messages++;
		return;
	}
	printf("# %llu of %llu messages\n", (unsigned long long)messages,
	       (unsigned long long)content->count);
	result(messages == content->count, "what was pending at endpoints given up arrives");
	atomic_store(&stop, true);
}

static bool find_modules(void)
{
	mca_btl_base_selected_module_t *selected;

	OPAL_LIST_FOREACH(selected, &mca_btl_base_modules_initialized,
			  mca_btl_base_selected_module_t) {
		if (strcmp(selected->btl_component->btl_version.mca_component_name, "exanest"))
			continue;
		component = (mca_btl_exanest_component_t *)selected->btl_component;
		if (!module)
			module = selected->btl_module;
		between = selected->btl_module;
	}
	return component != NULL;
}

/* MPI_Init has had an endpoint made for each process of this host: drop that use, too. */
static void drop_uses(mca_btl_base_module_t *btl, opal_proc_t *proc)
{
	mca_btl_base_endpoint_t *endpoint = NULL;
	int uses;

	btl->btl_add_procs(btl, 1, &proc, &endpoint, NULL);
	for (uses = endpoint->count; uses > 0; uses--)
		btl->btl_del_procs(btl, 1, &proc, &endpoint);
}

static void *make_progress(void *arg)
{
	while (!atomic_load(&stop))
		component->super.btl_progress();
	return NULL;
}

/* 1: sent, 0: queued. */
static int send_message(mca_btl_base_endpoint_t *endpoint, mca_btl_base_tag_t tag, char kind)
{
	mca_btl_base_descriptor_t *descriptor = module->btl_alloc(
		module, endpoint, MCA_BTL_NO_ORDER, LENGTH, MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);

	if (!descriptor)
		return -1;
	*(struct content *)descriptor->des_segments[0].seg_addr.pval =
		(struct content){ .kind = kind, .count = messages };
	messages += tag == TAG;
	return module->btl_send(module, endpoint, descriptor, tag);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void give_up_endpoints(opal_proc_t *proc)
{
	const double end = now() + SECONDS;
	const size_t before = opal_list_get_size(&component->retired);
	unsigned rounds = 0, pending = 0, waiting = 0, i;
	mca_btl_base_endpoint_t *endpoint, *given_up;
	pthread_t thread;

	pthread_create(&thread, NULL, make_progress, NULL);
	while (now() < end || (pending <= ENOUGH && now() < end + 10 * SECONDS)) {
		endpoint = NULL;
		module->btl_add_procs(module, 1, &proc, &endpoint, NULL);
		for (i = 0; endpoint && i < MESSAGES; i++)
			(void)send_message(endpoint, TAG, 'm');
		pending += endpoint && endpoint->queue != MCA_BTL_EXANEST_EMPTY;
		module->btl_del_procs(module, 1, &proc, &endpoint);
		rounds++;
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	printf("# %u endpoints, %u of them given up while messages were pending\n", rounds,
	       pending);
	result(pending > ENOUGH, "endpoints were given up while messages were pending");
	OPAL_LIST_FOREACH(given_up, &component->retired, mca_btl_base_endpoint_t)
		waiting += given_up->queue != MCA_BTL_EXANEST_EMPTY ||
			   !opal_list_is_empty(&given_up->pending);
	result(!waiting && opal_list_is_empty(&component->waiting),
	       "no endpoint that was given up waits for room");
	result(opal_list_get_size(&component->retired) == before + rounds,
	       "each endpoint was retired, and once");
}

static opal_proc_t *find_process(unsigned rank)
{
	opal_process_name_t name = OPAL_PROC_MY_NAME;
	opal_proc_t *proc;

	name.vpid = rank;
	proc = opal_proc_for_name(name);
	drop_uses(between, proc);
	drop_uses(module, proc);
	return proc;
}

/* ---- failures ---- */

#define DESCRIPTORS 256

static int errors, completions, completion_status;

static void count_error(mca_btl_base_module_t *btl, int32_t flags, opal_proc_t *proc, char *info)
{
	errors++;
}

static void complete_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			  mca_btl_base_descriptor_t *descriptor, int status)
{
	completions++;
	completion_status = status;
}

static void complete_operation(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			       void *local, mca_btl_base_registration_handle_t *handle,
			       void *context, void *data, int status)
{
	completions++;
	completion_status = status;
}

static mca_btl_base_endpoint_t *new_endpoint(opal_proc_t *proc)
{
	mca_btl_base_endpoint_t *endpoint = NULL;

	module->btl_add_procs(module, 1, &proc, &endpoint, NULL);
	errors = completions = completion_status = 0;
	return endpoint;
}

static void make_some_progress(void)
{
	int i;

	for (i = 0; i < 1000; i++)
		component->super.btl_progress();
}

static void fail_to_send(opal_proc_t *proc)
{
	mca_btl_base_endpoint_t *endpoint = new_endpoint(proc);
	mca_btl_base_descriptor_t *descriptor = NULL;
	char header[64] = "m";
	int rc;

	rc = module->btl_sendi(module, endpoint, NULL, header, sizeof(header), 0, MCA_BTL_NO_ORDER,
			       MCA_BTL_DES_FLAGS_BTL_OWNERSHIP, TAG, &descriptor);
	result(rc == OPAL_ERR_RESOURCE_BUSY && descriptor,
	       "a btl_sendi that cannot connect leaves a descriptor");
	if (!descriptor)
		return;
	*(char *)descriptor->des_segments[0].seg_addr.pval = 'm';
	descriptor->des_flags |= MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
	descriptor->des_cbfunc = complete_send;
	rc = module->btl_send(module, endpoint, descriptor, TAG);
	result(rc == OPAL_SUCCESS, "btl_send takes it");
	make_some_progress();
	result(completions == 1 && completion_status < 0, "it completes with an error");
	result(errors == 1, "the PML's error callback is called, once");
	module->btl_del_procs(module, 1, &proc, &endpoint);
}

/* An operation that returned rc: osc/rdma repeats for ever one whose error is returned. */
static void operation_failed(int rc, const char *name)
{
	char text[100];

	make_some_progress();
	snprintf(text, sizeof(text), "a %s that cannot connect calls back with an error", name);
	result(rc == OPAL_SUCCESS && completions == 1 && completion_status < 0 &&
		       completion_status != OPAL_ERR_OUT_OF_RESOURCE &&
		       completion_status != OPAL_ERR_TEMP_OUT_OF_RESOURCE,
	       text);
	completions = completion_status = 0;
}

static void fail_to_access(opal_proc_t *proc)
{
	mca_btl_base_endpoint_t *endpoint = new_endpoint(proc);
	uint64_t local = 5, remote = 0;

	operation_failed(module->btl_put(module, endpoint, &local, (uintptr_t)&remote, NULL, NULL,
					 sizeof(local), 0, MCA_BTL_NO_ORDER, complete_operation,
					 NULL, NULL),
			 "btl_put");
	result(errors == 1, "the PML's error callback is called");
	operation_failed(module->btl_get(module, endpoint, &local, (uintptr_t)&remote, NULL, NULL,
					 sizeof(local), 0, MCA_BTL_NO_ORDER, complete_operation,
					 NULL, NULL),
			 "btl_get");
	operation_failed(module->btl_atomic_op(module, endpoint, (uintptr_t)&remote, NULL,
					       MCA_BTL_ATOMIC_ADD, 1, 0, MCA_BTL_NO_ORDER,
					       complete_operation, NULL, NULL),
			 "btl_atomic_op");
	operation_failed(module->btl_atomic_fop(module, endpoint, &local, (uintptr_t)&remote, NULL,
						NULL, MCA_BTL_ATOMIC_ADD, 1, 0, MCA_BTL_NO_ORDER,
						complete_operation, NULL, NULL),
			 "btl_atomic_fop");
	result(local == 0, "it leaves 0, so that a lock seems free");
	/* Between hosts: see MCA_BTL_EXANEST_CSWAP_MISUSED. */
	component->has_remote_peers = true;
	operation_failed(between->btl_atomic_cswap(between, endpoint, &local, (uintptr_t)&remote,
						   NULL, NULL, 7, 8, 0, MCA_BTL_NO_ORDER,
						   complete_operation, NULL, NULL),
			 "btl_atomic_cswap");
	component->has_remote_peers = false;
	result(local == 7, "it leaves the expected value, so that the caller does not repeat it");
	result(errors == 1, "the PML's error callback is called once");
	module->btl_del_procs(module, 1, &proc, &endpoint);
}

/* libpf needs descriptors to connect, and raises the soft limit: so use up all up to the hard limit. */
static void fail_to_connect(opal_proc_t *proc)
{
	mca_btl_base_module_error_cb_fn_t before = ((mca_btl_exanest_module_t *)module)->error_cb;
	const struct rlimit limit = { .rlim_cur = DESCRIPTORS, .rlim_max = DESCRIPTORS };
	int used[DESCRIPTORS], count = 0;

	setrlimit(RLIMIT_NOFILE, &limit);
	while ((used[count] = dup(0)) >= 0)
		count++;
	module->btl_register_error(module, count_error);
	fail_to_send(proc);
	fail_to_access(proc);
	module->btl_register_error(module, before);
	while (count)
		close(used[--count]);
}

static void end_receiver(opal_proc_t *proc)
{
	mca_btl_base_endpoint_t *endpoint = NULL;

	module->btl_add_procs(module, 1, &proc, &endpoint, NULL);
	result(endpoint != NULL, "there is a next endpoint");
	if (!endpoint)
		return;
#if BTL_VERSION >= 330
	(void)send_message(endpoint, ANSWERED_TAG, 'm');
#endif
	(void)send_message(endpoint, TAG, 'e');
	while (endpoint->queue != MCA_BTL_EXANEST_EMPTY)
		component->super.btl_progress();
	module->btl_del_procs(module, 1, &proc, &endpoint);
}

static void sender(void)
{
	opal_proc_t *proc = find_process(1);

	give_up_endpoints(proc);
	result(!component->options.threads && atomic_load(&component->threads),
	       "the context allows threads that began after MPI_Init");
	end_receiver(proc);
	fail_to_connect(find_process(2));
	printf("1..%d\n", numbers);
}

/* Slow enough that the ring is full most of the time. */
static void receiver(void)
{
	(void)find_process(0);
#if BTL_VERSION >= 330
	mca_btl_base_active_message_trigger[ANSWERED_TAG].cbfunc = receive_answered;
#endif
	while (!atomic_load(&stop)) {
		component->super.btl_progress();
		usleep(100);
	}
}

int main(int argc, char **argv)
{
	int rank, size;

	MPI_Init(&argc, &argv);
	/* As Open MPI does if threads begin later: see mca_btl_exanest_notice_threads. */
	opal_set_using_threads(true);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size != 3 || !find_modules()) {
		fprintf(stderr, "needs 3 ranks and --mca btl exanest,self\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	mca_btl_base_active_message_trigger[TAG].cbfunc = receive;
	if (rank == 0)
		sender();
	else if (rank == 1)
		receiver();
	MPI_Finalize();
	return failures != 0;
}
