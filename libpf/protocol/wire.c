/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire.h"

#include "base/check.h"

static unsigned version_of_type(unsigned type)
{
	if (type == WIRE_HELLO || type == WIRE_WELCOME)
		return WIRE_OPENING;
	return WIRE_VERSION;
}

void wire_put_header(uint8_t *packet, const struct wire_header *header)
{
	assert_that(header->type >= WIRE_HELLO && header->type < WIRE_TYPES);
	assert_that(header->path < NET_PATHS_MOST && header->control % 8 == 0 &&
		    header->control <= WIRE_CONTROL_MOST);
	packet[16] = (uint8_t)(version_of_type(header->type) << 4 | header->type);
	packet[17] = header->path;
	wire_put16(packet + 18, header->control);
	wire_put32(packet + 20, header->index);
	wire_put32(packet + 24, header->number);
	wire_put32(packet + 28, header->transfer);
}

bool wire_get_header(const uint8_t *packet, size_t length, struct wire_header *header)
{
	if (length < WIRE_HEADER)
		return false;
	header->type = packet[16] & 15;
	header->path = packet[17];
	header->control = wire_get16(packet + 18);
	header->index = wire_get32(packet + 20);
	header->number = wire_get32(packet + 24);
	header->transfer = wire_get32(packet + 28);
	return header->type >= WIRE_HELLO && header->type < WIRE_TYPES &&
	       packet[16] >> 4 == version_of_type(header->type) && header->path < NET_PATHS_MOST &&
	       header->control % 8 == 0 && header->control <= WIRE_CONTROL_MOST &&
	       header->control <= length - WIRE_HEADER;
}

void wire_put_data(uint8_t *control, const struct wire_data *data)
{
	wire_put32(control, data->offset);
	wire_put32(control + 4, data->length);
	wire_put64(control + 8, data->address);
}

void wire_get_data(const uint8_t *control, struct wire_data *data)
{
	data->offset = wire_get32(control);
	data->length = wire_get32(control + 4);
	data->address = wire_get64(control + 8);
}

size_t wire_put_hello(uint8_t *control, const struct wire_hello *hello)
{
	size_t length = WIRE_HELLO_BYTES + wire_pad(hello->info_length);

	assert_that(hello->info_length <= NET_INFO_MOST);
	memset(control, 0, length);
	memcpy(control, hello->id, NET_ID_BYTES);
	memcpy(control + 16, hello->nonce, WIRE_NONCE);
	memcpy(control + 32, hello->echo, WIRE_NONCE);
	wire_put32(control + 56, hello->index);
	wire_put32(control + 60, hello->block_size);
	control[64] = hello->auth;
	wire_put16(control + 66, hello->info_length);
	control[72] = hello->oldest;
	control[73] = hello->newest;
	wire_put16(control + 76, hello->senders);
	if (hello->info_length)
		memcpy(control + WIRE_HELLO_BYTES, hello->info, hello->info_length);
	return length;
}

bool wire_get_hello(const uint8_t *control, size_t length, struct wire_hello *hello)
{
	if (length < WIRE_HELLO_BYTES)
		return false;
	memcpy(hello->id, control, NET_ID_BYTES);
	memcpy(hello->nonce, control + 16, WIRE_NONCE);
	memcpy(hello->echo, control + 32, WIRE_NONCE);
	hello->index = wire_get32(control + 56);
	hello->block_size = wire_get32(control + 60);
	hello->auth = control[64];
	hello->info_length = wire_get16(control + 66);
	hello->oldest = control[72];
	hello->newest = control[73];
	hello->senders = wire_get16(control + 76);
	hello->info = control + WIRE_HELLO_BYTES;
	/* Later addresses may be longer than NET_INFO_MOST. */
	return length == WIRE_HELLO_BYTES + wire_pad(hello->info_length);
}

size_t wire_frame_length(const struct wire_frame *frame)
{
	switch (frame->type) {
	case FRAME_ACK:
		return 16 + 8 * (size_t)frame->ack.words;
	case FRAME_CREDIT:
		return 16;
	case FRAME_CONTROL:
		return 8 + wire_pad(frame->stream.length);
	case FRAME_SIGNAL:
		return WIRE_SIGNAL;
	default:
		return 8;
	}
}

size_t wire_put_frame(uint8_t *control, const struct wire_frame *frame)
{
	size_t length = wire_frame_length(frame);
	unsigned i;

	wire_put64(control, frame->type);
	switch (frame->type) {
	case FRAME_ACK:
		assert_that(frame->ack.words && frame->ack.words <= WIRE_ACK_WORDS);
		control[1] = frame->ack.path;
		control[2] = frame->ack.words;
		wire_put32(control + 4, frame->ack.delay);
		wire_put32(control + 8, frame->ack.largest);
		wire_put32(control + 12, frame->ack.marks);
		for (i = 0; i < frame->ack.words; i++)
			wire_put64(control + 16 + 8 * (size_t)i, frame->ack.bits[i]);
		break;
	case FRAME_CREDIT:
		control[1] = frame->credit.pauses;
		wire_put16(control + 2, frame->credit.senders);
		wire_put32(control + 4, frame->credit.window);
		wire_put64(control + 8, frame->credit.messages);
		break;
	case FRAME_CONTROL:
		wire_put64(control + length - 8, 0);
		memcpy(control + 8, frame->stream.bytes, frame->stream.length);
		__attribute__((fallthrough));
	case FRAME_MESSAGE:
		assert_that(frame->stream.length);
		control[0] = frame->type;
		wire_put16(control + 2, frame->stream.length);
		wire_put32(control + 4, frame->stream.offset);
		break;
	case FRAME_GOODBYE:
		control[1] = frame->goodbye.failed;
		break;
	case FRAME_SIGNAL:
		control[1] = (uint8_t)frame->signal.op;
		wire_put64(control + 8, frame->signal.remote);
		wire_put64(control + 16, frame->signal.value);
		break;
	default:
		break;
	}
	return length;
}

