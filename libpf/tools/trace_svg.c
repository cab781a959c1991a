/* SPDX-License-Identifier: BSD-3-Clause */
/* A lane for each context. From the top: transfers, blocks, resolutions, then the marks. */
#include "trace_svg.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include <libpf/pf.h>

#define WIDTH 960
#define LEFT 90 /* for the titles of the lanes */
#define RIGHT 20
#define TOP 20
#define ROW 16
#define BAR 12
#define LANE_GAP 14
/* Largest number of rows for bars that overlap in time; the last row takes the rest. */
#define ROWS_MOST 8
#define TICKS 8

/* Kinds of bars and marks, in the order of a lane and of the legend. */
enum shape { TRANSFERS, BLOCKS, RESOLUTIONS, FAULTS, RETRANSMITS, LOSSES, SHAPES };

static const struct {
	const char *name, *color;
	bool mark;
} shapes[SHAPES] = {
	[TRANSFERS] = { "transfer", "#b8c4d6", false },
	[BLOCKS] = { "blocks moved", "#3b6fb6", false },
	[RESOLUTIONS] = { "page fault being resolved", "#7a4fa3", false },
	[FAULTS] = { "page fault", "#c8202f", true },
	[RETRANSMITS] = { "retransmission", "#1c8a4c", true },
	[LOSSES] = { "packets lost", "#d98200", true },
};

struct rows {
	uint64_t end[ROWS_MOST]; /* of the last bar in the row */
	unsigned used;
};

struct picture {
	const struct traces *traces;
	FILE *file;
	uint64_t span;  /* ns */
	uint64_t until; /* of the last drawn event */
};

static bool shape_of(const struct traced *event, enum shape *shape)
{
	static const int of[TRACE_KINDS] = {
		[TRACE_TRANSFER] = TRANSFERS + 1,     [TRACE_MOVED] = BLOCKS + 1,
		[TRACE_BLOCK] = BLOCKS + 1,           [TRACE_RESOLVE] = RESOLUTIONS + 1,
		[TRACE_FAULT] = FAULTS + 1,           [TRACE_LOST] = LOSSES + 1,
		[TRACE_RETRANSMIT] = RETRANSMITS + 1,
	};

	if (!of[event->kind])
		return false;
	*shape = (enum shape)(of[event->kind] - 1);
	return true;
}

static double time_to_x(const struct picture *picture, uint64_t time)
{
	return LEFT + (double)(time - picture->traces->first) / (double)picture->span *
			      (WIDTH - LEFT - RIGHT);
}

/* Return a row with room for a bar. */
static unsigned take_row(struct rows *rows, const struct traced *event)
{
	unsigned row = 0;

	while (row < rows->used && row < ROWS_MOST - 1 && rows->end[row] > event->time)
		row++;
	if (row >= rows->used)
		rows->used = row + 1;
	rows->end[row] = event->time + event->duration;
	return row;
}

/* The rows of each kind of bars in a lane. */
static void rows_measure(const struct picture *picture, const struct trace_of *trace,
			 struct rows rows[SHAPES])
{
	enum shape shape;
	size_t i;

	for (i = 0; i < trace->count && trace->events[i].time <= picture->until; i++) {
		if (shape_of(&trace->events[i], &shape) && !shapes[shape].mark)
			take_row(&rows[shape], &trace->events[i]);
	}
}

static unsigned lane_height(const struct rows rows[SHAPES])
{
	unsigned count = 1, shape;

	for (shape = 0; shape < SHAPES; shape++)
		count += rows[shape].used;
	return count * ROW;
}

static void svg_tooltip(const struct picture *picture, const struct traced *event, enum shape shape)
{
	char size[32];

	fprintf(picture->file, "<title>%s", shapes[shape].name);
	if (event->kind == TRACE_FAULT)
		fprintf(picture->file, " (%s, %s)", trace_fault_name(event->fault),
			trace_side_name(event->side));
	fprintf(picture->file, ", %s at 0x%" PRIx64 ", %.3f us",
		trace_size(event->length, size, sizeof(size)), event->address,
		(double)(event->time - picture->traces->first) / 1e3);
	if (event->duration)
		fprintf(picture->file, " for %.3f us", (double)event->duration / 1e3);
	if (event->status == TRACE_UNFINISHED)
		fputs(", not finished", picture->file);
	else if (event->status != PF_OK)
		fprintf(picture->file, ", %s", pf_strerror(event->status));
	fputs("</title>", picture->file);
}

static void draw_bar(const struct picture *picture, const struct traced *event, enum shape shape,
		     unsigned y)
{
	uint64_t end = event->time + event->duration;
	double from = time_to_x(picture, event->time);
	double width = time_to_x(picture, end < picture->until ? end : picture->until) - from;

	fprintf(picture->file,
		"<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"#fff\" "
		"stroke-width=\"0.5\">",
		from, y, width < 1.5 ? 1.5 : width, BAR, shapes[shape].color);
	svg_tooltip(picture, event, shape);
	fputs("</rect>\n", picture->file);
}

/* Page faults point down; resolutions and retransmissions point up. */
static void draw_mark(const struct picture *picture, enum shape shape, double x, unsigned y)
{
	int tip = shape == FAULTS ? BAR : 0, base = BAR - tip;

	fprintf(picture->file, "<path d=\"M%.2f %uL%.2f %uL%.2f %uZ\" fill=\"%s\">", x,
		y + (unsigned)tip, x - 5, y + (unsigned)base, x + 5, y + (unsigned)base,
		shapes[shape].color);
}

/* Escape a name, which comes from another process. */
static void svg_escape(FILE *file, const char *text)
{
	for (; *text; text++) {
		if (*text == '<' || *text == '&')
			fprintf(file, "&#%d;", *text);
		else
			fputc(*text, file);
	}
}

