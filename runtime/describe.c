/* SPDX-License-Identifier: MIT */
/* Events as messages describe them: struct piste_event_info to struct piste_event_description (piste/abi/event.h). */
#include "runtime.h"

#include <string.h>

/* What is written so far. Once something does not fit, nothing is written any more. */
struct writer {
	uint8_t *bytes;
	size_t count;
	size_t capacity;
	bool overflow;
};

static void put(struct writer *writer, const void *bytes, size_t count)
{
	if (writer->overflow || writer->capacity - writer->count < count) {
		writer->overflow = true;
		return;
	}
	memcpy(writer->bytes + writer->count, bytes, count);
	writer->count += count;
}

static void pad(struct writer *writer)
{
	static const uint8_t zeros[8];

	put(writer, zeros, -writer->count % 8);
}

/* Every description starts with its total size, known at its end. */
static void set_total(struct writer *writer, size_t start)
{
	uint32_t total = (uint32_t)(writer->count - start);

	if (!writer->overflow)
		memcpy(writer->bytes + start, &total, sizeof(total));
}

static uint16_t name_bytes(const char *name)
{
	size_t bytes = strlen(name);

	return (uint16_t)(bytes < PISTE_NAME_BYTES_MAX ? bytes : PISTE_NAME_BYTES_MAX);
}

static void put_label(struct writer *writer, const struct piste_label *label)
{
	struct piste_label_description description = {0};
	size_t start = writer->count;

	description.label_bytes = name_bytes(label->name);
	description.value = label->value;
	put(writer, &description, sizeof(description));
	put(writer, label->name, description.label_bytes);
	pad(writer);
	set_total(writer, start);
}

static void put_field(struct writer *writer, const struct piste_field *field)
{
	struct piste_field_description description = {0};
	size_t start = writer->count;

	description.kind = field->kind;
	description.element = field->element;
	description.base = field->base;
	description.flags = field->flags;
	description.name_bytes = name_bytes(field->name);
	description.label_count = field->kind == PISTE_FIELD_ENUM ? (uint16_t)field->count : 0;
	description.count = field->kind == PISTE_FIELD_ARRAY ? field->count : 0;
	put(writer, &description, sizeof(description));
	put(writer, field->name, description.name_bytes);
	pad(writer);
	for (uint32_t label = 0; label < description.label_count; label++)
		put_label(writer, &field->labels[label]);
	set_total(writer, start);
}

size_t piste_describe(const struct piste_event *event, uint32_t event_index, uint8_t *bytes, size_t capacity)
{
	const struct piste_event_info *info = event->info;
	struct piste_event_description description = {0};
	struct writer writer = {bytes, 0, capacity, false};

	description.event_index = event_index;
	description.level = info->level;
	description.field_count = info->field_count;
	description.provider_bytes = name_bytes(info->provider);
	description.name_bytes = name_bytes(info->name);
	put(&writer, &description, sizeof(description));
	put(&writer, info->provider, description.provider_bytes);
	put(&writer, info->name, description.name_bytes);
	pad(&writer);
	for (uint16_t field = 0; field < info->field_count; field++)
		put_field(&writer, &info->fields[field]);
	set_total(&writer, 0);
	return writer.overflow || writer.count > PISTE_DESCRIPTION_BYTES_MAX ? 0 : writer.count;
}
