// SPDX-License-Identifier: GPL-2.0
#include "context.h"
#include "engine.h"
#include "transfer.h"

static struct exanest_engine the_engine = {
	.lock = __SPIN_LOCK_UNLOCKED(the_engine.lock),
	.ready = LIST_HEAD_INIT(the_engine.ready),
};

struct exanest_engine *exanest_engine(void)
{
	return &the_engine;
}

int exanest_engine_start(const struct exanest_engine_operations *operations)
{
	the_engine.operations = operations;
	return operations->start(&the_engine);
}

void exanest_engine_stop(void)
{
	the_engine.operations->stop(&the_engine);
}

void exanest_engine_ready(struct exanest_context *context)
{
	struct exanest_engine *engine = &the_engine;
	bool wake = false;

	spin_lock(&engine->lock);
	if (context->served) {
		context->again = true;
	} else if (!context->queued) {
		exanest_context_get(context);
		context->queued = true;
		list_add_tail(&context->ready, &engine->ready);
		wake = true;
	}
	spin_unlock(&engine->lock);
	if (wake)
		engine->operations->wake(engine);
}

/* A turn is at most a few blocks long, so every context has its own after as many as are ready. */
bool exanest_engine_serve(struct exanest_engine *engine)
{
	struct exanest_context *context;
	bool more;

	spin_lock(&engine->lock);
	context = list_first_entry_or_null(&engine->ready, struct exanest_context, ready);
	if (!context) {
		spin_unlock(&engine->lock);
		return false;
	}
	list_del_init(&context->ready);
	context->queued = false;
	context->served = true;
	context->again = false;
	spin_unlock(&engine->lock);

	more = exanest_transfers_serve(engine, context);

	spin_lock(&engine->lock);
	context->served = false;
	more |= context->again;
	if (more) {
		context->queued = true;
		list_add_tail(&context->ready, &engine->ready);
	}
	spin_unlock(&engine->lock);
	if (!more)
		exanest_context_put(context);
	return true;
}

bool exanest_engine_idle(struct exanest_engine *engine)
{
	return list_empty_careful(&engine->ready);
}
