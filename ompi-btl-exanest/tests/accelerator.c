/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An accelerator component of Open MPI 5 and later, for tests. The memory of its device is a file, whose
 * descriptor device.c gives it by DEVICE_VARIABLE. The program maps it without permissions: neither a load nor a
 * copy between processes reaches it, only the copies of the device, which read and write the file.
 */
#include "opal_config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opal/constants.h"
#include "opal/mca/accelerator/accelerator.h"

#include "device.h"

static int file;

static bool device_owns(const void *address)
{
	return (uintptr_t)address - DEVICE_BASE < DEVICE_SIZE;
}

static off_t device_offset(const void *address)
{
	return (off_t)((uintptr_t)address - DEVICE_BASE);
}

static int device_check(const void *address, int *device, uint64_t *flags)
{
	*device = 0;
	*flags = 0;
	return device_owns(address);
}

/* Both sides may be the device's, and may overlap. */
static int device_copy(int to_device, int from_device, void *to, const void *from, size_t length,
		       opal_accelerator_transfer_type_t type)
{
	char *between = malloc(length ? length : 1);
	bool moved = between != NULL;

	(void)to_device, (void)from_device, (void)type;
	if (moved && device_owns(from))
		moved = pread(file, between, length, device_offset(from)) == (ssize_t)length;
	else if (moved)
		memcpy(between, from, length);
	if (moved && device_owns(to))
		moved = pwrite(file, between, length, device_offset(to)) == (ssize_t)length;
	else if (moved)
		memcpy(to, between, length);
	free(between);
	return moved ? OPAL_SUCCESS : OPAL_ERROR;
}

static int device_copy_async(int to_device, int from_device, void *to, const void *from,
			     size_t length, opal_accelerator_stream_t *stream,
			     opal_accelerator_transfer_type_t type)
{
	(void)stream;
	return device_copy(to_device, from_device, to, from, length, type);
}

static int stream_create(int device, opal_accelerator_stream_t **stream)
{
	(void)device;
	*stream = OBJ_NEW(opal_accelerator_stream_t);
	return *stream ? OPAL_SUCCESS : OPAL_ERR_OUT_OF_RESOURCE;
}

/* Open MPI 6 also asks for events that other processes can see. */
#if OPAL_MAJOR_VERSION >= 6
#define EVENT_CREATE_MORE , bool shared
#else
#define EVENT_CREATE_MORE
#endif

static int event_create(int device, opal_accelerator_event_t **event EVENT_CREATE_MORE)
{
	(void)device;
	*event = OBJ_NEW(opal_accelerator_event_t);
	return *event ? OPAL_SUCCESS : OPAL_ERR_OUT_OF_RESOURCE;
}

/* Copies have ended when they return. */
static int event_record(int device, opal_accelerator_event_t *event,
			opal_accelerator_stream_t *stream)
{
	(void)device, (void)event, (void)stream;
	return OPAL_SUCCESS;
}

static int event_query(int device, opal_accelerator_event_t *event)
{
	(void)device, (void)event;
	return OPAL_SUCCESS;
}

static int device_range(int device, const void *address, void **start, size_t *length)
{
	(void)device, (void)address;
	*start = (void *)DEVICE_BASE;
	*length = DEVICE_SIZE;
	return OPAL_SUCCESS;
}

static int host_register(int device, void *address, size_t length)
{
	(void)device, (void)address, (void)length;
	return OPAL_SUCCESS;
}

static int host_unregister(int device, void *address)
{
	(void)device, (void)address;
	return OPAL_SUCCESS;
}

static int device_get(int *device)
{
	*device = 0;
	return OPAL_SUCCESS;
}

static int device_attributes(int device, opal_accelerator_pci_attr_t *attributes)
{
	(void)device, (void)attributes;
	return OPAL_ERR_NOT_IMPLEMENTED;
}

static int device_reaches(int *access, int one, int other)
{
	(void)one, (void)other;
	*access = 0;
	return OPAL_SUCCESS;
}

static int buffer_number(int device, const void *address, opal_accelerator_buffer_id_t *number)
{
	(void)device, (void)address;
	*number = 0;
	return OPAL_SUCCESS;
}

static opal_accelerator_base_module_t module = {
	.check_addr = device_check,
	.create_stream = stream_create,
	.create_event = event_create,
	.record_event = event_record,
	.query_event = event_query,
	.mem_copy_async = device_copy_async,
	.mem_copy = device_copy,
	.mem_move = device_copy,
	.get_address_range = device_range,
	.host_register = host_register,
	.host_unregister = host_unregister,
	.get_device = device_get,
	.get_device_pci_attr = device_attributes,
	.device_can_access_peer = device_reaches,
	.get_buffer_id = buffer_number,
};

/* Programs without a device have none. */
static opal_accelerator_base_module_t *component_start(void)
{
	const char *number = getenv(DEVICE_VARIABLE);

	if (!number)
		return NULL;
	file = atoi(number);
	return &module;
}

static void component_end(opal_accelerator_base_module_t *ended)
{
	(void)ended;
}

opal_accelerator_base_component_t mca_accelerator_file_component = {
	.base_version = { OPAL_ACCELERATOR_BASE_VERSION_1_0_0, .mca_component_name = "file",
			  MCA_BASE_MAKE_VERSION(component, OPAL_MAJOR_VERSION, OPAL_MINOR_VERSION,
						OPAL_RELEASE_VERSION) },
	.base_data = { MCA_BASE_METADATA_PARAM_CHECKPOINT },
	.accelerator_init = component_start,
	.accelerator_finalize = component_end,
};