size_t wire_get_frame(const uint8_t *control, size_t length, struct wire_frame *frame)
{
	size_t taken;
	unsigned i;

	if (length < 8)
		return 0;
	frame->type = control[0];
	switch (frame->type) {
	case FRAME_ACK:
		frame->ack.path = control[1];
		frame->ack.words = control[2];
		taken = wire_frame_length(frame);
		if (frame->ack.path >= NET_PATHS_MOST || !frame->ack.words ||
		    frame->ack.words > WIRE_ACK_WORDS || taken > length)
			return 0;
		frame->ack.delay = wire_get32(control + 4);
		frame->ack.largest = wire_get32(control + 8);
		frame->ack.marks = wire_get32(control + 12);
		for (i = 0; i < frame->ack.words; i++)
			frame->ack.bits[i] = wire_get64(control + 16 + 8 * (size_t)i);
		return taken;
	case FRAME_CREDIT:
		if (length < 16)
			return 0;
		frame->credit.pauses = control[1];
		frame->credit.senders = wire_get16(control + 2);
		frame->credit.window = wire_get32(control + 4);
		frame->credit.messages = wire_get64(control + 8);
		return 16;
	case FRAME_CONTROL:
	case FRAME_MESSAGE:
		frame->stream.length = wire_get16(control + 2);
		frame->stream.offset = wire_get32(control + 4);
		frame->stream.bytes = control + 8;
		taken = wire_frame_length(frame);
		return taken > length || !frame->stream.length ? 0 : taken;
	case FRAME_GOODBYE:
		frame->goodbye.failed = control[1] != 0;
		return 8;
	case FRAME_SIGNAL:
		if (length < WIRE_SIGNAL || control[1] > PF_SIGNAL_NOTICE)
			return 0;
		frame->signal.op = (enum pf_signal_op)control[1];
		frame->signal.remote = wire_get64(control + 8);
		frame->signal.value = wire_get64(control + 16);
		return frame->signal.op == PF_SIGNAL_NOTICE || frame->signal.remote % 8 == 0 ?
			       WIRE_SIGNAL :
			       0;
	case FRAME_PING:
		return 8;
	default:
		return 0;
	}
}

size_t wire_entry_length(enum wire_entry_type type)
{
	switch (type) {
	case ENTRY_GET:
		return 24;
	case ENTRY_NACK:
	case ENTRY_CANCEL:
		return 8;
	case ENTRY_ATOMIC:
		return 32;
	case ENTRY_DONE:
	case ENTRY_AGAIN:
	case ENTRY_FAILED:
	case ENTRY_RESULT:
		return 16;
	default:
		return 0;
	}
}

size_t wire_put_entry(uint8_t *bytes, const struct wire_entry *entry)
{
	size_t length = wire_entry_length((enum wire_entry_type)entry->type);

	assert_that(length && length <= WIRE_ENTRY_MOST);
	memset(bytes, 0, length);
	bytes[0] = entry->type;
	wire_put32(bytes + 4, entry->transfer);
	switch (entry->type) {
	case ENTRY_NACK:
	case ENTRY_AGAIN:
		bytes[1] = entry->get;
		bytes[2] = entry->block;
		break;
	case ENTRY_DONE:
		bytes[1] = entry->get;
		__attribute__((fallthrough));
	case ENTRY_FAILED:
	case ENTRY_RESULT:
		bytes[2] = (uint8_t)entry->status;
		break;
	case ENTRY_GET:
		wire_put32(bytes + 16, entry->length);
		break;
	case ENTRY_ATOMIC:
		bytes[1] = entry->op;
		bytes[2] = entry->width;
		wire_put64(bytes + 16, entry->operand);
		wire_put64(bytes + 24, entry->compare);
		break;
	default:
		break;
	}
	if (length >= 16)
		wire_put64(bytes + 8, entry->address);
	return length;
}

int wire_get_entry(const uint8_t *bytes, size_t length, struct wire_entry *entry)
{
	size_t taken;

	if (!length)
		return 0;
	taken = wire_entry_length((enum wire_entry_type)bytes[0]);
	if (!taken)
		return -1;
	if (taken > length)
		return 0;
	*entry = (struct wire_entry){ .type = bytes[0], .transfer = wire_get32(bytes + 4) };
	switch (entry->type) {
	case ENTRY_NACK:
	case ENTRY_AGAIN:
	case ENTRY_DONE:
	case ENTRY_FAILED:
	case ENTRY_RESULT:
		entry->get = bytes[1] != 0;
		entry->block = bytes[2];
		entry->status = bytes[2] == PF_OK                   ? PF_OK :
				bytes[2] == (uint8_t)PF_ERR_REFUSED ? PF_ERR_REFUSED :
								      PF_ERR_FAULT;
		break;
	case ENTRY_GET:
		entry->length = wire_get32(bytes + 16);
		break;
	case ENTRY_ATOMIC:
		entry->op = bytes[1];
		entry->width = bytes[2];
		entry->operand = wire_get64(bytes + 16);
		entry->compare = wire_get64(bytes + 24);
		break;
	default:
		break;
	}
	if (taken >= 16)
		entry->address = wire_get64(bytes + 8);
	if ((entry->type == ENTRY_NACK || entry->type == ENTRY_AGAIN) && entry->block >= 64)
		return -1;
	return (int)taken;
}
