// SPDX-License-Identifier: MIT OR Apache-2.0
// The spans of programs in a range, by name: how many there are, how long they took, and where the slowest is.
import { useMemo } from "preact/hooks";
import { REST_MS, useAnswer } from "./answers";
import * as api from "./api";
import type { Props } from "./details";
import { around, revealed } from "./places";
import { type Column, DataTable } from "./tables";
import { duration } from "./time";
import type { Span } from "./timeline";

/** The tab of the details that shows them. */
export const SPANS_TAB = "spans";
/** What is seen around a short span, in ns. */
const AROUND = 2000;

export function SpansTab(props: Props & { range: Span }) {
	const { recording, origin, whole, lanes, shown, range, show } = props;
	const begin = origin + BigInt(Math.floor(range.begin));
	const end = origin + BigInt(Math.ceil(range.end));
	const { answer: spans, problem } = useAnswer(
		[recording, begin, end],
		(signal) => api.spans(recording, begin, end, signal),
		{ restMs: REST_MS },
	);
	const columns = useMemo((): Column<api.SpanRow>[] => {
		const open = ({ slowest_lane, slowest_begin_ns, max_ns }: api.SpanRow) => {
			const at = Number(BigInt(slowest_begin_ns!) - origin);
			const now = shown.span ?? whole;
			// What is wide enough to be seen stays where it is.
			const isSeen = at >= now.begin && at <= now.end && max_ns! * 200 > now.end - now.begin;
			const near = isSeen ? {} : { span: around({ begin: at, end: at + max_ns! }, whole, AROUND) };
			show({ ...revealed(slowest_lane!, at, shown, whole, lanes), ...near });
		};
		return [
			{ heading: "span", isNumber: false, key: (row) => row.name, cell: (row) => row.name, title: (row) => row.name },
			number("count", (row) => row.count, counted),
			number("total", (row) => row.total_ns, duration),
			number("median", (row) => row.p50_ns, duration),
			number("99th percentile", (row) => row.p99_ns, duration),
			{
				...number("slowest", (row) => row.max_ns, duration),
				cell: (row) =>
					row.max_ns != null && (
						<button
							type="button"
							class="link"
							title="Show in the timeline"
							aria-label={`${duration(row.max_ns)}: show the slowest ${row.name} in the timeline`}
							onClick={() => open(row)}
						>
							{duration(row.max_ns)}
						</button>
					),
			},
			number("threads", (row) => row.threads, counted),
			number("beyond range", (row) => row.beyond, counted),
			number("incomplete", (row) => row.incomplete, counted),
		];
	}, [origin, whole, lanes, shown, show]);
	if (problem !== undefined) return <p role="alert">{problem}</p>;
	if (!spans) return <p class="faint">Counting…</p>;
	if (spans.spans.length === 0) return <p>There are no spans in this range.</p>;
	return (
		<>
			<DataTable columns={columns} rows={spans.spans} caption="Spans by name" most={spans.spans.length} />
			<p class="faint">
				The times cover only spans that begin and end in the range. Spans that reach beyond it, and spans whose
				beginning or end is missing in the trace, are only counted. The median and the 99th percentile are accurate to
				within 1 %.
				{spans.left_out > 0 &&
					` ${counted(spans.left_out)} spans with other names are left out because there are too many names.`}
				{spans.has_losses && " Events may be missing in this range: hatched parts of the lanes show where."}
				{spans.is_part && " Only a part of the spans was counted because there are too many. Select a shorter range."}
			</p>
		</>
	);
}

const counted = (count: number): string => count.toLocaleString("en-US");

function number(
	heading: string,
	of: (row: api.SpanRow) => number | undefined,
	said: (value: number) => string,
): Column<api.SpanRow> {
	const cell = (row: api.SpanRow) => {
		const value = of(row);
		if (value === undefined) return "";
		return value === 0 ? <span class="faint">{said(0)}</span> : said(value);
	};
	return { heading, isNumber: true, key: (row) => of(row) ?? null, cell };
}