static unsigned draw_lane(const struct picture *picture, const struct trace_of *trace, unsigned y)
{
	struct rows rows[SHAPES] = { 0 }, packed[SHAPES] = { 0 };
	unsigned top[SHAPES], height, row, i;
	char title[128];
	enum shape shape;
	size_t at;

	rows_measure(picture, trace, rows);
	height = lane_height(rows);
	for (row = i = 0; i < SHAPES; row += rows[i++].used)
		top[i] = y + row * ROW + (ROW - BAR) / 2;
	fprintf(picture->file,
		"<rect x=\"%d\" y=\"%u\" width=\"%d\" height=\"%u\" fill=\"#f4f5f7\"/>\n"
		"<text x=\"8\" y=\"%u\">",
		LEFT, y, WIDTH - LEFT - RIGHT, height, y + height / 2 + 4);
	svg_escape(picture->file,
		   trace->rank >= 0 ? trace_title(trace, title, sizeof(title)) : trace->command);
	fputs("</text>\n", picture->file);
	for (at = 0; at < trace->count && trace->events[at].time <= picture->until; at++) {
		const struct traced *event = &trace->events[at];

		if (!shape_of(event, &shape))
			continue;
		if (shapes[shape].mark) {
			draw_mark(picture, shape, time_to_x(picture, event->time), top[FAULTS]);
			svg_tooltip(picture, event, shape);
			fputs("</path>\n", picture->file);
		} else {
			draw_bar(picture, event, shape,
				 top[shape] + take_row(&packed[shape], event) * ROW);
		}
	}
	return height;
}

static void draw_axis(const struct picture *picture, unsigned y)
{
	/* 1, 2, 5, 10, ... */
	static const double factors[] = { 2, 2.5, 2 };
	const char *unit = picture->span < 2000000 ? "us" : "ms";
	double scale = picture->span < 2000000 ? 1e3 : 1e6; /* ns in a unit */
	double step = 1, most = (double)picture->span / scale;
	unsigned i;

	for (i = 0; most / step > TICKS; i++)
		step *= factors[i % 3];
	for (i = 0; i * step <= most; i++) {
		double time = i * step;
		double x = time_to_x(picture, picture->traces->first + (uint64_t)(time * scale));

		fprintf(picture->file,
			"<path d=\"M%.2f %dV%u\" stroke=\"#999\" stroke-width=\"0.5\" "
			"stroke-dasharray=\"2 3\"/>\n<text x=\"%.2f\" y=\"%u\" "
			"text-anchor=\"middle\">%.0f</text>\n",
			x, TOP - 6, y, x, y + 14, time);
	}
	fprintf(picture->file, "<text x=\"8\" y=\"%u\">time, %s</text>\n", y + 14, unit);
}

static void draw_legend(const struct picture *picture, unsigned y)
{
	unsigned shape, x = LEFT;

	for (shape = 0; shape < SHAPES; shape++) {
		if (shapes[shape].mark) {
			draw_mark(picture, (enum shape)shape, x + 5, y);
			fputs("</path>\n", picture->file);
		} else {
			fprintf(picture->file,
				"<rect x=\"%u\" y=\"%u\" width=\"12\" height=\"%d\" fill=\"%s\"/>\n",
				x, y, BAR, shapes[shape].color);
		}
		fprintf(picture->file, "<text x=\"%u\" y=\"%u\">%s</text>\n", x + 17, y + 10,
			shapes[shape].name);
		x += shape == RESOLUTIONS ? 210 : 130;
	}
}

static int time_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Return the time of the last event with room in the picture; *left: number of later events. */
static uint64_t drawn_until(const struct traces *traces, size_t *left)
{
	size_t count = 0, i, j;
	uint64_t *times, until = UINT64_MAX;

	*left = 0;
	for (i = 0; i < traces->count; i++)
		count += traces->list[i].count;
	if (count <= TRACE_SVG_MOST)
		return until;
	times = malloc(count * sizeof(*times));
	if (!times)
		return 0;
	for (count = i = 0; i < traces->count; i++) {
		for (j = 0; j < traces->list[i].count; j++)
			times[count++] = traces->list[i].events[j].time;
	}
	qsort(times, count, sizeof(*times), time_compare);
	until = times[TRACE_SVG_MOST - 1];
	free(times);
	*left = count - TRACE_SVG_MOST;
	return until;
}

void trace_svg_print(const struct traces *traces, FILE *file)
{
	struct picture picture = { .traces = traces, .file = file };
	unsigned height = TOP, y = TOP;
	uint64_t last = traces->last;
	size_t left, i;

	picture.until = drawn_until(traces, &left);
	if (last > picture.until)
		last = picture.until;
	picture.span = last > traces->first ? last - traces->first : 1;
	for (i = 0; i < traces->count; i++) {
		struct rows rows[SHAPES] = { 0 };

		rows_measure(&picture, &traces->list[i], rows);
		height += lane_height(rows) + LANE_GAP;
	}
	fprintf(file,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
		"viewBox=\"0 0 %d %u\" font-family=\"sans-serif\" font-size=\"11\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		WIDTH, height + 60, WIDTH, height + 60);
	for (i = 0; i < traces->count; i++)
		y += draw_lane(&picture, &traces->list[i], y) + LANE_GAP;
	draw_axis(&picture, height - LANE_GAP + 4);
	draw_legend(&picture, height + 22);
	if (left)
		fprintf(file, "<text x=\"%d\" y=\"%d\">%zu later events are not drawn</text>\n",
			LEFT, TOP - 8, left);
	fputs("</svg>\n", file);
}
